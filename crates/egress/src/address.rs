//! Classifies addresses: which are part of the public internet. Pure; entry: [`classify`].
//!
//! An address that is not known to be public is refused, so that a sandbox cannot reach the host, its
//! network, or the metadata service of a cloud. An IPv6 address that embeds an IPv4 address is
//! classified by the latter if networks translate it, and refused otherwise.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// An address of the public internet.
    Public,
    /// The machine itself.
    Loopback,
    /// A local network.
    Private,
    /// The same link.
    LinkLocal,
    /// The metadata or control service of a cloud.
    Metadata,
    /// The network of a provider behind carrier-grade NAT.
    CarrierNat,
    /// A group of hosts.
    Multicast,
    /// All hosts.
    Broadcast,
    /// Examples in documentation.
    Documentation,
    /// Benchmarks of network devices.
    Benchmarking,
    /// The all-zero address.
    Unspecified,
    /// An IPv4 address embedded in an IPv6 one by an obsolete transition mechanism.
    Transition,
    /// Not assigned.
    Reserved,
    /// One of the host's own addresses. Only [`crate::classify_on_host`] returns this.
    Own,
    /// Denied by a rule. [`classify`] never returns this.
    Denied,
}

/// Classifies an address.
pub fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// The address that a connection really goes to: for a mapped or translated IPv6 address, the embedded
/// IPv4 address.
pub(crate) fn effective_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if is_translated(v6) => Ipv4Addr::from(v6.to_bits() as u32).into(),
        address => address,
    }
}

/// Mapped (`::ffff:a.b.c.d`), or NAT64.
fn is_translated(address: Ipv6Addr) -> bool {
    matches!(
        address.segments(),
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..]
    )
}

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        // The last is the control service of Azure, which has a public address.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => AddressClass::Metadata,
        [0, 0, 0, 0] => AddressClass::Unspecified,
        [0, ..] => AddressClass::Reserved,
        [127, ..] => AddressClass::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => AddressClass::Private,
        [100, 64..=127, ..] => AddressClass::CarrierNat,
        [169, 254, ..] => AddressClass::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => AddressClass::Documentation,
        [192, 0, 0, _] => AddressClass::Reserved,
        [192, 88, 99, _] => AddressClass::Transition,
        [198, 18..=19, ..] => AddressClass::Benchmarking,
        [255, 255, 255, 255] => AddressClass::Broadcast,
        [224..=239, ..] => AddressClass::Multicast,
        [240..=255, ..] => AddressClass::Reserved,
        _ => AddressClass::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    if let IpAddr::V4(v4) = effective_address(address.into()) {
        return classify_v4(v4);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => AddressClass::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => AddressClass::Loopback,
        // IPv4-compatible, local NAT64, 6to4, Teredo.
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x2002, ..] | [0x2001, 0, ..] => {
            AddressClass::Transition
        }
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            AddressClass::Metadata
        }
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => AddressClass::Documentation,
        [0x2001, 2, 0, ..] => AddressClass::Benchmarking,
        [0x2001, 0..=0x1ff, ..] => AddressClass::Reserved,
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        // Site-local is deprecated, but some networks may still route it.
        [0xfec0..=0xfeff, ..] => AddressClass::Private,
        [0xfe80..=0xfebf, ..] => AddressClass::LinkLocal,
        [0xff00..=0xffff, ..] => AddressClass::Multicast,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

/// An adjective, for sentences such as `the private address`.
impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AddressClass::Public => "public",
            AddressClass::Loopback => "loopback",
            AddressClass::Private => "private",
            AddressClass::LinkLocal => "link-local",
            AddressClass::Metadata => "cloud metadata",
            AddressClass::CarrierNat => "carrier NAT",
            AddressClass::Multicast => "multicast",
            AddressClass::Broadcast => "broadcast",
            AddressClass::Documentation => "documentation",
            AddressClass::Benchmarking => "benchmarking",
            AddressClass::Unspecified => "unspecified",
            AddressClass::Transition => "transition",
            AddressClass::Reserved => "reserved",
            AddressClass::Own => "host's own",
            AddressClass::Denied => "denied",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        for (text, expect) in [
            ("1.1.1.1", AddressClass::Public),
            ("9.255.255.255", AddressClass::Public),
            ("11.0.0.0", AddressClass::Public),
            ("100.63.255.255", AddressClass::Public),
            ("100.128.0.0", AddressClass::Public),
            ("128.0.0.1", AddressClass::Public),
            ("169.253.255.255", AddressClass::Public),
            ("169.255.0.0", AddressClass::Public),
            ("172.15.255.255", AddressClass::Public),
            ("172.32.0.0", AddressClass::Public),
            ("192.0.1.1", AddressClass::Public),
            ("192.167.255.255", AddressClass::Public),
            ("192.169.0.0", AddressClass::Public),
            ("198.17.255.255", AddressClass::Public),
            ("198.20.0.0", AddressClass::Public),
            ("223.255.255.255", AddressClass::Public),
            ("2606:4700::1111", AddressClass::Public),
            ("2001:4860:4860::8888", AddressClass::Public),
            ("3ffe::1", AddressClass::Public),
            ("64:ff9b::8.8.8.8", AddressClass::Public),
            ("::ffff:8.8.8.8", AddressClass::Public),
            ("0.0.0.0", AddressClass::Unspecified),
            ("0.1.2.3", AddressClass::Reserved),
            ("10.0.0.0", AddressClass::Private),
            ("10.255.255.255", AddressClass::Private),
            ("100.64.0.0", AddressClass::CarrierNat),
            ("100.127.255.255", AddressClass::CarrierNat),
            ("100.100.100.200", AddressClass::Metadata),
            ("127.0.0.1", AddressClass::Loopback),
            ("127.255.255.255", AddressClass::Loopback),
            ("169.254.0.1", AddressClass::LinkLocal),
            ("169.254.169.254", AddressClass::Metadata),
            ("168.63.129.16", AddressClass::Metadata),
            ("172.16.0.0", AddressClass::Private),
            ("172.31.255.255", AddressClass::Private),
            ("192.0.0.192", AddressClass::Reserved),
            ("192.0.2.1", AddressClass::Documentation),
            ("198.51.100.1", AddressClass::Documentation),
            ("203.0.113.1", AddressClass::Documentation),
            ("192.88.99.1", AddressClass::Transition),
            ("192.168.0.0", AddressClass::Private),
            ("192.168.255.255", AddressClass::Private),
            ("198.18.0.0", AddressClass::Benchmarking),
            ("198.19.255.255", AddressClass::Benchmarking),
            ("224.0.0.1", AddressClass::Multicast),
            ("239.255.255.255", AddressClass::Multicast),
            ("240.0.0.1", AddressClass::Reserved),
            ("255.255.255.254", AddressClass::Reserved),
            ("255.255.255.255", AddressClass::Broadcast),
            ("::", AddressClass::Unspecified),
            ("::1", AddressClass::Loopback),
            ("::2", AddressClass::Transition),
            ("::127.0.0.1", AddressClass::Transition),
            ("::8.8.8.8", AddressClass::Transition),
            ("::ffff:127.0.0.1", AddressClass::Loopback),
            ("::ffff:10.0.0.1", AddressClass::Private),
            ("::ffff:169.254.169.254", AddressClass::Metadata),
            ("::ffff:0:8.8.8.8", AddressClass::Reserved),
            ("64:ff9b::169.254.169.254", AddressClass::Metadata),
            ("64:ff9b::a9fe:a9fe", AddressClass::Metadata),
            ("64:ff9b::127.0.0.1", AddressClass::Loopback),
            ("64:ff9b:1::8.8.8.8", AddressClass::Transition),
            ("64:ff9b:1:ffff::8.8.8.8", AddressClass::Transition),
            ("64:ff9b:2::1", AddressClass::Reserved),
            ("100::1", AddressClass::Reserved),
            ("2001::1", AddressClass::Transition),
            ("2001:0:a9fe:a9fe::1", AddressClass::Transition),
            ("2001:2::1", AddressClass::Benchmarking),
            ("2001:10::1", AddressClass::Reserved),
            ("2001:1ff::1", AddressClass::Reserved),
            ("2001:db8::1", AddressClass::Documentation),
            ("3fff::1", AddressClass::Documentation),
            ("2002:a9fe:a9fe::", AddressClass::Transition),
            ("2002:0808:0808::1", AddressClass::Transition),
            ("4000::1", AddressClass::Reserved),
            ("5f00::1", AddressClass::Reserved),
            ("fc00::1", AddressClass::Private),
            ("fd12:3456::1", AddressClass::Private),
            ("fd00:ec2::254", AddressClass::Metadata),
            ("fd20:ce::254", AddressClass::Metadata),
            ("fe80::1", AddressClass::LinkLocal),
            ("febf::1", AddressClass::LinkLocal),
            ("fec0::1", AddressClass::Private),
            ("feff::1", AddressClass::Private),
            ("ff02::1", AddressClass::Multicast),
        ] {
            assert_eq!(classify(text.parse().unwrap()), expect, "{text}");
        }
    }
}
