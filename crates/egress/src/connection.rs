//! The record of an attempt to connect out of the sandbox: a [`Connection`].
//!
//! Never contains paths, headers or bodies, only the target and the verdict.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;
use thiserror::Error;

use crate::address::Class;
use crate::host::{Host, HostError, Target};
use crate::rules::Rule;

/// One attempt to reach a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The requested name or address. Text that is not a host is escaped and truncated.
    pub host: String,
    /// The requested port; 0 if it could not be read.
    pub port: u16,
    /// The address that was connected to or refused, if known.
    pub address: Option<SocketAddr>,
    pub verdict: Verdict,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed {
        /// The rule that allowed it, or who allowed it on request.
        rule: String,
    },
    Denied {
        reason: Reason,
    },
}

/// Why an attempt was denied or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// Denied by default.
    #[error("no rule allows `{target}`")]
    NoRule { target: Target },
    /// Denied by a rule.
    #[error("rule `{rule}` denies `{target}`")]
    Denied { rule: Rule, target: Target },
    /// Approval was required, and it was refused or could not be obtained.
    #[error("`{target}` is not opened: {because}")]
    Refused { target: Target, because: String },
    /// The name resolves to an address that sandboxes must not reach.
    #[error("`{name}` resolves to the {class} address {address}")]
    NotPublic {
        name: String,
        class: Class,
        address: IpAddr,
        port: u16,
    },
    /// The name cannot be resolved.
    #[error("cannot resolve `{name}`: {error}")]
    Unresolved { name: String, error: String },
    /// None of the checked addresses accepted the connection.
    #[error("cannot connect to `{target}`: {error}")]
    Connect { target: Target, error: String },
    /// The client disconnected or the sandbox ended before the target was reached.
    #[error("the attempt to reach `{target}` was abandoned")]
    Abandoned { target: Target },
    /// The sandbox has too many connections open.
    #[error("cannot connect to `{target}`: too many connections are open")]
    TooMany { target: Target },
    /// TLS for a host other than the tunnel's target.
    #[error("TLS server name `{}` differs from the CONNECT target `{target}`", name.escape_debug())]
    ServerName { name: String, target: Target },
    /// TLS without a server name.
    #[error("TLS without a server name, to the CONNECT target `{target}`")]
    NoServerName { target: Target },
    /// A ClientHello that different parsers could read differently.
    #[error("malformed TLS hello, to the CONNECT target `{target}`")]
    BadHello { target: Target },
    /// A request for a host other than the one connected to.
    #[error("Host header `{}` differs from the target `{target}`", host.escape_debug())]
    HostHeader { host: String, target: Target },
    /// Neither TLS nor HTTP, and the rule has no port.
    #[error("neither TLS nor HTTP, to `{target}`, which is allowed without naming the port")]
    Protocol { target: Target },
    /// HTTP/2 without TLS, which could contain requests for other hosts.
    #[error("HTTP/2 without TLS, to `{target}`")]
    Http2 { target: Target },
    /// A request with an invalid target.
    #[error("bad target `{}`: {error}", text.escape_debug())]
    BadTarget { text: String, error: HostError },
    /// An `https://` URL without a tunnel, or another scheme.
    #[error("cannot fetch `{}` URLs: use CONNECT for anything but http", scheme.escape_debug())]
    Scheme { scheme: String },
    /// A request in the form for a web server.
    #[error("this is a proxy: send an absolute http:// URL or CONNECT")]
    NotForProxy,
    /// A request that is invalid HTTP.
    #[error("bad request: {error}")]
    BadRequest { error: String },
}

impl Reason {
    /// The status for the client. 403 is used only for denials.
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

    /// The `--allow-net` value that would allow it, if that is a plausible wish.
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

/// Escapes and truncates a text from inside the sandbox, so that it can be shown and logged.
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
