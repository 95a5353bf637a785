//! Followers that do not read affect only themselves.

use testkit::{ScriptedAnswer, StreamGate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;

/// Connections that request a job's events and never read them.
const IDLE_READERS: usize = 20;
/// Maximum memory that each may use in the server, besides the system's buffers.
const MAX_BYTES_PER_READER: u64 = 4 << 20;

#[test]
fn a_reader_that_never_reads_holds_up_nobody() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        // Output is sent as it comes, in more pieces than any buffer holds.
        let model = serve(move |request| match RequestView::of(request).results {
            0 => ScriptedAnswer::reply(bash("true")).hold(0, &held),
            number @ 1..=10 => ScriptedAnswer::reply(bash(&format!(
                "head -c 2M /dev/zero | tr '\\0' 'x' | fold; echo {number}"
            ))),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let id = client.schedule_task("Say much").await;
        client.until(&id, "running").await;
        let mut idle = Vec::new();
        for _ in 0..IDLE_READERS {
            idle.push(ask_and_not_read(client.address(), &id).await);
        }
        let before = server.memory();
        let reader = client.follow(&id, 0).await;
        gate.open();
        // A follower that reads gets everything, and other jobs run meanwhile.
        let told = reader.all().await;
        let lasting: Vec<u64> = told.iter().filter_map(|sent| sent.id).collect();
        assert_eq!(lasting, (1..=lasting.len() as u64).collect::<Vec<_>>());
        assert_eq!(told.last().unwrap().event, "end");
        client.complete(&id).await;
        let grown = server.memory().saturating_sub(before);
        println!(
            "{} MiB more for {IDLE_READERS} that do not read",
            grown >> 20
        );
        assert!(
            grown < MAX_BYTES_PER_READER * IDLE_READERS as u64 + (64 << 20),
            "{grown}"
        );
        // One that starts to read later gets everything too.
        let mut text = String::new();
        idle.pop().unwrap().read_to_string(&mut text).await.unwrap();
        let ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
        let ids: Vec<u64> = ids.map(|id| id.parse().unwrap()).collect();
        assert_eq!(ids, lasting);
        // A server does not wait for the others when it ends.
        assert!(server.end().await.success());
    });
}

/// With a small receive buffer, so that the server's send buffer is soon full.
async fn ask_and_not_read(address: &str, id: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(128 << 10).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let request = format!(
        "GET /v1/jobs/{id}/events HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}
