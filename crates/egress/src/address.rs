//! Classifies addresses: which are part of the public internet. Pure; entry: [`class`].
//!
//! An address that is not known to be public is refused, so that a sandbox cannot reach the host, its
//! network, or the metadata service of a cloud. An IPv6 address that embeds an IPv4 address is
//! classified by the latter if networks translate it, and refused otherwise.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
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
    /// One of the host's own addresses. Only [`crate::class_on_host`] returns this.
    Own,
    /// Denied by a rule. [`class`] never returns this.
    Denied,
}

/// Classifies an address.
pub fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(address) => class_v4(address),
        IpAddr::V6(address) => class_v6(address),
    }
}

/// The address that a connection really goes to: for a mapped or translated IPv6 address, the embedded
/// IPv4 address.
pub(crate) fn translated(address: IpAddr) -> IpAddr {
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

fn class_v4(address: Ipv4Addr) -> Class {
    match address.octets() {
        // The last is the control service of Azure, which has a public address.
        [169, 254, 169, 254] | [100, 100, 100, 200] | [168, 63, 129, 16] => Class::Metadata,
        [0, 0, 0, 0] => Class::Unspecified,
        [0, ..] => Class::Reserved,
        [127, ..] => Class::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::CarrierNat,
        [169, 254, ..] => Class::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Documentation,
        [192, 0, 0, _] => Class::Reserved,
        [192, 88, 99, _] => Class::Transition,
        [198, 18..=19, ..] => Class::Benchmarking,
        [255, 255, 255, 255] => Class::Broadcast,
        [224..=239, ..] => Class::Multicast,
        [240..=255, ..] => Class::Reserved,
        _ => Class::Public,
    }
}

fn class_v6(address: Ipv6Addr) -> Class {
    if let IpAddr::V4(v4) = translated(address.into()) {
        return class_v4(v4);
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // IPv4-compatible, local NAT64, 6to4, Teredo.
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x2002, ..] | [0x2001, 0, ..] => {
            Class::Transition
        }
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] => {
            Class::Metadata
        }
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Class::Documentation,
        [0x2001, 2, 0, ..] => Class::Benchmarking,
        [0x2001, 0..=0x1ff, ..] => Class::Reserved,
        [0xfc00..=0xfdff, ..] => Class::Private,
        // Site-local is deprecated, but some networks may still route it.
        [0xfec0..=0xfeff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Reserved,
    }
}

/// An adjective, for sentences such as `the private address`.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Public => "public",
            Class::Loopback => "loopback",
            Class::Private => "private",
            Class::LinkLocal => "link-local",
            Class::Metadata => "cloud metadata",
            Class::CarrierNat => "carrier NAT",
            Class::Multicast => "multicast",
            Class::Broadcast => "broadcast",
            Class::Documentation => "documentation",
            Class::Benchmarking => "benchmarking",
            Class::Unspecified => "unspecified",
            Class::Transition => "transition",
            Class::Reserved => "reserved",
            Class::Own => "host's own",
            Class::Denied => "denied",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_is_public() {
        for (text, expect) in [
            ("1.1.1.1", Class::Public),
            ("9.255.255.255", Class::Public),
            ("11.0.0.0", Class::Public),
            ("100.63.255.255", Class::Public),
            ("100.128.0.0", Class::Public),
            ("128.0.0.1", Class::Public),
            ("169.253.255.255", Class::Public),
            ("169.255.0.0", Class::Public),
            ("172.15.255.255", Class::Public),
            ("172.32.0.0", Class::Public),
            ("192.0.1.1", Class::Public),
            ("192.167.255.255", Class::Public),
            ("192.169.0.0", Class::Public),
            ("198.17.255.255", Class::Public),
            ("198.20.0.0", Class::Public),
            ("223.255.255.255", Class::Public),
            ("2606:4700::1111", Class::Public),
            ("2001:4860:4860::8888", Class::Public),
            ("3ffe::1", Class::Public),
            ("64:ff9b::8.8.8.8", Class::Public),
            ("::ffff:8.8.8.8", Class::Public),
            ("0.0.0.0", Class::Unspecified),
            ("0.1.2.3", Class::Reserved),
            ("10.0.0.0", Class::Private),
            ("10.255.255.255", Class::Private),
            ("100.64.0.0", Class::CarrierNat),
            ("100.127.255.255", Class::CarrierNat),
            ("100.100.100.200", Class::Metadata),
            ("127.0.0.1", Class::Loopback),
            ("127.255.255.255", Class::Loopback),
            ("169.254.0.1", Class::LinkLocal),
            ("169.254.169.254", Class::Metadata),
            ("168.63.129.16", Class::Metadata),
            ("172.16.0.0", Class::Private),
            ("172.31.255.255", Class::Private),
            ("192.0.0.192", Class::Reserved),
            ("192.0.2.1", Class::Documentation),
            ("198.51.100.1", Class::Documentation),
            ("203.0.113.1", Class::Documentation),
            ("192.88.99.1", Class::Transition),
            ("192.168.0.0", Class::Private),
            ("192.168.255.255", Class::Private),
            ("198.18.0.0", Class::Benchmarking),
            ("198.19.255.255", Class::Benchmarking),
            ("224.0.0.1", Class::Multicast),
            ("239.255.255.255", Class::Multicast),
            ("240.0.0.1", Class::Reserved),
            ("255.255.255.254", Class::Reserved),
            ("255.255.255.255", Class::Broadcast),
            ("::", Class::Unspecified),
            ("::1", Class::Loopback),
            ("::2", Class::Transition),
            ("::127.0.0.1", Class::Transition),
            ("::8.8.8.8", Class::Transition),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("::ffff:10.0.0.1", Class::Private),
            ("::ffff:169.254.169.254", Class::Metadata),
            ("::ffff:0:8.8.8.8", Class::Reserved),
            ("64:ff9b::169.254.169.254", Class::Metadata),
            ("64:ff9b::a9fe:a9fe", Class::Metadata),
            ("64:ff9b::127.0.0.1", Class::Loopback),
            ("64:ff9b:1::8.8.8.8", Class::Transition),
            ("64:ff9b:1:ffff::8.8.8.8", Class::Transition),
            ("64:ff9b:2::1", Class::Reserved),
            ("100::1", Class::Reserved),
            ("2001::1", Class::Transition),
            ("2001:0:a9fe:a9fe::1", Class::Transition),
            ("2001:2::1", Class::Benchmarking),
            ("2001:10::1", Class::Reserved),
            ("2001:1ff::1", Class::Reserved),
            ("2001:db8::1", Class::Documentation),
            ("3fff::1", Class::Documentation),
            ("2002:a9fe:a9fe::", Class::Transition),
            ("2002:0808:0808::1", Class::Transition),
            ("4000::1", Class::Reserved),
            ("5f00::1", Class::Reserved),
            ("fc00::1", Class::Private),
            ("fd12:3456::1", Class::Private),
            ("fd00:ec2::254", Class::Metadata),
            ("fd20:ce::254", Class::Metadata),
            ("fe80::1", Class::LinkLocal),
            ("febf::1", Class::LinkLocal),
            ("fec0::1", Class::Private),
            ("feff::1", Class::Private),
            ("ff02::1", Class::Multicast),
        ] {
            assert_eq!(class(text.parse().unwrap()), expect, "{text}");
        }
    }
}
