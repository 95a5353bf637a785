//! End-to-end tests of the link over an in-memory byte stream.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod hostile;
mod streams;

use link::{Driver, Ended, Incoming, Limits, Link, Role, connect};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

type End = Driver<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// One end of a link with a running driver.
struct Side {
    link: Link,
    incoming: Incoming,
    driver: tokio::task::JoinHandle<std::sync::Arc<Ended>>,
}

/// Two connected ends; the wire buffers `buffer` bytes.
async fn pair(buffer: usize, limits: Limits) -> (Side, Side) {
    let (near, far) = tokio::io::duplex(buffer);
    let (host, guest) = tokio::join!(
        side(near, Role::Host, limits),
        side(far, Role::Guest, limits)
    );
    (host, guest)
}

async fn side(io: DuplexStream, role: Role, limits: Limits) -> Side {
    let (reader, writer) = tokio::io::split(io);
    let (theirs, link, incoming, driver): (String, _, _, End) =
        connect(reader, writer, role, limits, &format!("{role:?}"))
            .await
            .unwrap();
    assert_ne!(theirs, format!("{role:?}"));
    Side {
        link,
        incoming,
        driver: tokio::spawn(driver.run()),
    }
}
