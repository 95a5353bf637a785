//! End-to-end tests of the link over an in-memory byte stream.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod hostile;
mod streams;

use link::{IncomingStreams, Link, LinkDriver, LinkEnd, LinkLimits, LinkRole, connect};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

type TestDriver = LinkDriver<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// One end of a link with a running driver.
struct LinkEndpoint {
    link: Link,
    incoming: IncomingStreams,
    driver: tokio::task::JoinHandle<std::sync::Arc<LinkEnd>>,
}

/// Two connected ends; the wire buffers `buffer` bytes.
async fn pair(buffer: usize, limits: LinkLimits) -> (LinkEndpoint, LinkEndpoint) {
    let (near, far) = tokio::io::duplex(buffer);
    let (host, guest) = tokio::join!(
        endpoint(near, LinkRole::Host, limits),
        endpoint(far, LinkRole::Guest, limits)
    );
    (host, guest)
}

async fn endpoint(io: DuplexStream, role: LinkRole, limits: LinkLimits) -> LinkEndpoint {
    let (reader, writer) = tokio::io::split(io);
    let (theirs, link, incoming, driver): (String, _, _, TestDriver) =
        connect(reader, writer, role, limits, &format!("{role:?}"))
            .await
            .unwrap();
    assert_ne!(theirs, format!("{role:?}"));
    LinkEndpoint {
        link,
        incoming,
        driver: tokio::spawn(driver.run()),
    }
}
