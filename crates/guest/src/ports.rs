//! TCP across the wall, both ways: the host reaches a port inside, and programs inside reach
//! the host's proxy. Only bytes pass; what may be reached is decided on the host.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use link::request::Answer;
use link::{Link, Stream, StreamIo};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::refusal::refuse;

/// Connections to the proxy at once; the next ones wait in the kernel's queue.
const CONNECTIONS: usize = 128;

pub(crate) async fn connect(port: u16, mut stream: Stream) {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(mut connection) => {
            if stream.send(&Answer::Ok(())).await.is_ok() {
                let mut stream = StreamIo::from(stream);
                let _ = copy_bidirectional(&mut connection, &mut stream).await;
            }
        }
        Err(error) => {
            let what = format!("connect to port {port} inside the sandbox");
            let _ = stream.send(&Answer::<()>::Err(refuse(what, error))).await;
        }
    }
}

/// Takes connections for the host's proxy from now on.
pub(crate) async fn listen(port: u16, link: Link) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    tokio::task::spawn_local(async move {
        loop {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let Ok((mut connection, _)) = listener.accept().await else {
                continue;
            };
            let Some(stream) = link.open() else {
                return;
            };
            tokio::task::spawn_local(async move {
                let mut stream = StreamIo::from(stream);
                let _ = copy_bidirectional(&mut connection, &mut stream).await;
                drop(place);
            });
        }
    });
    Ok(())
}
