//! Parses the target of a request: a [`Host`], and a [`ConnectTarget`] with its port. Pure.
//!
//! A parsed host has one canonical form: names in lower case without the final dot, addresses as
//! numbers. A text that a C library would read as an IPv4 address is parsed as one, so that no spelling
//! of an address passes as a name. Never resolves a name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name in lower case.
    Name(String),
    /// An address; never an IPv4-mapped IPv6 address.
    Address(IpAddr),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectTarget {
    pub host: Host,
    /// The port, not 0.
    pub port: u16,
}

/// Why a text is not a valid host or target.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("the host is empty")]
    Empty,
    /// A character that host names cannot have.
    #[error("a host name cannot contain {0:?}")]
    Character(char),
    /// A label that is empty or too long.
    #[error("each part of a host name has 1 to 63 characters")]
    Label,
    /// Longer than DNS allows.
    #[error("a host name has at most 253 characters")]
    TooLong,
    /// It ends in a number, so some resolver could read it as an IPv4 address.
    #[error("a host name that ends in a number must be an IPv4 address")]
    NotIpv4,
    #[error("there is no IPv6 address between the brackets")]
    NotIpv6,
    /// An IPv6 address that cannot be separated from its port.
    #[error("an IPv6 address must be in brackets")]
    Brackets,
    #[error("the port is not a number from 1 to 65535")]
    Port,
    #[error("the port is missing")]
    NoPort,
}

impl Host {
    /// Parses a name or an address; IPv6 must be in brackets.
    pub fn parse(text: &str) -> Result<Host, HostError> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').ok_or(HostError::NotIpv6)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::NotIpv6)?;
            return Ok(Host::Address(IpAddr::V6(address).to_canonical()));
        }
        if text.contains(':') {
            return Err(HostError::Brackets);
        }
        if let Some(bad) = text.chars().find(|&c| !is_name_character(c)) {
            return Err(HostError::Character(bad));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        match name.len() {
            0 => return Err(HostError::Empty),
            1..=253 => {}
            _ => return Err(HostError::TooLong),
        }
        if name
            .split('.')
            .any(|label| label.is_empty() || label.len() > 63)
        {
            return Err(HostError::Label);
        }
        if let Some(address) = parse_inet_aton(&name) {
            return Ok(Host::Address(address.into()));
        }
        // Some resolvers may still read it as an address. No real top-level domain is a number.
        let last = name.rsplit('.').next().unwrap_or_default();
        if is_number_like(last) {
            return Err(HostError::NotIpv4);
        }
        Ok(Host::Name(name))
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_number_like(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Parses an address as `inet_aton` does: one to four numbers, each decimal, octal or hexadecimal. The
/// last one fills all remaining bytes.
fn parse_inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = text
        .split('.')
        .map(parse_inet_aton_part)
        .collect::<Option<_>>()?;
    let (&last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|&part| part > 255) {
        return None;
    }
    let bits_left = 32 - 8 * first.len() as u32;
    if last >= 1 << bits_left {
        return None;
    }
    let high = first.iter().fold(0, |high, part| high << 8 | part) << bits_left;
    u32::try_from(high | last).ok().map(Ipv4Addr::from)
}

fn parse_inet_aton_part(text: &str) -> Option<u64> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => (hex, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (text, 10),
    };
    // `from_str_radix` would accept a sign too.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

impl ConnectTarget {
    /// Parses a host with a port, or a host alone if there is a default port.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<ConnectTarget, HostError> {
        let (host, port) = split_port(text)?;
        let host = Host::parse(host)?;
        let port = port.or(default_port).ok_or(HostError::NoPort)?;
        Ok(ConnectTarget { host, port })
    }
}

/// Splits off the port, if there is one.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), HostError> {
    // The colons of an IPv6 address are all inside the brackets.
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = text[after_brackets..]
        .rfind(':')
        .map(|at| at + after_brackets)
    else {
        return Ok((text, None));
    };
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    if host.contains(':') && !host.starts_with('[') {
        return Err(HostError::Brackets);
    }
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(HostError::Port);
    }
    match port.parse() {
        Ok(0) | Err(_) => Err(HostError::Port),
        Ok(port) => Ok((host, Some(port))),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for ConnectTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, expect) in [
            ("example.com", "example.com"),
            ("EXAMPLE.Com.", "example.com"),
            ("_dmarc.a-b.xn--p1ai", "_dmarc.a-b.xn--p1ai"),
            ("1password.com", "1password.com"),
            ("127.0.0.1.nip.io", "127.0.0.1.nip.io"),
            ("0xdead.beef", "0xdead.beef"),
            // Spellings of the metadata address.
            ("169.254.169.254", "169.254.169.254"),
            ("169.254.169.254.", "169.254.169.254"),
            ("2852039166", "169.254.169.254"),
            ("0xA9FEA9FE", "169.254.169.254"),
            ("0XA9FEA9FE", "169.254.169.254"),
            ("0xa9.0xfe.0xa9.0xfe", "169.254.169.254"),
            ("0251.0376.0251.0376", "169.254.169.254"),
            ("025177524776", "169.254.169.254"),
            ("00000000000000025177524776", "169.254.169.254"),
            ("169.254.43518", "169.254.169.254"),
            ("169.16689662", "169.254.169.254"),
            ("169.0xfe.0251.254", "169.254.169.254"),
            ("[::ffff:169.254.169.254]", "169.254.169.254"),
            ("[::FFFF:a9fe:a9fe]", "169.254.169.254"),
            ("127.1", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("0x0", "0.0.0.0"),
            ("[::1]", "[::1]"),
            ("[0:0:0:0:0:0:0:1]", "[::1]"),
            ("[64:ff9b::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]"),
        ] {
            assert_eq!(
                Host::parse(text).map(|host| host.to_string()),
                Ok(expect.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let long_label = "a".repeat(64);
        let long_name = ["a".repeat(63).as_str(); 4].join(".");
        for (text, expect) in [
            ("", HostError::Empty),
            (".", HostError::Empty),
            ("a..", HostError::Label),
            (".a", HostError::Label),
            ("a..b", HostError::Label),
            (long_label.as_str(), HostError::Label),
            (long_name.as_str(), HostError::TooLong),
            ("a\0.com", HostError::Character('\0')),
            ("a.com\r\nx", HostError::Character('\r')),
            ("a com", HostError::Character(' ')),
            ("user@a.com", HostError::Character('@')),
            ("a%2ecom", HostError::Character('%')),
            ("a.com/", HostError::Character('/')),
            ("a.com#", HostError::Character('#')),
            ("a\\b", HostError::Character('\\')),
            ("*.a.com", HostError::Character('*')),
            ("exämple.com", HostError::Character('ä')),
            ("１２７.0.0.1", HostError::Character('１')),
            ("a。com", HostError::Character('。')),
            ("256.1.1.1", HostError::NotIpv4),
            ("1.2.3.4.5", HostError::NotIpv4),
            ("4294967296", HostError::NotIpv4),
            ("1.2.3.08", HostError::NotIpv4),
            ("0x", HostError::NotIpv4),
            ("a.0x7f", HostError::NotIpv4),
            ("99999999999999999999999", HostError::NotIpv4),
            ("[::1", HostError::NotIpv6),
            ("[fe80::1%eth0]", HostError::NotIpv6),
            ("[127.0.0.1]", HostError::NotIpv6),
            ("::1", HostError::Brackets),
        ] {
            assert_eq!(Host::parse(text), Err(expect), "{text}");
        }
    }

    #[test]
    fn targets_have_ports() {
        for (text, expect) in [
            ("a.com:443", Ok("a.com:443")),
            ("a.com", Ok("a.com:80")),
            ("[::1]:65535", Ok("[::1]:65535")),
            ("[::1]", Ok("[::1]:80")),
            ("0x7f.1:080", Ok("127.0.0.1:80")),
            ("a.com:", Err(HostError::Port)),
            ("a.com:0", Err(HostError::Port)),
            ("a.com:65536", Err(HostError::Port)),
            ("a.com:+80", Err(HostError::Port)),
            ("a.com: 80", Err(HostError::Port)),
            ("a.com:80:80", Err(HostError::Brackets)),
            ("[::1]x:80", Err(HostError::NotIpv6)),
            ("::1:80", Err(HostError::Brackets)),
            (":80", Err(HostError::Empty)),
            ("user:80@a.com", Err(HostError::Port)),
            ("user@a.com:80", Err(HostError::Character('@'))),
        ] {
            let parsed = ConnectTarget::parse(text, Some(80)).map(|target| target.to_string());
            assert_eq!(parsed, expect.map(str::to_owned), "{text}");
        }
        assert_eq!(ConnectTarget::parse("a.com", None), Err(HostError::NoPort));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic_and_its_form_is_stable(text in ".{0,80}") {
            if let Ok(target) = ConnectTarget::parse(&text, Some(80)) {
                prop_assert_eq!(ConnectTarget::parse(&target.to_string(), None), Ok(target));
            }
        }

        #[test]
        fn any_spelling_of_an_address_is_that_address(bits: u32, base in 0..3, parts in 1..=4u32) {
            let spell = |value: u32| match base {
                0 => value.to_string(),
                1 => format!("0{value:o}"),
                _ => format!("0x{value:X}"),
            };
            let mut spelled: Vec<String> =
                (0..parts - 1).map(|part| spell(bits >> (24 - 8 * part) & 255)).collect();
            let shift = 8 * (parts - 1);
            spelled.push(spell(((u64::from(bits) << shift) as u32) >> shift));
            let host = Host::parse(&spelled.join("."));
            prop_assert_eq!(host, Ok(Host::Address(Ipv4Addr::from(bits).into())));
        }
    }
}
