//! A guest that breaks the protocol ends its own session and has no other effect.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use link::frame::{Frame, FrameDecoder, FrameKind};
use link::{
    ConnectError, IncomingStreams, Link, LinkDriver, LinkEnd, LinkLimits, LinkRole, StreamError,
    Violation, connect,
};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

fn limits() -> LinkLimits {
    LinkLimits {
        window: 640 * 1024,
        guest_window: 256 * 1024,
        peer_streams: 4,
        message: 200 * 1024,
    }
}

fn wire(stream: u32, kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let frame = Frame {
        stream,
        kind,
        payload: Bytes::copy_from_slice(payload),
    };
    [&frame.header()[..], payload].concat()
}

/// A valid greeting.
fn greeting() -> Vec<u8> {
    let payload = [&b"HOTC"[..], &[link::VERSION as u8], &[0]].concat();
    wire(0, FrameKind::Hello, &payload)
}

type TestDriver = LinkDriver<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A host that has received a greeting, and the guest's end of the wire, which buffers `buffer` bytes.
async fn host(buffer: usize) -> (Link, IncomingStreams, TestDriver, DuplexStream) {
    let (near, mut far) = tokio::io::duplex(buffer);
    let (reader, writer) = tokio::io::split(near);
    far.write_all(&greeting()).await.unwrap();
    let (_theirs, host, incoming, driver): (String, _, _, TestDriver) =
        connect(reader, writer, LinkRole::Host, limits(), &())
            .await
            .unwrap();
    (host, incoming, driver, far)
}

/// Lets a host read these bytes after the greeting, and returns how its session ended.
async fn run_host_with_input(bytes: Vec<u8>) -> Arc<LinkEnd> {
    let (host, mut incoming, driver, far) = host(1 << 20).await;
    // A stream opened by the host, as a target for the guest's frames.
    let _own = host.open().unwrap();
    let accept = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Some(stream) = incoming.accept().await {
            held.push(stream);
        }
    });
    let (mut drain, mut feed) = tokio::io::split(far);
    let drained = tokio::spawn(async move {
        let mut sink = vec![0; 4096];
        while matches!(drain.read(&mut sink).await, Ok(1..)) {}
    });
    let fed = tokio::spawn(async move {
        let _ = feed.write_all(&bytes).await;
        let _ = feed.shutdown().await;
    });
    let ended = driver.run().await;
    fed.await.unwrap();
    accept.await.unwrap();
    drained.abort();
    ended
}

#[tokio::test]
async fn each_broken_rule_ends_the_session_with_its_name() {
    let check =
        async |bytes: Vec<u8>, expect: fn(&Violation) -> bool| match &*run_host_with_input(bytes)
            .await
        {
            LinkEnd::Violation(violation) => assert!(expect(violation), "{violation}"),
            other => panic!("{other}"),
        };
    let open = |id| wire(id, FrameKind::Open, &[]);
    check(vec![0xff; 64], |v| matches!(v, Violation::Frame(_))).await;
    check(greeting(), |v| matches!(v, Violation::Greeting)).await;
    check(open(0), |v| matches!(v, Violation::Opened(0))).await;
    check(open(3), |v| matches!(v, Violation::Opened(3))).await;
    check([open(2), open(2)].concat(), |v| {
        matches!(v, Violation::Opened(2))
    })
    .await;
    let many = (1..=5).flat_map(|id| open(id * 2)).collect();
    check(many, |v| matches!(v, Violation::TooManyStreams(4))).await;
    let flood = (0..12)
        .flat_map(|_| wire(1, FrameKind::Data, &[0; 60_000]))
        .collect();
    check(flood, |v| matches!(v, Violation::Window(1))).await;
    let empty = (0..21_000)
        .flat_map(|_| wire(1, FrameKind::Data, &[]))
        .collect();
    check(empty, |v| matches!(v, Violation::Window(1))).await;
    check(wire(1, FrameKind::Credit, &1u32.to_le_bytes()), |v| {
        matches!(v, Violation::Credit(1))
    })
    .await;
    check(wire(1, FrameKind::Credit, &[1]), |v| {
        matches!(v, Violation::Credit(1))
    })
    .await;
    let after = [wire(1, FrameKind::End, &[]), wire(1, FrameKind::Data, b"x")].concat();
    check(after, |v| matches!(v, Violation::AfterEnd(1))).await;
    let twice = [wire(1, FrameKind::End, &[]), wire(1, FrameKind::End, &[])].concat();
    check(twice, |v| matches!(v, Violation::AfterEnd(1))).await;
}

#[tokio::test]
async fn frames_of_unknown_streams_and_cut_frames_do_no_harm() {
    let late = [
        wire(99, FrameKind::Data, b"late"),
        wire(98, FrameKind::Stop, &[]),
    ]
    .concat();
    assert!(matches!(*run_host_with_input(late).await, LinkEnd::Closed));
    assert!(matches!(
        *run_host_with_input(wire(1, FrameKind::Data, b"x")[..5].to_vec()).await,
        LinkEnd::Cut
    ));
}

#[tokio::test]
async fn another_version_or_another_program_is_told_apart() {
    let greet = async |payload: Vec<u8>| {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(near);
        far.write_all(&wire(0, FrameKind::Hello, &payload))
            .await
            .unwrap();
        drop(far.shutdown().await);
        connect::<_, _, _, ()>(reader, writer, LinkRole::Host, limits(), &())
            .await
            .map(|_| ())
    };
    let newer = [&b"HOTC"[..], &[link::VERSION as u8 + 1]].concat();
    assert!(matches!(
        greet(newer).await,
        Err(ConnectError::Version { .. })
    ));
    assert!(matches!(
        greet(b"SSH-2.0-x".to_vec()).await,
        Err(ConnectError::Stranger)
    ));
    assert!(matches!(
        greet(Vec::new()).await,
        Err(ConnectError::Stranger)
    ));
}

/// Runs a host that drops incoming streams, as with the network off, against a guest that never reads
/// and sends the results of the first closure for 0, 1, 2 and so on.
async fn run_host_with_non_reading_guest(
    next: impl Fn(u32) -> Vec<u8>,
    own: impl FnOnce(&Link),
) -> Arc<LinkEnd> {
    let (host, mut incoming, driver, mut far) = host(256).await;
    own(&host);
    // Lets the tasks that `own` spawned run first, before the host writes anything.
    tokio::task::yield_now().await;
    let refuse = async move { while incoming.accept().await.is_some() {} };
    let feed = async move {
        let mut number = 0;
        while far.write_all(&next(number)).await.is_ok() {
            number += 1;
        }
    };
    let (ended, (), ()) = tokio::join!(driver.run(), refuse, feed);
    ended
}

/// Makes the host send more than the wire buffers, so that later frames are never written.
fn fill_write_buffer(host: &Link) {
    let mut stuck = host.open().unwrap();
    tokio::spawn(async move {
        let _ = stuck.send(&vec![0u8; 100_000]).await;
        std::future::pending::<()>().await;
    });
}

#[tokio::test]
async fn streams_opened_and_stopped_by_a_guest_that_never_reads_are_counted() {
    let pair = |number: u32| {
        let id = (number + 1) * 2;
        [
            wire(id, FrameKind::Open, &[]),
            wire(id, FrameKind::Stop, &[]),
        ]
        .concat()
    };
    let ended = run_host_with_non_reading_guest(pair, |_| {}).await;
    let expected = Violation::TooManyStreams(limits().peer_streams);
    assert!(
        matches!(&*ended, LinkEnd::Violation(found) if *found == expected),
        "{ended}"
    );
}

#[tokio::test]
async fn credit_that_a_guest_never_reads_is_not_granted_again() {
    let consume = |host: &Link| {
        let mut stream = host.open().unwrap();
        tokio::spawn(async move { while let Ok(Some(_)) = stream.receive().await {} });
    };
    let flood = |_| wire(1, FrameKind::Data, &[0; 8192]);
    let ended = run_host_with_non_reading_guest(flood, |host| {
        consume(host);
        fill_write_buffer(host);
    })
    .await;
    assert!(
        matches!(&*ended, LinkEnd::Violation(Violation::Window(1))),
        "{ended}"
    );
}

#[tokio::test]
async fn what_comes_for_a_stream_that_nobody_reads_is_not_kept_without_end() {
    let flood = |number: u32| match number {
        0 => wire(2, FrameKind::Open, &[]),
        _ => wire(2, FrameKind::Data, &[0; 4096]),
    };
    let ended = run_host_with_non_reading_guest(flood, fill_write_buffer).await;
    assert!(
        matches!(&*ended, LinkEnd::Violation(Violation::Window(2))),
        "{ended}"
    );
}

#[tokio::test]
async fn a_message_without_end_is_refused_while_it_arrives() {
    let parts = (0..3).flat_map(|_| wire(1, FrameKind::Part, &[0; 100_000]));
    let ended = run_host_with_input(parts.collect()).await;
    assert!(matches!(*ended, LinkEnd::Violation(Violation::Message(1))));
    // On a stream that the guest opened, a message is limited to one frame.
    let parts = (0..3).flat_map(|_| wire(2, FrameKind::Part, &[0; 60_000]));
    let bytes = [wire(2, FrameKind::Open, &[]), parts.collect()].concat();
    let ended = run_host_with_input(bytes).await;
    assert!(matches!(*ended, LinkEnd::Violation(Violation::Message(2))));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_reads_ends_the_session_in_time_and_by_name() {
    let (host, _incoming, driver, far) = host(256).await;
    let driver = driver.with_read_timeout(Duration::from_secs(60));
    let mut stream = host.open().unwrap();
    let asked = async {
        stream.send(&vec![0u8; 100_000]).await.unwrap();
        stream.receive().await.unwrap_err()
    };
    let (ended, error) = tokio::join!(driver.run(), asked);
    assert!(matches!(*ended, LinkEnd::NotReading(_)), "{ended}");
    let StreamError::Fault(fault) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        fault.to_string(),
        "the other end did not read for 60 seconds"
    );
    assert!(error.source().is_some());
    assert!(host.open().is_none());
    assert!(host.fault().is_some());
    drop(far);
}

#[tokio::test]
async fn requests_that_a_guest_does_not_take_in_are_bounded() {
    let (host, _incoming, driver, far) = host(256).await;
    let running = tokio::spawn(driver.run());
    // Dropped streams remain until the guest has read their end.
    let opened = std::iter::from_fn(|| host.open()).take(10_000).count();
    assert!(
        opened < 5_000,
        "{opened} streams for a guest that never reads"
    );
    let ended = running.await.unwrap();
    assert!(
        matches!(&*ended, LinkEnd::Violation(Violation::Unserved(_))),
        "{ended}"
    );
    drop(far);
}

#[test]
fn a_short_frame_does_not_keep_the_read_buffer_alive() {
    let mut decoder = FrameDecoder::default();
    for _ in 0..3 {
        decoder
            .buffer()
            .extend_from_slice(&wire(1, FrameKind::Data, b"x"));
        let first = decoder.next_frame().unwrap().unwrap();
        decoder
            .buffer()
            .extend_from_slice(&wire(1, FrameKind::Data, b"y")[..5]);
        assert!(first.payload.is_unique());
        decoder
            .buffer()
            .extend_from_slice(&wire(1, FrameKind::Data, b"y")[5..]);
        assert_eq!(decoder.next_frame().unwrap().unwrap().payload, "y");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Random bytes and well-formed frames in any order end the session without a panic.
    #[test]
    fn no_bytes_do_more_than_end_the_session(
        frames in proptest::collection::vec((0u32..8, 1u8..=11, proptest::collection::vec(any::<u8>(), 0..40)), 0..40),
        tail in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = Vec::new();
        for (stream, kind, payload) in &frames {
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&stream.to_le_bytes());
            bytes.push(*kind);
            bytes.extend_from_slice(payload);
        }
        bytes.extend_from_slice(&tail);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run_host_with_input(bytes));
    }
}
