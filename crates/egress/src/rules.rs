//! The list of hosts that a sandbox may reach, as given by `--allow-net`. Pure.
//!
//! Everything is denied that no rule allows. A name does not include its subdomains, `*.name` does not
//! include the name itself, and no name allows an address that is not public. Entry type: [`AllowList`].

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

use crate::host::{ConnectTarget, Host, HostError, split_port};

/// The ports of a rule without a port.
const WEB_PORTS: [u16; 2] = [80, 443];

/// One `--allow-net` value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressRule {
    pattern: HostPattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    /// Only this host.
    Exactly(Host),
    /// All subdomains of this name, which begins with a dot.
    Below(String),
}

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The host is invalid.
    #[error("cannot allow `{}`: {problem}", rule.escape_debug())]
    Host { rule: String, problem: HostError },
    /// A URL instead of a host.
    #[error("cannot allow `{}`: write a host such as `example.com`, without scheme or path", rule.escape_debug())]
    Url { rule: String },
    /// A star that is not the first label.
    #[error("cannot allow `{}`: a `*` can only stand for subdomains, as in `*.example.com`", rule.escape_debug())]
    Star { rule: String },
    /// Subdomains of an address.
    #[error("cannot allow `{}`: an address has no subdomains", rule.escape_debug())]
    BelowAddress { rule: String },
    /// An address in a misleading spelling.
    #[error("cannot allow `{}`: write the address as `{address}`", rule.escape_debug())]
    Spelling { rule: String, address: Host },
}

impl FromStr for EgressRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<EgressRule, RuleError> {
        let rule = || text.to_owned();
        if text.contains('/') {
            return Err(RuleError::Url { rule: rule() });
        }
        let (host, port) = split_port(text).map_err(|problem| RuleError::Host {
            rule: rule(),
            problem,
        })?;
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        if name.contains('*') {
            return Err(RuleError::Star { rule: rule() });
        }
        let parsed = Host::parse(name).map_err(|problem| RuleError::Host {
            rule: rule(),
            problem,
        })?;
        let pattern = match (below, parsed) {
            (true, Host::Name(name)) => HostPattern::Below(format!(".{name}")),
            (true, Host::Address(_)) => return Err(RuleError::BelowAddress { rule: rule() }),
            (false, address @ Host::Address(IpAddr::V4(v4)))
                if !name.starts_with('[') && name.parse() != Ok(v4) =>
            {
                return Err(RuleError::Spelling {
                    rule: rule(),
                    address,
                });
            }
            (false, host) => HostPattern::Exactly(host),
        };
        Ok(EgressRule { pattern, port })
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            HostPattern::Exactly(host) => write!(f, "{host}")?,
            HostPattern::Below(suffix) => write!(f, "*{suffix}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl EgressRule {
    /// Whether the rule has a port. Only then are protocols other than TLS and HTTP allowed.
    pub fn names_port(&self) -> bool {
        self.port.is_some()
    }

    /// Sort key: an exact host before subdomains, then the longer name, then the port.
    pub(crate) fn rank(&self) -> (bool, usize, bool) {
        let (is_exact, length) = match &self.pattern {
            HostPattern::Exactly(_) => (true, 0),
            HostPattern::Below(suffix) => (false, suffix.len()),
        };
        (is_exact, length, self.names_port())
    }

    pub(crate) fn matches(&self, target: &ConnectTarget) -> bool {
        let port = match self.port {
            Some(port) => port == target.port,
            None => WEB_PORTS.contains(&target.port),
        };
        port && match (&self.pattern, &target.host) {
            (HostPattern::Exactly(host), target) => host == target,
            (HostPattern::Below(suffix), Host::Name(name)) => {
                name.len() > suffix.len() && name.ends_with(suffix)
            }
            (HostPattern::Below(_), Host::Address(_)) => false,
        }
    }

    pub(crate) fn is_localhost(&self) -> bool {
        matches!(&self.pattern, HostPattern::Exactly(Host::Name(name)) if name == "localhost")
    }
}

/// The narrowest rule for a target: only the host for a web port, otherwise the host with its port.
impl From<&ConnectTarget> for EgressRule {
    fn from(target: &ConnectTarget) -> EgressRule {
        EgressRule {
            pattern: HostPattern::Exactly(target.host.clone()),
            port: (!WEB_PORTS.contains(&target.port)).then_some(target.port),
        }
    }
}

/// All the rules of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowList {
    rules: Vec<EgressRule>,
}

impl AllowList {
    pub fn new(rules: Vec<EgressRule>) -> AllowList {
        AllowList { rules }
    }

    /// Parses the values of `--allow-net`.
    pub fn parse<T: AsRef<str>>(
        values: impl IntoIterator<Item = T>,
    ) -> Result<AllowList, RuleError> {
        values
            .into_iter()
            .map(|value| value.as_ref().parse())
            .collect::<Result<_, _>>()
            .map(AllowList::new)
    }

    /// The rules, in the order given.
    pub fn rules(&self) -> &[EgressRule] {
        &self.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::AddressClass;
    use crate::policy::EgressPolicy;

    #[track_caller]
    fn check(rules: &[&str], target: &str, expect: Option<&str>) {
        let policy = EgressPolicy::from(AllowList::parse(rules).unwrap());
        let target = ConnectTarget::parse(target, None).unwrap();
        assert_eq!(
            policy
                .find_allow_rule(&target)
                .map(ToString::to_string)
                .as_deref(),
            expect,
            "{target}"
        );
    }

    #[test]
    fn a_rule_allows_what_it_says_and_no_more() {
        let name = &["Example.COM."];
        check(name, "example.com:443", Some("example.com"));
        check(name, "EXAMPLE.com.:80", Some("example.com"));
        check(name, "example.com:8080", None);
        check(name, "www.example.com:443", None);
        check(name, "badexample.com:443", None);
        check(name, "example.com.evil.org:443", None);

        let below = &["*.example.com"];
        check(below, "www.example.com:443", Some("*.example.com"));
        check(below, "a.b.example.com:80", Some("*.example.com"));
        check(below, "example.com:443", None);
        check(below, "badexample.com:443", None);
        check(below, "www.example.com:22", None);

        check(
            &["git.example.com:22"],
            "git.example.com:22",
            Some("git.example.com:22"),
        );
        check(&["git.example.com:22"], "git.example.com:443", None);
        check(
            &["*.example.com:22"],
            "git.example.com:22",
            Some("*.example.com:22"),
        );
        check(
            &["localhost:3000"],
            "localhost:3000",
            Some("localhost:3000"),
        );
        check(&["localhost:3000"], "127.0.0.1:3000", None);
        check(&["a.com", "a.com:443"], "a.com:443", Some("a.com:443"));
        check(&[], "example.com:443", None);
    }

    #[test]
    fn an_address_is_allowed_only_as_itself() {
        let v4 = &["169.254.169.254"];
        for target in [
            "169.254.169.254:80",
            "2852039166:80",
            "0xA9FEA9FE:80",
            "[::ffff:a9fe:a9fe]:80",
        ] {
            check(v4, target, Some("169.254.169.254"));
            check(&["*.com"], target, None);
        }
        check(v4, "169.254.169.253:80", None);
        check(v4, "[64:ff9b::a9fe:a9fe]:80", None);
        check(
            &["[::ffff:10.0.0.1]:80"],
            "10.0.0.1:80",
            Some("10.0.0.1:80"),
        );
        check(
            &["[2001:DB8::1]:22"],
            "[2001:db8:0::1]:22",
            Some("[2001:db8::1]:22"),
        );
        check(
            &["[2001:db8::1]"],
            "[2001:db8::1]:443",
            Some("[2001:db8::1]"),
        );
    }

    #[test]
    fn what_is_no_rule_is_explained() {
        for (text, expect) in [
            ("", "cannot allow ``: the host is empty"),
            (
                "https://example.com",
                "cannot allow `https://example.com`: write a host such as `example.com`, without scheme or path",
            ),
            (
                "*",
                "cannot allow `*`: a `*` can only stand for subdomains, as in `*.example.com`",
            ),
            (
                "a.*.com",
                "cannot allow `a.*.com`: a `*` can only stand for subdomains, as in `*.example.com`",
            ),
            ("*.", "cannot allow `*.`: the host is empty"),
            (
                "*.10.0.0.1",
                "cannot allow `*.10.0.0.1`: an address has no subdomains",
            ),
            (
                "0x7f.1:80",
                "cannot allow `0x7f.1:80`: write the address as `127.0.0.1`",
            ),
            (
                "010.0.0.1",
                "cannot allow `010.0.0.1`: write the address as `8.0.0.1`",
            ),
            (
                "::1",
                "cannot allow `::1`: an IPv6 address must be in brackets",
            ),
            (
                "10.0.0.0.1",
                "cannot allow `10.0.0.0.1`: a host name that ends in a number must be an IPv4 address",
            ),
            (
                "a.com:http",
                "cannot allow `a.com:http`: the port is not a number from 1 to 65535",
            ),
            (
                "a.com:0",
                "cannot allow `a.com:0`: the port is not a number from 1 to 65535",
            ),
            (
                "me@a.com",
                "cannot allow `me@a.com`: a host name cannot contain '@'",
            ),
            (
                "a.com\n",
                r"cannot allow `a.com\n`: a host name cannot contain '\n'",
            ),
        ] {
            assert_eq!(text.parse::<EgressRule>().unwrap_err().to_string(), expect);
        }
    }

    #[test]
    fn addresses_that_are_not_public_need_their_own_rule() {
        let check = |rules: &[&str],
                     target: &str,
                     address: &str,
                     expect: Result<AddressClass, AddressClass>| {
            let policy = EgressPolicy::from(AllowList::parse(rules).unwrap());
            let target = ConnectTarget::parse(target, None).unwrap();
            let rule = policy.find_allow_rule(&target).unwrap();
            let permit = policy.permit(rule, address.parse().unwrap(), target.port);
            assert_eq!(permit, expect, "{rules:?} {target} {address}");
        };
        check(&["a.com"], "a.com:443", "8.8.8.8", Ok(AddressClass::Public));
        check(
            &["a.com"],
            "a.com:443",
            "10.0.0.1",
            Err(AddressClass::Private),
        );
        check(
            &["a.com", "10.0.0.1"],
            "a.com:443",
            "10.0.0.1",
            Ok(AddressClass::Private),
        );
        check(
            &["a.com", "10.0.0.1"],
            "a.com:443",
            "::ffff:10.0.0.1",
            Ok(AddressClass::Private),
        );
        check(
            &["a.com", "10.0.0.1"],
            "a.com:443",
            "64:ff9b::10.0.0.1",
            Err(AddressClass::Private),
        );
        check(
            &["a.com", "10.0.0.1:22"],
            "a.com:443",
            "10.0.0.1",
            Err(AddressClass::Private),
        );
        check(
            &["a.com", "10.0.0.1"],
            "a.com:443",
            "10.0.0.2",
            Err(AddressClass::Private),
        );
        check(
            &["localhost:1"],
            "localhost:1",
            "127.0.0.1",
            Ok(AddressClass::Loopback),
        );
        check(
            &["localhost:1"],
            "localhost:1",
            "::1",
            Ok(AddressClass::Loopback),
        );
        check(
            &["localhost:1"],
            "localhost:1",
            "127.0.0.2",
            Err(AddressClass::Loopback),
        );
        check(
            &["localhost:1"],
            "localhost:1",
            "10.0.0.1",
            Err(AddressClass::Private),
        );
        check(
            &["*.localhost:1"],
            "a.localhost:1",
            "127.0.0.1",
            Err(AddressClass::Loopback),
        );
        check(
            &["a.com", "localhost"],
            "a.com:80",
            "127.0.0.1",
            Err(AddressClass::Loopback),
        );
        check(
            &["169.254.169.254"],
            "169.254.169.254:80",
            "169.254.169.254",
            Ok(AddressClass::Metadata),
        );
    }
}
