//! Checks the `Host` header against DNS rebinding: a page of another site whose name was pointed at
//! this machine still sends that name. Decides only.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

use crate::http::problem::{HttpProblem, ProblemKind};

/// The accepted host names of a server.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    bound: IpAddr,
    /// Lower case. Names with a port match only that port.
    named: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn new(address: SocketAddr, named: &[String]) -> Self {
        Self {
            bound: address.ip().to_canonical(),
            named: named.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    /// The host name of a request, if it is accepted.
    pub(crate) fn check<'a>(
        &self,
        uri: &'a Uri,
        headers: &'a HeaderMap,
    ) -> Result<&'a str, HttpProblem> {
        let mut named = headers.get_all(header::HOST).iter();
        let (host, more) = (named.next(), named.next());
        let host = host
            .filter(|_| more.is_none())
            .and_then(|host| host.to_str().ok())
            .ok_or_else(|| HttpProblem::bad("exactly one `Host` is needed"))?;
        // An absolute URI in the request line must match too.
        let meant = [
            Some(host),
            uri.authority().map(|authority| authority.as_str()),
        ];
        match meant
            .into_iter()
            .flatten()
            .find(|name| !self.is_allowed(name))
        {
            None => Ok(host),
            Some(name) => Err(HttpProblem::new(
                ProblemKind::WrongHost,
                format!("this server is not known as `{name}`"),
            )
            .hint("add the name to the server's hosts if it should be")),
        }
    }

    fn is_allowed(&self, authority: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        let Some(name) = without_port(&authority) else {
            return false;
        };
        if name == "localhost"
            || self
                .named
                .iter()
                .any(|own| *own == authority || *own == name)
        {
            return true;
        }
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        // DNS rebinding does not apply to literal addresses.
        literal.parse::<IpAddr>().is_ok_and(|address| {
            let address = address.to_canonical();
            address.is_loopback() || address == self.bound || self.bound.is_unspecified()
        })
    }
}

/// The host of `host:port`; brackets are kept.
fn without_port(authority: &str) -> Option<&str> {
    let end = match authority.strip_prefix('[') {
        Some(_) => authority.find(']')? + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, port) = authority.split_at(end);
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.strip_prefix(':') {
        None if port.is_empty() => Some(name),
        Some(port) if is_port(port) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn is_accepted(bound: &str, host: &str) -> bool {
        let hosts = AllowedHosts::new(
            bound.parse().unwrap(),
            &["Hot.Example".into(), "other.example:8443".into()],
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        hosts.check(&Uri::from_static("/"), &headers).is_ok()
    }

    #[test]
    fn only_known_names_are_let_in() {
        let check = |bound: &str, host: &str, expect: bool| {
            assert_eq!(is_accepted(bound, host), expect, "{host} at {bound}");
        };
        let here = "127.0.0.1:3001";
        for host in [
            "localhost",
            "localhost:3001",
            "LOCALHOST:3001",
            "localhost:9999",
            "127.0.0.1",
            "127.0.0.1:3001",
            "127.0.0.2:3001",
            "[::1]",
            "[::1]:3001",
            "hot.example",
            "HOT.example:80",
            "other.example:8443",
        ] {
            check(here, host, true);
        }
        for host in [
            "evil.example",
            "evil.example:3001",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "other.example",
            "other.example:80",
            "localhost:3001:1",
            "localhost:",
            "localhost:x",
            "[::1",
            "user@localhost",
            "192.168.1.7",
            "",
        ] {
            check(here, host, false);
        }
        check("192.168.1.7:3001", "192.168.1.7:3001", true);
        check("192.168.1.7:3001", "192.168.1.8:3001", false);
        check("0.0.0.0:3001", "192.168.1.8:3001", true);
        check("0.0.0.0:3001", "evil.example:3001", false);
        check("[::]:3001", "[fd00::1]:3001", true);
    }

    #[test]
    fn a_request_has_one_host_and_means_it() {
        let hosts = AllowedHosts::new("127.0.0.1:3001".parse().unwrap(), &[]);
        let check = |uri: &'static str, named: &[&str], expect: Result<(), ProblemKind>| {
            let mut headers = HeaderMap::new();
            for host in named {
                headers.append(header::HOST, host.parse().unwrap());
            }
            let uri = Uri::from_static(uri);
            let found = hosts.check(&uri, &headers).map(|_| ());
            let found = found.map_err(|problem| problem.kind);
            assert_eq!(found, expect, "{uri} {named:?}");
        };
        check("/", &["localhost"], Ok(()));
        check("/", &[], Err(ProblemKind::BadRequest));
        check(
            "/",
            &["localhost", "localhost"],
            Err(ProblemKind::BadRequest),
        );
        check("http://localhost/", &["localhost"], Ok(()));
        check(
            "http://evil.example/",
            &["localhost"],
            Err(ProblemKind::WrongHost),
        );
    }
}
