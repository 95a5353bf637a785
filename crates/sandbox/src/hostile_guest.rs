//! Tests the host's handle against a compromised guest: it sends more than requested, never reads,
//! never answers, or stops half-way. The host must return an error that names the cause, in bounded
//! memory and time.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use bytes::Bytes;
use link::request::{
    Batch, ByteString, CommandStatus, Exit, FileKind, GuestGreeting, GuestRequest, GuestResult,
    GuestSettings, ListEntry, ListRequest, PathMetadata, Refusal, RefusalKind, ShellProgress,
    Truncated,
};
use link::{IncomingStreams, Link, LinkLimits, LinkRole, Stream};
use protocol::Backend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::backends::{BoxFuture, RunningWalls, StartedBackend};
use crate::error_chain::error_chain;
use crate::exec::ExecCommand;
use crate::handle::Sandbox;
use crate::recorder::AuditRecorder;
use crate::spec::SandboxSpec;

/// Placeholder: the test itself is the guest.
#[derive(Debug)]
struct NoWalls;

impl RunningWalls for NoWalls {
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(std::future::ready(0))
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(std::future::ready(0))
    }
}

/// The host's handle to a guest that the test simulates.
async fn sandbox(near: UnixStream, change: impl FnOnce(&mut SandboxSpec)) -> Sandbox {
    let mut spec = SandboxSpec::new("/nowhere");
    change(&mut spec);
    let raised = StartedBackend::usual(Backend::Native, near, Box::new(NoWalls), vec![], vec![]);
    let recorder = AuditRecorder::new("hostile", None);
    let disk_limit = crate::disk_limit::DiskLimiter::none();
    Sandbox::greet("hostile".into(), recorder, raised, spec, disk_limit)
        .await
        .unwrap()
}

/// A guest that speaks the link protocol and answers its first request with `misbehave`.
async fn with_guest<F: Future<Output = ()> + Send>(
    misbehave: impl FnOnce(Stream, Link, IncomingStreams) -> F + Send + 'static,
) -> Sandbox {
    with_guest_and_spec(|_| {}, misbehave).await
}

async fn with_guest_and_spec<F: Future<Output = ()> + Send>(
    change: impl FnOnce(&mut SandboxSpec),
    misbehave: impl FnOnce(Stream, Link, IncomingStreams) -> F + Send + 'static,
) -> Sandbox {
    let (near, far) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        let (reader, writer) = far.into_split();
        let ready = GuestGreeting {
            release: "\u{1b}[2J".repeat(10_000),
        };
        let limits = LinkLimits {
            peer_streams: 4096,
            ..LinkLimits::default()
        };
        let (_, link, mut incoming, driver): (GuestSettings, _, _, _) =
            link::connect(reader, writer, LinkRole::Guest, limits, &ready)
                .await
                .unwrap();
        let driver = tokio::spawn(driver.run());
        if let Some(stream) = incoming.accept().await {
            misbehave(stream, link, incoming).await;
        }
        let _ = driver.await;
    });
    sandbox(near, change).await
}

fn entry(path: usize) -> ListEntry {
    ListEntry {
        path: ByteString(vec![b'a'; path]),
        kind: FileKind::File,
        size: 0,
        target: None,
    }
}

fn list(limit: u64) -> ListRequest {
    ListRequest {
        path: ByteString::from("."),
        depth: 1,
        ignore: false,
        hidden: true,
        globs: Vec::new(),
        limit,
    }
}

/// Sends the same message until sending fails.
async fn without_end<T: serde::Serialize>(mut stream: Stream, message: T) {
    stream.expect::<GuestRequest>().await.unwrap();
    while stream.send(&message).await.is_ok() {}
}

#[tokio::test]
async fn a_listing_is_no_longer_than_was_asked_for() {
    for together in [1, 7, 100_000] {
        let endless = move |stream, _link, _incoming| {
            without_end(stream, Batch::Items(vec![entry(1); together]))
        };
        let sandbox = with_guest(endless).await;
        let error = sandbox.list(list(20)).await.unwrap().collect().await;
        let error = error.unwrap_err();
        assert!(error.is_final());
        let said = error_chain(&error);
        assert!(said.contains("more than the 20 items"), "{said}");
        // The link has ended, and later requests report the same cause.
        let said = error_chain(&sandbox.stats().await.unwrap_err());
        assert!(said.contains("more than the 20 items"), "{said}");
        sandbox.end().await;
    }
}

#[tokio::test]
async fn a_listing_of_giant_names_is_bounded_in_bytes() {
    let giants = |stream, _link, _incoming| without_end(stream, Batch::Items(vec![entry(3 << 20)]));
    let sandbox = with_guest(giants).await;
    let error = sandbox.list(list(50_000)).await.unwrap().collect().await;
    let said = error_chain(&error.unwrap_err());
    assert!(said.contains("more than 64M in one answer"), "{said}");
}

#[tokio::test]
async fn an_answer_as_long_as_asked_for_is_taken() {
    let honest = async |mut stream: Stream| {
        stream.expect::<GuestRequest>().await.unwrap();
        for _ in 0..4 {
            let items = Batch::Items(vec![entry(5); 5]);
            stream.send(&items).await.unwrap();
        }
        let done = Batch::<ListEntry>::Done(Ok(Truncated(true)));
        stream.send(&done).await.unwrap();
    };
    let sandbox = with_guest(move |stream, _link, _incoming| honest(stream)).await;
    let (entries, is_cut) = sandbox
        .list(list(20))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!((entries.len(), is_cut), (20, true));
}

#[tokio::test]
async fn output_past_the_limit_ends_the_link() {
    let endless = async |stream: Stream| {
        let (mut sender, mut receiver) = stream.split();
        receiver.expect::<GuestRequest>().await.unwrap();
        let piece = Bytes::from(vec![0; 60_000]);
        while sender.send_data(piece.clone()).await.is_ok() {}
    };
    let limit = |spec: &mut SandboxSpec| spec.limits.output = Some(100_000);
    let sandbox = with_guest_and_spec(limit, move |stream, _, _| endless(stream)).await;
    let error = sandbox.run(ExecCommand::new(["true"])).await.unwrap_err();
    let said = error_chain(&error);
    assert!(said.contains("output that a command may print"), "{said}");
}

#[tokio::test]
async fn a_file_is_no_longer_than_was_asked_for() {
    let endless = async |stream: Stream| {
        let (mut sender, mut receiver) = stream.split();
        receiver.expect::<GuestRequest>().await.unwrap();
        let metadata = PathMetadata {
            kind: FileKind::File,
            size: 10,
            mode: 0,
            modified: 0,
            target: None,
        };
        sender.send(&GuestResult::Ok(metadata)).await.unwrap();
        while sender.send_data(Bytes::from_static(b"x")).await.is_ok() {}
    };
    let sandbox = with_guest(move |stream, _, _| endless(stream)).await;
    let error = sandbox.read_file("x", 0, Some(10)).await.unwrap_err();
    let said = error_chain(&error);
    assert!(said.contains("more than the bytes"), "{said}");
}

#[tokio::test]
async fn what_a_guest_says_is_cut_to_a_length() {
    let refuse = async |mut stream: Stream| {
        stream.expect::<GuestRequest>().await.unwrap();
        let message = "ä".repeat(1 << 20);
        let kind = RefusalKind::Other;
        let refusal = GuestResult::<()>::Err(Refusal { kind, message });
        stream.send(&refusal).await.unwrap();
    };
    let sandbox = with_guest(move |stream, _, _| refuse(stream)).await;
    let error = sandbox.stat("x").await.unwrap_err();
    assert_eq!(error.to_string().chars().count(), 4096);

    let elsewhere = async |mut stream: Stream| {
        stream.expect::<GuestRequest>().await.unwrap();
        let progress = GuestResult::Ok(ShellProgress {
            job: 1,
            exit: Some(Exit {
                status: CommandStatus::Code(0),
                limit: None,
            }),
            output_open: false,
            dropped: 0,
            cwd: Some(ByteString(vec![b'/'; 1 << 20])),
        });
        stream.send(&progress).await.unwrap();
        stream.receive().await.ok();
    };
    let sandbox = with_guest(move |stream, _, _| elsewhere(stream)).await;
    let shell = sandbox.shell("main", "true", Duration::from_secs(1), |_, _| {});
    assert_eq!(shell.await.unwrap().cwd, None);
}

/// With the network off every stream is refused, and streams that a guest keeps opening are
/// counted.
#[tokio::test]
async fn a_guest_that_opens_streams_without_end_loses_its_session() {
    let open = async |stream: Stream, link: Link| {
        let mut held = Vec::new();
        while let Some(stream) = link.open() {
            held.push(stream);
            tokio::task::yield_now().await;
        }
        drop(stream);
    };
    let sandbox = with_guest(move |stream, link, _| open(stream, link)).await;
    let error = sandbox.stats().await.unwrap_err();
    assert!(error.is_final(), "{error}");
}

/// A guest that goes silent after sending these bytes: pending requests must time out with an error.
async fn silent_after(bytes: &[u8]) {
    let (near, mut far) = UnixStream::pair().unwrap();
    let hello = [&b"HOTC"[..], &[link::VERSION as u8, 1, b'x']].concat();
    far.write_all(&framed(0, 1, &hello)).await.unwrap();
    let sandbox = sandbox(near, |_| {}).await;
    far.write_all(bytes).await.unwrap();
    let asked = async {
        let error = sandbox.stat("x").await.unwrap_err();
        let said = error_chain(&error);
        assert!(said.contains("did not answer a request within"), "{said}");
        assert!(error.is_final());
        let error = sandbox.run(ExecCommand::new(["true"])).await.unwrap_err();
        assert!(
            error_chain(&error).contains("did not answer a request"),
            "{error}"
        );
    };
    // Time is paused only after the handshake, because a paused clock advances while a socket is pending.
    tokio::time::pause();
    asked.await;
    tokio::time::resume();
    sandbox.end().await;
}

fn framed(stream: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut bytes = [length.to_le_bytes(), stream.to_le_bytes()].concat();
    bytes.push(kind);
    [&bytes[..], payload].concat()
}

#[tokio::test]
async fn a_guest_that_says_nothing_is_not_waited_for_without_end() {
    silent_after(&[]).await;
}

#[tokio::test]
async fn a_guest_that_stops_inside_a_frame_is_not_waited_for_without_end() {
    const MESSAGE: u8 = 4;
    silent_after(&framed(1, MESSAGE, b"an answer")[..12]).await;
}

/// Never reads, but opens and stops streams: red-team line 102.
#[tokio::test]
async fn a_guest_that_never_reads_loses_its_session_by_name() {
    const OPEN: u8 = 2;
    const STOP: u8 = 10;
    let (near, mut far) = UnixStream::pair().unwrap();
    let hello = [&b"HOTC"[..], &[link::VERSION as u8, 1, b'x']].concat();
    far.write_all(&framed(0, 1, &hello)).await.unwrap();
    let sandbox = sandbox(near, |_| {}).await;
    let (mut never_read, mut sends) = far.into_split();
    let attack = async {
        let mut id = 2u32;
        loop {
            let pair = [framed(id, OPEN, &[]), framed(id, STOP, &[])].concat();
            if sends.write_all(&pair).await.is_err() {
                return;
            }
            id += 2;
        }
    };
    // More than the socket buffer holds, so that the host cannot write either.
    let large = sandbox.write_file("x", vec![0; 8 << 20], link::request::WriteMode::Replace);
    let (error, ()) = tokio::join!(large, attack);
    let said = error_chain(&error.unwrap_err());
    assert!(said.contains("more than 256 streams at once"), "{said}");
    let mut unread = Vec::new();
    let _ = never_read.read_to_end(&mut unread).await;
}
