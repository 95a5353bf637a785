//! Checks and rewrites the head of a forwarded request or response. Pure.
//!
//! The framing of a message is never passed on: hop-by-hop headers are removed and hyper frames it
//! again, so that both sides agree on where it ends.

use hyper::header::{
    CONNECTION, CONTENT_LENGTH, Entry, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Request, Uri, Version};

use crate::connection::DenialReason;
use crate::host::ConnectTarget;

/// Checks that a request names exactly the host that it goes to.
///
/// `default_port` is the port of a name without a port.
pub(crate) fn check_host<B>(
    request: &Request<B>,
    target: &ConnectTarget,
    default_port: u16,
) -> Result<(), DenialReason> {
    if let Some(authority) = request.uri().authority() {
        check_authority(authority.as_str(), target, default_port)?;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            let text = String::from_utf8_lossy(host.as_bytes());
            check_authority(&text, target, default_port)
        }
        (None, _) if request.version() < Version::HTTP_11 => Ok(()),
        (None, _) => Err(bad("the Host header is missing")),
        (Some(_), Some(_)) => Err(bad("there is more than one Host header")),
    }
}

fn check_authority(
    text: &str,
    target: &ConnectTarget,
    default_port: u16,
) -> Result<(), DenialReason> {
    match ConnectTarget::parse(text, Some(default_port)) {
        Ok(named) if named == *target => Ok(()),
        _ => {
            let host = text.chars().take(256).collect();
            Err(DenialReason::HostHeader {
                host,
                target: target.clone(),
            })
        }
    }
}

fn bad(error: &str) -> DenialReason {
    DenialReason::BadRequest {
        error: error.into(),
    }
}

/// Rewrites a checked request for the server: origin-form, one Host header, no hop-by-hop headers.
/// Returns whether it asks for a WebSocket, which is the only upgrade that is forwarded.
pub(crate) fn prepare_request<B>(
    request: &mut Request<B>,
    target: &ConnectTarget,
) -> Result<bool, DenialReason> {
    let chunked = is_chunked(request.headers())?;
    let websocket = asks_for_websocket(request.headers());
    remove_hop_by_hop(request.headers_mut());
    let headers = request.headers_mut();
    if chunked {
        headers.remove(CONTENT_LENGTH);
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    if let Entry::Vacant(entry) = headers.entry(HOST) {
        let value = match target.port {
            80 => target.host.to_string(),
            _ => target.to_string(),
        };
        entry.insert(HeaderValue::from_str(&value).map_err(|_| bad("the host is not ASCII"))?);
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = path
        .parse::<Uri>()
        .map_err(|_| bad("the path is invalid"))?;
    *request.version_mut() = Version::HTTP_11;
    Ok(websocket)
}

/// Whether the body is chunked. Other codings are refused, because the proxy frames messages again.
pub(crate) fn is_chunked(headers: &HeaderMap) -> Result<bool, DenialReason> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err(bad("only the transfer coding `chunked` is supported")),
    }
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
        && tokens(headers, &UPGRADE).any(|token| token.eq_ignore_ascii_case("websocket"))
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes hop-by-hop headers and those that the Connection header lists.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        // A client must not remove a header that was checked or that frames the message.
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    let fixed = [
        CONNECTION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        HeaderName::from_static("keep-alive"),
    ];
    let proxy = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"))
        .cloned();
    let names: Vec<HeaderName> = proxy.chain(named).chain(fixed).collect();
    for name in names {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap()
    }

    #[test]
    fn a_request_is_for_its_target_only() {
        let check = |uri: &str, hosts: &[&str], target: &str, expect: Option<&str>| {
            let headers: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let target = ConnectTarget::parse(target, None).unwrap();
            let found = check_host(&request(uri, &headers), &target, 80).err();
            assert_eq!(found.map(|reason| reason.to_string()).as_deref(), expect);
        };
        check("/", &["a.com"], "a.com:80", None);
        check("/", &["A.com.:80"], "a.com:80", None);
        check("http://a.com:80/", &["a.com"], "a.com:80", None);
        check("/", &["[::1]:81"], "[::1]:81", None);
        check("/", &["0x7f.1"], "127.0.0.1:80", None);
        let differs = |host: &str, target: &str| {
            format!("Host header `{host}` differs from the target `{target}`")
        };
        check(
            "/",
            &["a.com"],
            "a.com:81",
            Some(&differs("a.com", "a.com:81")),
        );
        check(
            "/",
            &["b.com"],
            "a.com:80",
            Some(&differs("b.com", "a.com:80")),
        );
        check(
            "/",
            &["a.com.b.com"],
            "a.com:80",
            Some(&differs("a.com.b.com", "a.com:80")),
        );
        check(
            "/",
            &["a.com, b.com"],
            "a.com:80",
            Some(&differs("a.com, b.com", "a.com:80")),
        );
        check(
            "/",
            &["b.com@a.com"],
            "a.com:80",
            Some(&differs("b.com@a.com", "a.com:80")),
        );
        check("/", &[""], "a.com:80", Some(&differs("", "a.com:80")));
        check(
            "http://b.com/",
            &["a.com"],
            "a.com:80",
            Some(&differs("b.com", "a.com:80")),
        );
        check(
            "/",
            &[],
            "a.com:80",
            Some("bad request: the Host header is missing"),
        );
        check(
            "/",
            &["a.com", "a.com"],
            "a.com:80",
            Some("bad request: there is more than one Host header"),
        );
    }

    #[test]
    fn hop_by_hop_headers_go() {
        let mut request = request(
            "http://a.com/p?q",
            &[
                ("host", "a.com"),
                ("connection", "close, X-Secret , host"),
                ("connection", "content-length"),
                ("x-secret", "1"),
                ("proxy-authorization", "basic x"),
                ("proxy-connection", "keep-alive"),
                ("keep-alive", "1"),
                ("te", "trailers"),
                ("trailer", "x"),
                ("upgrade", "h2c"),
                ("content-length", "3"),
                ("x-kept", "1"),
            ],
        );
        let target = ConnectTarget::parse("a.com:80", None).unwrap();
        assert_eq!(prepare_request(&mut request, &target), Ok(false));
        let mut names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-length", "host", "x-kept"]);
        assert_eq!(request.uri(), "/p?q");
    }

    #[test]
    fn framing_is_made_anew() {
        let target = ConnectTarget::parse("a.com:80", None).unwrap();
        let mut both = request(
            "http://a.com",
            &[
                ("host", "a.com"),
                ("content-length", "3"),
                ("transfer-encoding", "Chunked"),
            ],
        );
        assert_eq!(prepare_request(&mut both, &target), Ok(false));
        assert!(!both.headers().contains_key(CONTENT_LENGTH));
        assert_eq!(both.headers()[TRANSFER_ENCODING], "chunked");
        assert_eq!(both.uri(), "/");

        for coding in ["gzip, chunked", "identity", "xchunked", ""] {
            let mut odd = request("/", &[("transfer-encoding", coding)]);
            assert!(prepare_request(&mut odd, &target).is_err(), "{coding}");
        }
    }

    #[test]
    fn a_websocket_is_the_only_upgrade() {
        let target = ConnectTarget::parse("a.com:80", None).unwrap();
        for (connection, upgrade, expect) in [
            ("Upgrade", "websocket", true),
            ("keep-alive, upgrade", "WebSocket", true),
            ("keep-alive", "websocket", false),
            ("upgrade, http2-settings", "h2c", false),
        ] {
            let mut request = request("/", &[("connection", connection), ("upgrade", upgrade)]);
            assert_eq!(prepare_request(&mut request, &target), Ok(expect));
            assert_eq!(request.headers().contains_key(UPGRADE), expect);
            assert_eq!(request.headers()[HOST], "a.com");
        }
    }
}
