//! A hostile guest: whatever it sends after its greeting, the host's session ends in order. No
//! panic, no hang, and no stream that holds more than its window.

#![no_main]

use arbitrary::Arbitrary;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use link::frame::{Frame, FrameKind};
use link::request::{Exit, GuestGreeting, GuestRequest, GuestResult};
use link::{Link, LinkItem, LinkLimits, LinkRole, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

/// What a guest may send: frames that look right, and bytes that do not.
#[derive(Debug, Arbitrary)]
enum Piece {
    Frame {
        stream: u8,
        kind: u8,
        payload: Vec<u8>,
    },
    Large {
        stream: u8,
        kind: u8,
        length: u16,
    },
    Bytes(Vec<u8>),
}

impl Piece {
    fn wire(&self) -> Vec<u8> {
        let frame = |stream: u8, kind: u8, payload: Vec<u8>| {
            let frame = Frame {
                stream: stream.into(),
                kind: kinds(kind),
                payload: payload.into(),
            };
            [&frame.header()[..], &frame.payload].concat()
        };
        match self {
            Self::Frame {
                stream,
                kind,
                payload,
            } => frame(stream % 12, *kind, payload.clone()),
            Self::Large {
                stream,
                kind,
                length,
            } => frame(stream % 12, *kind, vec![7; usize::from(*length)]),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

fn kinds(byte: u8) -> FrameKind {
    const ALL: [FrameKind; 10] = [
        FrameKind::Hello,
        FrameKind::Open,
        FrameKind::Part,
        FrameKind::Message,
        FrameKind::Data,
        FrameKind::Errors,
        FrameKind::Credit,
        FrameKind::End,
        FrameKind::Abort,
        FrameKind::Stop,
    ];
    ALL[usize::from(byte) % ALL.len()]
}

const LIMITS: LinkLimits = LinkLimits {
    window: 640 * 1024,
    guest_window: 256 * 1024,
    peer_streams: 4,
    message: 200 * 1024,
};

fuzz_target!(|pieces: Vec<Piece>| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime with nothing but timers always starts");
    runtime.block_on(session(&pieces));
});

async fn session(pieces: &[Piece]) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(near);
    let (mut drain, mut feed) = tokio::io::split(far);
    let hello = [&b"HOTC"[..], &[link::VERSION as u8, 0]].concat();
    let hello = Frame {
        stream: 0,
        kind: FrameKind::Hello,
        payload: Bytes::from(hello),
    };
    let mut wire = [&hello.header()[..], &hello.payload].concat();
    wire.extend(pieces.iter().flat_map(Piece::wire));

    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let _ = feed.write_all(&wire).await;
        let _ = feed.shutdown().await;
    });
    tasks.spawn(async move {
        let mut sink = vec![0; 4096];
        while matches!(drain.read(&mut sink).await, Ok(1..)) {}
    });
    let connected = link::connect(reader, writer, LinkRole::Host, LIMITS, &()).await;
    let (_ready, host, mut incoming, driver): (GuestGreeting, Link, _, _) =
        connected.expect("the greeting is an honest one");
    // Streams of the host's own, one that reads what comes and one that expects an answer.
    let reads = host.open().expect("the link is open");
    let expects = host.open().expect("the link is open");
    tasks.spawn(consume(reads));
    tasks.spawn(async move {
        let mut stream = expects;
        if stream.send(&GuestRequest::Stats).await.is_ok() {
            let _ = stream.expect::<GuestResult<Exit>>().await;
        }
    });
    tasks.spawn(async move {
        let mut held = JoinSet::new();
        while let Some(stream) = incoming.accept().await {
            held.spawn(consume(stream));
        }
        while held.join_next().await.is_some() {}
    });
    driver.run().await;
    drop(host);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
}

async fn consume(mut stream: Stream) {
    while let Ok(Some(item)) = stream.receive().await {
        match item {
            LinkItem::Data(bytes) | LinkItem::Errors(bytes) => {
                assert!(bytes.len() <= LIMITS.window as usize);
            }
            message => drop(message.decode::<GuestResult<Exit>>()),
        }
    }
}
