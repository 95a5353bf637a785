//! Streams lose nothing, keep order, are fair and bounded, for any chunk size.

use bytes::Bytes;
use link::{LinkItem, LinkLimits, Stream};
use proptest::prelude::*;

use crate::pair;

fn small_limits() -> LinkLimits {
    LinkLimits {
        window: 768 * 1024,
        guest_window: 256 * 1024,
        peer_streams: 64,
        message: 1024 * 1024,
    }
}

#[tokio::test]
async fn a_sender_that_is_dropped_leaves_the_answer_to_come() {
    let (host, mut guest) = pair(64, small_limits()).await;
    let mut stream = host.link.open().unwrap();
    stream.send(&"question").await.unwrap();
    let (mut sender, mut receiver) = stream.split();
    sender.end();
    drop(sender);
    let mut there = guest.incoming.accept().await.unwrap();
    assert_eq!(there.expect::<String>().await.unwrap(), "question");
    assert_eq!(there.receive().await.unwrap(), None);
    there.send(&"answer").await.unwrap();
    drop(there);
    assert_eq!(receiver.expect::<String>().await.unwrap(), "answer");
    assert!(
        receiver.receive().await.is_err(),
        "the sender was dropped without an end"
    );
}

#[tokio::test]
async fn an_answer_is_read_though_the_question_went_on() {
    let (host, mut guest) = pair(64, small_limits()).await;
    let mut stream = host.link.open().unwrap();
    stream.send(&"question").await.unwrap();
    let mut there = guest.incoming.accept().await.unwrap();
    there.expect::<String>().await.unwrap();
    there.send(&"answer").await.unwrap();
    drop(there);
    assert_eq!(stream.expect::<String>().await.unwrap(), "answer");
    assert!(stream.send(&"more").await.is_err());
}

#[tokio::test]
async fn a_sender_that_is_dropped_is_not_taken_for_a_whole_answer() {
    let (host, mut guest) = pair(64, small_limits()).await;
    let mut stream = host.link.open().unwrap();
    stream.send(&1u8).await.unwrap();
    drop(stream);
    let mut there = guest.incoming.accept().await.unwrap();
    assert_eq!(there.expect::<u8>().await.unwrap(), 1);
    assert!(there.receive().await.is_err());
}

#[tokio::test]
async fn a_receiver_that_is_dropped_breaks_the_stream_for_the_sender() {
    let (host, mut guest) = pair(1 << 20, small_limits()).await;
    let mut stream = host.link.open().unwrap();
    stream.send(&1u8).await.unwrap();
    let mut there = guest.incoming.accept().await.unwrap();
    there.expect::<u8>().await.unwrap();
    drop(stream);
    let (mut sender, mut receiver) = there.split();
    receiver.wait_until_peer_stops().await;
    assert!(sender.send_data(Bytes::from_static(b"x")).await.is_err());
}

#[tokio::test]
async fn a_stream_that_nobody_reads_delays_no_other() {
    let (host, mut guest) = pair(4096, small_limits()).await;
    let mut stuck = host.link.open().unwrap();
    stuck.send(&()).await.unwrap();
    let mut busy = guest.incoming.accept().await.unwrap();
    let flood = tokio::spawn(async move {
        busy.expect::<()>().await.unwrap();
        let (mut sender, _receiver) = busy.split();
        let mut sent = 0u64;
        while sender.send_data(Bytes::from(vec![0; 60_000])).await.is_ok() {
            sent += 60_000;
        }
        sent
    });
    // A thousand round trips on another stream while the first one is full.
    let mut quick = host.link.open().unwrap();
    quick.send(&0u32).await.unwrap();
    let mut echo = guest.incoming.accept().await.unwrap();
    let echo = tokio::spawn(async move {
        while let Ok(Some(item)) = echo.receive().await {
            echo.send(&item.decode::<u32>().unwrap()).await.unwrap();
        }
    });
    for number in 0..1000u32 {
        assert_eq!(quick.expect::<u32>().await.unwrap(), number);
        if number < 999 {
            quick.send(&(number + 1)).await.unwrap();
        }
    }
    drop(quick);
    echo.await.unwrap();
    drop(stuck);
    let sent = flood.await.unwrap();
    assert!(
        sent <= u64::from(small_limits().window),
        "{sent} bytes for a reader that never read"
    );
}

#[tokio::test]
async fn a_long_message_travels_in_parts() {
    let (host, mut guest) = pair(777, small_limits()).await;
    let long = "x".repeat(900_000);
    let mut stream = host.link.open().unwrap();
    let send = async {
        stream.send(&long).await.unwrap();
        stream
    };
    let receive = async {
        let mut there = guest.incoming.accept().await.unwrap();
        there.expect::<String>().await.unwrap()
    };
    let (_stream, received) = tokio::join!(send, receive);
    assert_eq!(received, long);
}

#[tokio::test]
async fn closing_the_link_ends_everything_and_keeps_what_arrived() {
    let (host, mut guest) = pair(1 << 20, small_limits()).await;
    let mut stream = host.link.open().unwrap();
    stream.send(&7u8).await.unwrap();
    let mut there = guest.incoming.accept().await.unwrap();
    host.link.close();
    host.driver.await.unwrap();
    guest.driver.await.unwrap();
    assert_eq!(there.expect::<u8>().await.unwrap(), 7);
    assert!(there.receive().await.is_err());
    assert!(guest.incoming.accept().await.is_none());
    assert!(host.link.open().is_none());
}

/// An item that a stream sends, with its size.
#[derive(Debug, Clone)]
enum SentItem {
    Message(usize),
    Data(usize),
    Errors(usize),
}

fn sent() -> impl Strategy<Value = SentItem> {
    prop_oneof![
        (0usize..200_000).prop_map(SentItem::Message),
        (1usize..150_000).prop_map(SentItem::Data),
        (1usize..5_000).prop_map(SentItem::Errors),
    ]
}

/// Bytes that depend on the position and the stream.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + seed * 17) as u8)
        .collect()
}

async fn send_all(mut stream: Stream, seed: usize, script: Vec<SentItem>) {
    stream.send(&seed).await.unwrap();
    let (mut sender, mut receiver) = stream.split();
    for one in &script {
        match *one {
            SentItem::Message(length) => sender.send(&pattern(seed, length)).await.unwrap(),
            SentItem::Data(length) => sender
                .send_data(pattern(seed, length).into())
                .await
                .unwrap(),
            SentItem::Errors(length) => sender
                .send_stderr(pattern(seed, length).into())
                .await
                .unwrap(),
        }
    }
    sender.end();
    // Wait until the other end has read everything and drops its stream.
    assert!(receiver.receive().await.is_err());
}

async fn check_all(mut stream: Stream, scripts: &[Vec<SentItem>]) {
    let seed: usize = stream.expect().await.unwrap();
    for one in &scripts[seed] {
        let (expected, mut got) = match *one {
            SentItem::Message(length) => {
                let message: Vec<u8> = stream.expect().await.unwrap();
                assert_eq!(message, pattern(seed, length));
                continue;
            }
            SentItem::Data(length) | SentItem::Errors(length) => {
                (pattern(seed, length), Vec::new())
            }
        };
        while got.len() < expected.len() {
            match (stream.receive().await.unwrap().unwrap(), one) {
                (LinkItem::Data(bytes), SentItem::Data(_))
                | (LinkItem::Errors(bytes), SentItem::Errors(_)) => {
                    got.extend_from_slice(&bytes);
                }
                (item, one) => panic!("{item:?} instead of {one:?}"),
            }
        }
        assert!(
            got == expected,
            "content of stream {seed} changed on its way"
        );
    }
    assert_eq!(stream.receive().await.unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_is_lost_or_reordered(
        scripts in proptest::collection::vec(proptest::collection::vec(sent(), 0..6), 1..6),
        wire in 1usize..100_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (host, mut guest) = pair(wire, small_limits()).await;
            let mut sending = tokio::task::JoinSet::new();
            for (seed, script) in scripts.iter().enumerate() {
                sending.spawn(send_all(host.link.open().unwrap(), seed, script.clone()));
            }
            let mut checking = tokio::task::JoinSet::new();
            for _ in 0..scripts.len() {
                let stream = guest.incoming.accept().await.unwrap();
                let scripts = scripts.clone();
                checking.spawn(async move { check_all(stream, &scripts).await });
            }
            while let Some(done) = checking.join_next().await { done.unwrap(); }
            while let Some(done) = sending.join_next().await { done.unwrap(); }
        });
    }
}
