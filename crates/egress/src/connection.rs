//! The record of an attempt to connect out of the sandbox: a [`ConnectionRecord`].
//!
//! Never contains paths, headers or bodies, only the target and the verdict.

use std::net::{IpAddr, SocketAddr};

use hyper::StatusCode;
use thiserror::Error;

use crate::address::AddressClass;
use crate::host::{ConnectTarget, Host, HostError};
use crate::rules::EgressRule;

/// One attempt to reach a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    /// The requested name or address. Text that is not a host is escaped and truncated.
    pub host: String,
    /// The requested port; 0 if it could not be read.
    pub port: u16,
    /// The address that was connected to or refused, if known.
    pub address: Option<SocketAddr>,
    pub verdict: ConnectionVerdict,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionVerdict {
    Allowed {
        /// The rule that allowed it, or who allowed it on request.
        rule: String,
    },
    Denied {
        reason: DenialReason,
    },
}

/// Why an attempt was denied or failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DenialReason {
    /// Denied by default.
    #[error("no rule allows `{target}`")]
    NoRule { target: ConnectTarget },
    /// Denied by a rule.
    #[error("rule `{rule}` denies `{target}`")]
    Denied {
        rule: EgressRule,
        target: ConnectTarget,
    },
    /// Approval was required, and it was refused or could not be obtained.
    #[error("`{target}` is not opened: {because}")]
    Refused {
        target: ConnectTarget,
        because: String,
    },
    /// The name resolves to an address that sandboxes must not reach.
    #[error("`{name}` resolves to the {class} address {address}")]
    NotPublic {
        name: String,
        class: AddressClass,
        address: IpAddr,
        port: u16,
    },
    /// The name cannot be resolved.
    #[error("cannot resolve `{name}`: {error}")]
    Unresolved { name: String, error: String },
    /// None of the checked addresses accepted the connection.
    #[error("cannot connect to `{target}`: {error}")]
    Connect {
        target: ConnectTarget,
        error: String,
    },
    /// The client disconnected or the sandbox ended before the target was reached.
    #[error("the attempt to reach `{target}` was abandoned")]
    Abandoned { target: ConnectTarget },
    /// The sandbox has too many connections open.
    #[error("cannot connect to `{target}`: too many connections are open")]
    TooMany { target: ConnectTarget },
    /// TLS for a host other than the tunnel's target.
    #[error("TLS server name `{}` differs from the CONNECT target `{target}`", name.escape_debug())]
    ServerName { name: String, target: ConnectTarget },
    /// TLS without a server name.
    #[error("TLS without a server name, to the CONNECT target `{target}`")]
    NoServerName { target: ConnectTarget },
    /// A ClientHello that different parsers could read differently.
    #[error("malformed TLS hello, to the CONNECT target `{target}`")]
    BadHello { target: ConnectTarget },
    /// A request for a host other than the one connected to.
    #[error("Host header `{}` differs from the target `{target}`", host.escape_debug())]
    HostHeader { host: String, target: ConnectTarget },
    /// Neither TLS nor HTTP, and the rule has no port.
    #[error("neither TLS nor HTTP, to `{target}`, which is allowed without naming the port")]
    Protocol { target: ConnectTarget },
    /// HTTP/2 without TLS, which could contain requests for other hosts.
    #[error("HTTP/2 without TLS, to `{target}`")]
    Http2 { target: ConnectTarget },
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

impl DenialReason {
    /// The status for the client. 403 is used only for denials.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            DenialReason::NoRule { .. }
            | DenialReason::Denied { .. }
            | DenialReason::Refused { .. }
            | DenialReason::NotPublic { .. }
            | DenialReason::ServerName { .. }
            | DenialReason::NoServerName { .. }
            | DenialReason::BadHello { .. }
            | DenialReason::HostHeader { .. }
            | DenialReason::Protocol { .. }
            | DenialReason::Http2 { .. } => StatusCode::FORBIDDEN,
            DenialReason::Unresolved { .. }
            | DenialReason::Connect { .. }
            | DenialReason::Abandoned { .. } => StatusCode::BAD_GATEWAY,
            DenialReason::TooMany { .. } => StatusCode::SERVICE_UNAVAILABLE,
            DenialReason::BadTarget { .. }
            | DenialReason::Scheme { .. }
            | DenialReason::NotForProxy
            | DenialReason::BadRequest { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The `--allow-net` value that would allow it, if that is a plausible wish.
    pub fn hint(&self) -> Option<String> {
        match self {
            DenialReason::NoRule {
                target:
                    ConnectTarget {
                        host,
                        port: 80 | 443,
                    },
            } => Some(host.to_string()),
            DenialReason::NoRule { target } | DenialReason::Protocol { target } => {
                Some(target.to_string())
            }
            DenialReason::NotPublic {
                class: AddressClass::Private | AddressClass::Loopback,
                address,
                port,
                ..
            } => {
                let host = Host::Address(address.to_canonical());
                Some(ConnectTarget { host, port: *port }.to_string())
            }
            _ => None,
        }
    }
}

/// Escapes and truncates a text from inside the sandbox, so that it can be shown and logged.
pub(crate) fn sanitize(text: &str) -> String {
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
        let target = |text| ConnectTarget::parse(text, None).unwrap();
        let private = |class, address: &str| DenialReason::NotPublic {
            name: "a.com".into(),
            class,
            address: address.parse().unwrap(),
            port: 443,
        };
        for (reason, expect) in [
            (
                DenialReason::NoRule {
                    target: target("a.com:443"),
                },
                Some("a.com"),
            ),
            (
                DenialReason::NoRule {
                    target: target("a.com:22"),
                },
                Some("a.com:22"),
            ),
            (
                DenialReason::NoRule {
                    target: target("[::1]:80"),
                },
                Some("[::1]"),
            ),
            (
                DenialReason::Protocol {
                    target: target("a.com:443"),
                },
                Some("a.com:443"),
            ),
            (
                private(AddressClass::Private, "10.0.0.1"),
                Some("10.0.0.1:443"),
            ),
            (private(AddressClass::Metadata, "169.254.169.254"), None),
            (DenialReason::NotForProxy, None),
        ] {
            assert_eq!(reason.hint().as_deref(), expect, "{reason}");
        }
    }

    #[test]
    fn texts_from_inside_are_tamed() {
        assert_eq!(sanitize("a\r\n\u{1b}[31m\0"), r"a\r\n\u{1b}[31m\0");
        assert!(sanitize(&"\0".repeat(10_000)).len() < 2000);
    }
}
