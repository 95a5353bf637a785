//! Determines the client address of a request: the peer of the connection, or the client that a
//! trusted proxy names in `X-Forwarded-For` or `Forwarded`. These headers can be forged, so they
//! are ignored unless a trusted proxy sent them.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

use crate::address_range::AddressRange;

/// The address of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// `peer` is the remote address of the connection.
    pub(crate) fn find(peer: IpAddr, headers: &HeaderMap, trusted: &[AddressRange]) -> Self {
        let peer = peer.to_canonical();
        let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
        if !is_trusted(peer) {
            return Self(peer);
        }
        let follow = |hops: Vec<Option<IpAddr>>| {
            let mut client = peer;
            for hop in hops.into_iter().rev() {
                let Some(hop) = hop else { break };
                client = hop;
                if !is_trusted(hop) {
                    break;
                }
            }
            client
        };
        let plain = hops(headers, "x-forwarded-for", parse_node).map(follow);
        let standard = hops(headers, "forwarded", forwarded_for).map(follow);
        Self(match (plain, standard) {
            // A proxy sets one header and may pass on the other as the client wrote it.
            (Some(plain), Some(standard)) if plain != standard => peer,
            (Some(client), _) | (None, Some(client)) => client,
            (None, None) => peer,
        })
    }
}

/// The addresses in a header, the client's first. Unreadable ones are `None`.
fn hops(
    headers: &HeaderMap,
    name: &str,
    parse: fn(&str) -> Option<IpAddr>,
) -> Option<Vec<Option<IpAddr>>> {
    let mut hops = Vec::new();
    for value in headers.get_all(name) {
        match value.to_str() {
            Ok(text) => hops.extend(text.split(',').map(parse)),
            Err(_) => hops.push(None),
        }
    }
    (!hops.is_empty()).then_some(hops)
}

/// `for="[2001:db8::1]:4711";proto=https`
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, node) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    parse_node(node)
}

/// An address, with or without brackets, quotes and a port.
fn parse_node(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse::<IpAddr>();
    let address = address.or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn only_trusted_proxies_are_believed() {
        let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().unwrap());
        let check = |peer: &str, given: &[(&str, &str)], expect: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
            }
            let found = ClientAddress::find(peer.parse().unwrap(), &headers, &trusted);
            assert_eq!(
                found.0,
                expect.parse::<IpAddr>().unwrap(),
                "{peer} {given:?}"
            );
        };
        let (plain, standard) = ("x-forwarded-for", "forwarded");
        check("10.0.0.1", &[], "10.0.0.1");
        check("10.0.0.1", &[(plain, "192.0.2.1")], "192.0.2.1");
        check("::ffff:10.0.0.1", &[(plain, "192.0.2.1")], "192.0.2.1");
        check("::1", &[(plain, "2001:db8::1")], "2001:db8::1");
        // Headers from an untrusted peer are ignored.
        check("192.0.2.9", &[(plain, "192.0.2.1")], "192.0.2.9");
        // What the client itself wrote comes first; the last address that is not a proxy counts.
        check(
            "10.0.0.1",
            &[(plain, "198.51.100.1, 192.0.2.1")],
            "192.0.2.1",
        );
        check(
            "10.0.0.1",
            &[(plain, "198.51.100.1, 192.0.2.1, 10.0.0.2")],
            "192.0.2.1",
        );
        let two = [(plain, "198.51.100.1"), (plain, "192.0.2.1")];
        check("10.0.0.1", &two, "192.0.2.1");
        check("10.0.0.1", &[(plain, "10.0.0.3, 10.0.0.2")], "10.0.0.3");
        // An unreadable entry stops at the proxy that passed it on.
        check("10.0.0.1", &[(plain, "192.0.2.1, unknown")], "10.0.0.1");
        check(
            "10.0.0.1",
            &[(plain, "192.0.2.1, unknown, 10.0.0.2")],
            "10.0.0.2",
        );
        check("10.0.0.1", &[(plain, "")], "10.0.0.1");
        check("10.0.0.1", &[(plain, "192.0.2.1:4711")], "192.0.2.1");
        check(
            "10.0.0.1",
            &[(standard, "for=192.0.2.1;proto=https")],
            "192.0.2.1",
        );
        let quoted = "for=\"a, for=198.51.100.1, proto=https; For=\"[2001:db8::1]:4711\"";
        check("10.0.0.1", &[(standard, quoted)], "2001:db8::1");
        check("10.0.0.1", &[(standard, "for=_hidden")], "10.0.0.1");
        // The headers differ: one of them was written by the client.
        let both = [(plain, "192.0.2.1"), (standard, "for=198.51.100.1")];
        check("10.0.0.1", &both, "10.0.0.1");
        let same = [(plain, "192.0.2.1"), (standard, "for=192.0.2.1")];
        check("10.0.0.1", &same, "192.0.2.1");
    }
}
