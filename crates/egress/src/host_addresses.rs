//! Detects the host's own addresses. Entry: [`classify_on_host`].
//!
//! Services on a public address of the host can be meant for the host or its network. So a sandbox
//! must not reach that address, neither by name nor as a literal.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use nix::ifaddrs::getifaddrs;

use crate::address::{self, AddressClass};

/// Classifies an address as [`address::classify`] does, but returns [`AddressClass::Own`] for a public address
/// of the host itself.
pub fn classify_on_host(address: IpAddr) -> AddressClass {
    match address::classify(address) {
        AddressClass::Public if is_own(address) => AddressClass::Own,
        class => class,
    }
}

/// Whether a connection to this address would end on the host itself.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let address = address::effective_address(address);
    // Without a route the connection itself fails with an error.
    source_address_for(address).is_ok_and(|source| source == address) || is_of_interface(address)
}

/// The source address for a destination. Connecting a UDP socket sends nothing and only selects the
/// source address. For a local route that is the destination itself, except for a secondary address of
/// the same network.
fn source_address_for(address: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((address, 9))?;
    Ok(socket.local_addr()?.ip())
}

fn is_of_interface(address: IpAddr) -> bool {
    let Ok(mut interfaces) = getifaddrs() else {
        return false;
    };
    interfaces.any(|interface| {
        let Some(found) = interface.address else {
            return false;
        };
        let v4 = found
            .as_sockaddr_in()
            .map(|v4| SocketAddr::V4((*v4).into()));
        let v6 = found
            .as_sockaddr_in6()
            .map(|v6| SocketAddr::V6((*v6).into()));
        v4.or(v6).is_some_and(|found| found.ip() == address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_knows_itself() {
        for (text, expect) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("64:ff9b::127.0.0.1", true),
            ("192.0.2.1", false),
            ("64:ff9b::192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_own(text.parse().unwrap()), expect, "{text}");
        }
        assert!(is_of_interface("127.0.0.1".parse().unwrap()));
        assert!(!is_of_interface("192.0.2.1".parse().unwrap()));
    }
}
