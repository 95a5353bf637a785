//! What is told about every attempt to leave the sandbox: a [`Connection`].
//!
//! Never holds paths, headers or bodies, only who was to be reached and what became of it.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;
use thiserror::Error;

use crate::address::Class;
use crate::host::{Host, HostError, Target};
use crate::rules::Rule;

/// One attempt to reach a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The name or address asked for; what was not a host is escaped and cut.
    pub host: String,
    /// The port asked for; 0 if none could be read.
    pub port: u16,
    /// The address that was connected to or refused, once it was known.
    pub address: Option<SocketAddr>,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It went through.
    Allowed {
        /// The rule that let it, or whose answer did.
        rule: String,
    },
    /// It did not.
    Denied {
        /// Why.
        reason: Reason,
    },
}

/// Why an attempt did not go through.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The wall itself.
    #[error("no rule allows `{target}`")]
    NoRule { target: Target },
    /// A rule that says no.
    #[error("rule `{rule}` denies `{target}`")]
    Denied { rule: Rule, target: Target },
    /// It was to be asked about, and the answer was no, or there was none.
    #[error("`{target}` is not opened: {because}")]
    Refused { target: Target, because: String },
    /// The name leads into a network that is not for sandboxes.
    #[error("`{name}` resolves to the {class} address {address}")]
    NotPublic {
        name: String,
        class: Class,
        address: IpAddr,
        port: u16,
    },
    /// The name leads nowhere.
    #[error("cannot resolve `{name}`: {error}")]
    Unresolved { name: String, error: String },
    /// Nobody answered at the checked addresses.
    #[error("cannot connect to `{target}`: {error}")]
    Connect { target: Target, error: String },
    /// The client or the whole sandbox went away before the target was reached.
    #[error("the attempt to reach `{target}` was given up")]
    Abandoned { target: Target },
    /// The sandbox has too many connections open.
    #[error("cannot connect to `{target}`: too many connections are open")]
    TooMany { target: Target },
    /// TLS for another host than the tunnel's.
    #[error("TLS server name `{}` differs from the CONNECT target `{target}`", name.escape_debug())]
    ServerName { name: String, target: Target },
    /// TLS that does not say for whom.
    #[error("TLS without a server name, to the CONNECT target `{target}`")]
    NoServerName { target: Target },
    /// A hello that two readers could understand differently.
    #[error("malformed TLS hello, to the CONNECT target `{target}`")]
    BadHello { target: Target },
    /// A request for another host than the one connected to.
    #[error("Host header `{}` differs from the target `{target}`", host.escape_debug())]
    HostHeader { host: String, target: Target },
    /// Neither TLS nor HTTP, and no rule that is wide enough.
    #[error("neither TLS nor HTTP, to `{target}`, which is allowed without naming the port")]
    Protocol { target: Target },
    /// HTTP/2 in the clear, in which requests for other hosts could hide.
    #[error("HTTP/2 without TLS, to `{target}`")]
    Http2 { target: Target },
    /// A request that does not say correctly whom it is for.
    #[error("bad target `{}`: {error}", text.escape_debug())]
    BadTarget { text: String, error: HostError },
    /// An `https://` URL that is not asked for through a tunnel, and other schemes.
    #[error("cannot fetch `{}` URLs: use CONNECT for anything but http", scheme.escape_debug())]
    Scheme { scheme: String },
    /// A request as to a web server.
    #[error("this is a proxy: send an absolute http:// URL or CONNECT")]
    NotForProxy,
    /// A request that breaks the rules of HTTP.
    #[error("bad request: {error}")]
    BadRequest { error: String },
}

impl Reason {
    /// The answer to the client. 403 is the wall, and only the wall.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Reason::NoRule { .. }
            | Reason::Denied { .. }
            | Reason::Refused { .. }
            | Reason::NotPublic { .. }
            | Reason::ServerName { .. }
            | Reason::NoServerName { .. }
            | Reason::BadHello { .. }
            | Reason::HostHeader { .. }
            | Reason::Protocol { .. }
            | Reason::Http2 { .. } => StatusCode::FORBIDDEN,
            Reason::Unresolved { .. } | Reason::Connect { .. } | Reason::Abandoned { .. } => {
                StatusCode::BAD_GATEWAY
            }
            Reason::TooMany { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Reason::BadTarget { .. }
            | Reason::Scheme { .. }
            | Reason::NotForProxy
            | Reason::BadRequest { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The `--allow-net` value that would let it through, where a person may well want that.
    pub fn hint(&self) -> Option<String> {
        match self {
            Reason::NoRule {
                target:
                    Target {
                        host,
                        port: 80 | 443,
                    },
            } => Some(host.to_string()),
            Reason::NoRule { target } | Reason::Protocol { target } => Some(target.to_string()),
            Reason::NotPublic {
                class: Class::Private | Class::Loopback,
                address,
                port,
                ..
            } => {
                let host = Host::Address(address.to_canonical());
                Some(Target { host, port: *port }.to_string())
            }
            _ => None,
        }
    }
}

/// A text from inside the sandbox, made fit to be shown and kept.
pub(crate) fn tame(text: &str) -> String {
    text.chars()
        .take(256)
        .flat_map(char::escape_debug)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_what_would_help() {
        let target = |text| Target::parse(text, None).unwrap();
        let private = |class, address: &str| Reason::NotPublic {
            name: "a.com".into(),
            class,
            address: address.parse().unwrap(),
            port: 443,
        };
        for (reason, expect) in [
            (
                Reason::NoRule {
                    target: target("a.com:443"),
                },
                Some("a.com"),
            ),
            (
                Reason::NoRule {
                    target: target("a.com:22"),
                },
                Some("a.com:22"),
            ),
            (
                Reason::NoRule {
                    target: target("[::1]:80"),
                },
                Some("[::1]"),
            ),
            (
                Reason::Protocol {
                    target: target("a.com:443"),
                },
                Some("a.com:443"),
            ),
            (private(Class::Private, "10.0.0.1"), Some("10.0.0.1:443")),
            (private(Class::Metadata, "169.254.169.254"), None),
            (Reason::NotForProxy, None),
        ] {
            assert_eq!(reason.hint().as_deref(), expect, "{reason}");
        }
    }

    #[test]
    fn texts_from_inside_are_tamed() {
        assert_eq!(tame("a\r\n\u{1b}[31m\0"), r"a\r\n\u{1b}[31m\0");
        assert!(tame(&"\0".repeat(10_000)).len() < 2000);
    }
}
