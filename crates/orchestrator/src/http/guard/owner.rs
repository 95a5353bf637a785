//! Finds the local user at the other end of a connection. A server without keys trusts only its own
//! user, not every user who can reach the loopback interface.
//!
//! The kernel is asked for that one socket by netlink ([`socket_query`]). Where that is not possible, the
//! lists in `/proc/net/tcp` and `/proc/net/tcp6` are searched, which takes milliseconds even for few
//! sockets. A client whose socket is not in this network namespace, such as one behind address
//! translation, or that has already closed its end, has no owner and is refused.

mod socket_query;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, LazyLock};

use axum::http::HeaderMap;
use nix::sys::socket::{SockaddrStorage, getpeername};
use nix::unistd::geteuid;
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;

use crate::http::problem::{HttpProblem, ProblemKind};

const TCP_TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Reading the tables takes time in proportion to all sockets of the machine.
const MAX_CONCURRENT_LOOKUPS: usize = 4;
static LOOKUP_PERMITS: Semaphore = Semaphore::const_new(MAX_CONCURRENT_LOOKUPS);

/// What the kernel shows for users that a user namespace does not map, unless it is set otherwise.
const DEFAULT_OVERFLOW_UID: u32 = 65_534;

/// Headers that proxies add. The clients of a proxy may be anywhere, whichever user runs it.
const PROXY_HEADERS: [&str; 4] = ["forwarded", "x-forwarded-for", "x-real-ip", "via"];

/// The peer of a connection.
#[derive(Debug, Clone)]
pub(crate) struct TcpPeer(Arc<PeerConnection>);

#[derive(Debug)]
struct PeerConnection {
    peer: SocketAddr,
    local: SocketAddr,
    /// The server's socket; open while a request of the connection is being handled.
    socket: RawFd,
    /// Looked up by the first request that needs it.
    owner: OnceCell<u32>,
}

/// A local user whom a server without keys accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeylessUser {
    /// The user that the server runs as.
    Own,
    /// Root may do everything except create keys, because a port forwarder that runs as root looks
    /// the same.
    Root,
}

impl TcpPeer {
    pub(crate) fn of(stream: &TcpStream, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self(Arc::new(PeerConnection {
            peer,
            local: stream.local_addr()?,
            socket: stream.as_raw_fd(),
            owner: OnceCell::new(),
        })))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.peer
    }

    /// The local user who made a request without a key, if the server accepts that user.
    pub(crate) async fn keyless_user(
        &self,
        headers: &HeaderMap,
    ) -> Result<KeylessUser, HttpProblem> {
        if let Some(name) = PROXY_HEADERS
            .iter()
            .find(|name| headers.contains_key(**name))
        {
            return Err(keyless_refusal(&format!(
                "a request without a key must not come through a proxy, and this one has `{name}`"
            )));
        }
        let owner = self.0.owner.get_or_try_init(|| self.0.find_owner()).await?;
        classify_owner(*owner, *OWN_UID).ok_or_else(|| {
            keyless_refusal("without a key, this server answers only the user that it runs as")
        })
    }
}

impl PeerConnection {
    async fn find_owner(&self) -> Result<u32, HttpProblem> {
        let owner = match socket_query::query_owner(self.peer, self.local) {
            Ok(owner) => owner,
            Err(error) => {
                tracing::debug!(%error, "netlink does not tell the owner of a connection");
                self.search_tables()
                    .await
                    .map_err(|error| unknown(&error))?
            }
        };
        // While the server's socket is connected, no other socket can have the peer's address and
        // port.
        let is_connected = getpeername::<SockaddrStorage>(self.socket).is_ok();
        owner.filter(|_| is_connected).ok_or_else(|| {
            keyless_refusal("the user at the other end of the connection cannot be determined")
        })
    }

    async fn search_tables(&self) -> io::Result<Option<u32>> {
        let _permit = LOOKUP_PERMITS
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let (peer, local) = (self.peer, self.local);
        let found = spawn_blocking(move || search_tables(peer, local)).await;
        found.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

fn classify_owner(owner: u32, own: Option<u32>) -> Option<KeylessUser> {
    match own {
        Some(own) if own == owner => Some(KeylessUser::Own),
        Some(_) if owner == 0 => Some(KeylessUser::Root),
        _ => None,
    }
}

fn unknown(error: &io::Error) -> HttpProblem {
    tracing::warn!(%error, "cannot look up the owner of a connection");
    keyless_refusal("the user at the other end of the connection cannot be determined")
}

fn keyless_refusal(reason: &str) -> HttpProblem {
    HttpProblem::new(ProblemKind::OtherUser, reason).hint(
        "send a key as `Authorization: Bearer KEY`, or log in; the user that the server runs as \
         makes one with `hotcell keys create --user NAME`",
    )
}

/// The uid of this server. `None` if it is the overflow uid, which the kernel shows for all users
/// that the user namespace does not map.
static OWN_UID: LazyLock<Option<u32>> = LazyLock::new(|| {
    let own = geteuid().as_raw();
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid");
    let overflow = overflow.ok().and_then(|text| text.trim().parse().ok());
    if own != overflow.unwrap_or(DEFAULT_OVERFLOW_UID) {
        return Some(own);
    }
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let maps_all = map.split_whitespace().eq(["0", "0", "4294967295"]);
    maps_all.then_some(own)
});

/// The owner of the peer's socket of a connection.
fn search_tables(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let mut found = None;
    for table in TCP_TABLES {
        let file = match File::open(table) {
            Ok(file) => file,
            // A kernel without IPv6 has no table of it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::with_capacity(64 << 10, file).lines() {
            let owner = owner_in_row(&line?, peer, local);
            if owner.is_some() && found.is_some() && owner != found {
                return Ok(None);
            }
            found = owner.or(found);
        }
    }
    Ok(found)
}

/// The owner in a table row, if the row is that socket's. A socket that its process has closed has
/// inode 0 and uid 0, whatever its owner was.
fn owner_in_row(row: &str, peer: SocketAddr, local: SocketAddr) -> Option<u32> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let is_peer = |field: &str, address: SocketAddr| {
        parse_address(field)
            .is_some_and(|(ip, port)| ip == address.ip().to_canonical() && port == address.port())
    };
    if !is_peer(fields.next()?, peer) || !is_peer(fields.next()?, local) {
        return None;
    }
    let owner = fields.nth(4)?;
    let inode = fields.nth(1)?;
    match inode.parse::<u64>() {
        Ok(0) | Err(_) => None,
        Ok(_) => owner.parse().ok(),
    }
}

/// `0100007F:0BB9`: words of an address in this machine's byte order, and a port.
fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut bytes = [0; 16];
            for (target, byte) in bytes.iter_mut().zip(words.concat()) {
                *target = byte;
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some((ip.to_canonical(), u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection to a listener at this address: the server's end, and the client's.
    fn connected(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, client)
    }

    /// By both ways, which must agree.
    fn owner_of_peer(ours: &TcpStream) -> Option<u32> {
        owner_of_connection(ours.peer_addr().unwrap(), ours.local_addr().unwrap())
    }

    fn owner_of_connection(peer: SocketAddr, local: SocketAddr) -> Option<u32> {
        let queried = socket_query::query_owner(peer, local).unwrap();
        assert_eq!(
            search_tables(peer, local).unwrap(),
            queried,
            "{peer} to {local}"
        );
        queried
    }

    #[test]
    fn the_owner_of_a_loopback_connection_is_found() {
        let own = Some(geteuid().as_raw());
        for address in ["127.0.0.1:0", "127.3.2.1:0", "[::1]:0"] {
            let (ours, client) = connected(address);
            assert_eq!(owner_of_peer(&ours), own, "{address}");
            // A half-closed connection still has an owner.
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(owner_of_peer(&ours), own, "{address}");
        }
        // A socket of the other family.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(format!("[::ffff:127.0.0.1]:{port}")).unwrap();
        assert_eq!(owner_of_peer(&listener.accept().unwrap().0), own);
    }

    #[test]
    fn a_socket_that_was_closed_has_no_owner() {
        let (ours, client) = connected("127.0.0.1:0");
        let (peer, local) = (ours.peer_addr().unwrap(), ours.local_addr().unwrap());
        drop(client);
        assert_eq!(owner_of_connection(peer, local), None);
    }

    #[test]
    fn a_listener_is_not_the_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let unused: SocketAddr = "127.0.0.1:1".parse().unwrap();
        socket_query::query_owner(address, unused).unwrap_err();
        assert_eq!(search_tables(address, unused).unwrap(), None);
    }

    #[test]
    fn rows_are_read_as_the_kernel_writes_them() {
        let row = "   3: 0100007F:C350 0100007F:0BB9 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 20 4 30 10 -1";
        let check = |row: &str, peer: &str, local: &str, expect| {
            let found = owner_in_row(row, peer.parse().unwrap(), local.parse().unwrap());
            assert_eq!(found, expect, "{row}");
        };
        let (peer, local) = ("127.0.0.1:50000", "127.0.0.1:3001");
        check(row, peer, local, Some(1000));
        check(row, "127.0.0.1:50001", local, None);
        check(row, "127.0.0.2:50000", local, None);
        check(row, peer, "127.0.0.1:3002", None);
        // The row of the server's own end.
        check(row, local, peer, None);
        // The listed owner of a closed socket is meaningless.
        check(&row.replace("4711", "0"), peer, local, None);
        check(&row[..60], peer, local, None);
        check("", peer, local, None);
        let heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
        check(heading, peer, local, None);
    }

    #[test]
    fn only_the_servers_own_user_and_root_are_accepted() {
        for (owner, own, expect) in [
            (1000, Some(1000), Some(KeylessUser::Own)),
            (0, Some(0), Some(KeylessUser::Own)),
            (0, Some(1000), Some(KeylessUser::Root)),
            (1001, Some(1000), None),
            (1000, Some(0), None),
            (65534, Some(1000), None),
            (65534, None, None),
            (0, None, None),
        ] {
            assert_eq!(classify_owner(owner, own), expect, "{owner} at {own:?}");
        }
    }
}
