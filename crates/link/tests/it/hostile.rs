//! A guest that breaks the rules loses its session, and nothing else happens.

use bytes::Bytes;
use link::frame::{Frame, Kind};
use link::{ConnectError, Driver, Ended, Limits, Role, Violation, connect};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};

fn limits() -> Limits {
    Limits {
        window: 640 * 1024,
        peer_streams: 4,
        message: 200 * 1024,
    }
}

fn wire(stream: u32, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let frame = Frame {
        stream,
        kind,
        payload: Bytes::copy_from_slice(payload),
    };
    [&frame.header()[..], payload].concat()
}

/// A greeting as an honest guest would send it.
fn greeting() -> Vec<u8> {
    let payload = [&b"HOTC"[..], &[link::VERSION as u8], &[0]].concat();
    wire(0, Kind::Hello, &payload)
}

/// Lets a host read these bytes after the greeting, and returns how its session ended.
async fn host_reads(bytes: Vec<u8>) -> Ended {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(near);
    far.write_all(&greeting()).await.unwrap();
    type End = Driver<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;
    let (_theirs, host, mut incoming, driver): (String, _, _, End) =
        connect(reader, writer, Role::Host, limits(), &())
            .await
            .unwrap();
    // One stream of the host's own, so that there is something to attack.
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
    let check = async |bytes: Vec<u8>, expect: fn(&Violation) -> bool| match host_reads(bytes).await
    {
        Ended::Violation(violation) => assert!(expect(&violation), "{violation}"),
        other => panic!("{other}"),
    };
    let open = |id| wire(id, Kind::Open, &[]);
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
        .flat_map(|_| wire(1, Kind::Data, &[0; 60_000]))
        .collect();
    check(flood, |v| matches!(v, Violation::Window(1))).await;
    let empty = (0..21_000).flat_map(|_| wire(1, Kind::Data, &[])).collect();
    check(empty, |v| matches!(v, Violation::Window(1))).await;
    check(wire(1, Kind::Credit, &1u32.to_le_bytes()), |v| {
        matches!(v, Violation::Credit(1))
    })
    .await;
    check(wire(1, Kind::Credit, &[1]), |v| {
        matches!(v, Violation::Credit(1))
    })
    .await;
    let after = [wire(1, Kind::End, &[]), wire(1, Kind::Data, b"x")].concat();
    check(after, |v| matches!(v, Violation::AfterEnd(1))).await;
    let twice = [wire(1, Kind::End, &[]), wire(1, Kind::End, &[])].concat();
    check(twice, |v| matches!(v, Violation::AfterEnd(1))).await;
}

#[tokio::test]
async fn frames_of_unknown_streams_and_cut_frames_do_no_harm() {
    let late = [wire(99, Kind::Data, b"late"), wire(98, Kind::Stop, &[])].concat();
    assert!(matches!(host_reads(late).await, Ended::Closed));
    assert!(matches!(
        host_reads(wire(1, Kind::Data, b"x")[..5].to_vec()).await,
        Ended::Cut
    ));
}

#[tokio::test]
async fn another_version_or_another_program_is_told_apart() {
    let greet = async |payload: Vec<u8>| {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(near);
        far.write_all(&wire(0, Kind::Hello, &payload))
            .await
            .unwrap();
        drop(far.shutdown().await);
        connect::<_, _, _, ()>(reader, writer, Role::Host, limits(), &())
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any bytes at all, and any well-formed frames in any order: the session ends, no panic.
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
        runtime.block_on(host_reads(bytes));
    }
}
