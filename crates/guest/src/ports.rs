//! TCP forwarding in both directions: from the host to a port inside, and from programs inside to the host's
//! proxy. Only forwards bytes; the host decides what may be reached.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use link::request::GuestResult;
use link::{Link, Stream, StreamIo};
use tokio::io::{AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::refusal::refuse;

/// Maximum number of concurrent connections to the proxy. More wait in the kernel's queue.
const MAX_CONCURRENT_CONNECTIONS: usize = 128;

/// How long input of a program is still read and discarded after both sides have ended.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn connect(port: u16, mut stream: Stream) {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(connection) => {
            if stream.send(&GuestResult::Ok(())).await.is_ok() {
                relay(connection, stream).await;
            }
        }
        Err(error) => {
            let what = format!("connect to port {port} inside the sandbox");
            let _ = stream
                .send(&GuestResult::<()>::Err(refuse(what, error)))
                .await;
        }
    }
}

/// Accepts connections for the host's proxy, in the background.
pub(crate) async fn listen(port: u16, link: Link) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTIONS));
    tokio::task::spawn_local(async move {
        loop {
            let Ok(fd_path) = places.clone().acquire_owned().await else {
                return;
            };
            let Ok((connection, _)) = listener.accept().await else {
                continue;
            };
            let Some(stream) = link.open() else {
                return;
            };
            tokio::task::spawn_local(async move {
                relay(connection, stream).await;
                drop(fd_path);
            });
        }
    });
    Ok(())
}

/// Copies bytes in both directions until both have ended. The directions are independent: if one side stops
/// reading, what it has sent is still forwarded.
async fn relay(connection: TcpStream, stream: Stream) {
    let (mut from_program, mut to_program) = connection.into_split();
    let (mut from_host, mut to_host) = tokio::io::split(StreamIo::from(stream));
    let outward = async {
        let _ = copy(&mut from_program, &mut to_host).await;
        let _ = to_host.shutdown().await;
    };
    let inward = async {
        let _ = copy(&mut from_host, &mut to_program).await;
        let _ = to_program.shutdown().await;
    };
    tokio::join!(outward, inward);
    // Closing a connection with unread input sends a reset, and the program would lose what it has not read
    // yet.
    let _ = timeout(LINGER_TIMEOUT, copy(&mut from_program, &mut sink())).await;
}
