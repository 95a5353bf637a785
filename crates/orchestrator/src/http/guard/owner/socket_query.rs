//! Asks the kernel for one TCP socket by netlink (`sock_diag`). Takes microseconds however many sockets
//! there are. Entry: [`query_owner`].

use std::io;
use std::net::{IpAddr, SocketAddr};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::{
    ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags,
};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress};

/// Matches any socket, because the peer's is not known.
const NO_COOKIE: [u8; 8] = [0xff; 8];

/// The owner of the socket at `peer` that is connected to `local`; `None` if its process has closed it.
/// An error if the kernel does not know the socket or the query.
pub(super) fn query_owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Option<u32>> {
    let socket = Socket::new(NETLINK_SOCK_DIAG)?;
    // The kernel has answered when `send` returns, or never will.
    socket.set_non_blocking(true)?;
    let kernel = NetlinkAddress::new(0, 0);
    socket.connect(&kernel)?;
    socket.send(&request(peer, local), 0)?;
    let (answer, sender) = socket.recv_from_full()?;
    if sender.port_number() != 0 {
        return Err(io::Error::other("the answer is not the kernel's"));
    }
    let answer = NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(found)) => {
            owner_of(&found.header, peer, local)
        }
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(io::Error::other("the answer is of another type")),
    }
}

fn request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    let (source_address, destination_address) = (canonical(peer), canonical(local));
    let request = InetRequest {
        family: match source_address {
            IpAddr::V4(_) => AF_INET,
            IpAddr::V6(_) => AF_INET6,
        },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: peer.port(),
            destination_port: local.port(),
            source_address,
            destination_address,
            interface_id: 0,
            cookie: NO_COOKIE,
        },
    };
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST;
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The kernel answers with a listener at the peer's address if no connection matches. A socket that its
/// process has closed has inode 0 and uid 0, whatever its owner was.
fn owner_of(
    found: &InetResponseHeader,
    peer: SocketAddr,
    local: SocketAddr,
) -> io::Result<Option<u32>> {
    let id = &found.socket_id;
    let source = SocketAddr::new(id.source_address, id.source_port);
    let destination = SocketAddr::new(id.destination_address, id.destination_port);
    let is_same = |one: SocketAddr, other: SocketAddr| {
        canonical(one) == canonical(other) && one.port() == other.port()
    };
    if !is_same(source, peer) || !is_same(destination, local) {
        return Err(io::Error::other("the answer is about another socket"));
    }
    Ok((found.inode != 0).then_some(found.uid))
}

fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}
