//! A range of network addresses (CIDR), such as `10.0.0.0/8`.

use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that share a bit prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a range of them, such as `10.0.0.0/8`")]
pub struct AddressRangeError(String);

impl AddressRange {
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => begins_alike(
                own.to_bits().into(),
                other.to_bits().into(),
                32 - self.prefix,
            ),
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                begins_alike(own.to_bits(), other.to_bits(), 128 - self.prefix)
            }
            _ => false,
        }
    }
}

/// Whether two numbers are equal except for their last `ignored` bits.
fn begins_alike(one: u128, other: u128, ignored: u32) -> bool {
    let differing = one ^ other;
    differing.checked_shr(ignored).unwrap_or(0) == 0
}

impl FromStr for AddressRange {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let parse = || {
            let (address, prefix) = match text.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let prefix = match prefix {
                None => most,
                // Only digits: parsing a number would also accept a sign.
                Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                    digits.parse().ok().filter(|bits| *bits <= most)?
                }
                Some(_) => return None,
            };
            Some(Self { address, prefix })
        };
        parse().ok_or_else(|| AddressRangeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_range_has_its_addresses_and_no_others() {
        for (range, address, expect) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "203.0.113.7", true),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.7", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
        ] {
            let found = range.parse::<AddressRange>().unwrap();
            assert_eq!(
                found.contains(address.parse().unwrap()),
                expect,
                "{range} {address}"
            );
        }
    }

    #[test]
    fn invalid_address_ranges_are_refused() {
        for text in [
            "",
            "ten",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10/8",
            "/8",
        ] {
            assert!(text.parse::<AddressRange>().is_err(), "{text}");
        }
    }
}
