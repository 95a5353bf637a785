//! Cross-site checks: pages of other sites cannot make changes (CSRF), and only listed sites can
//! read responses (CORS). Decides only.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::http::problem::{HttpProblem, ProblemKind};

const FETCH_SITE: &str = "sec-fetch-site";

/// The allowed origins.
#[derive(Debug)]
pub(crate) struct Origins {
    listed: Vec<String>,
}

/// The site that made a request, according to the browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestSite {
    /// A page of this server.
    Own,
    /// A page of an allowed origin.
    Listed,
    /// A page of another site.
    Foreign,
    /// Not a browser, or one that does not send the headers.
    Unsaid,
}

impl Origins {
    pub(crate) fn new(listed: &[String]) -> Self {
        Self {
            listed: listed
                .iter()
                .map(|origin| origin.trim_end_matches('/').to_ascii_lowercase())
                .collect(),
        }
    }

    /// `host` is the validated host name of the request.
    pub(crate) fn site(&self, headers: &HeaderMap, host: &str) -> RequestSite {
        let is_foreign =
            |fetch: &HeaderValue| matches!(fetch.as_bytes(), b"cross-site" | b"same-site");
        let fetch = headers.get(FETCH_SITE);
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, more) = (origins.next(), origins.next());
        if more.is_some() {
            return RequestSite::Foreign;
        }
        match origin.map(HeaderValue::to_str) {
            Some(Ok(origin)) if self.is_listed(origin) => RequestSite::Listed,
            Some(Ok(origin)) if is_own(origin, host) && !fetch.is_some_and(is_foreign) => {
                RequestSite::Own
            }
            Some(_) => RequestSite::Foreign,
            None => match fetch {
                Some(fetch) if is_foreign(fetch) => RequestSite::Foreign,
                Some(fetch) if fetch == "same-origin" => RequestSite::Own,
                _ => RequestSite::Unsaid,
            },
        }
    }

    fn is_listed(&self, origin: &str) -> bool {
        self.listed
            .iter()
            .any(|listed| listed.eq_ignore_ascii_case(origin))
    }

    /// The response to a CORS preflight request.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        if method != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let origin = headers.get(ORIGIN)?;
        if !origin.to_str().is_ok_and(|origin| self.is_listed(origin)) {
            let problem = HttpProblem::new(ProblemKind::CrossSite, "this origin is not listed");
            return Some(problem.into_response());
        }
        let mut response = StatusCode::NO_CONTENT.into_response();
        let answer = response.headers_mut();
        let mut say = |name, value| answer.insert(name, HeaderValue::from_static(value));
        say(ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE");
        say(
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, x-api-key",
        );
        say(ACCESS_CONTROL_MAX_AGE, "600");
        Some(response)
    }

    /// Adds the CORS headers for an allowed origin.
    pub(crate) fn open(&self, origin: Option<&HeaderValue>, answer: &mut HeaderMap) {
        if self.listed.is_empty() {
            return;
        }
        answer.append(VARY, HeaderValue::from_static("origin"));
        let listed =
            origin.filter(|origin| origin.to_str().is_ok_and(|origin| self.is_listed(origin)));
        if let Some(origin) = listed {
            answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(
                    "content-disposition, etag, hotcell-partial, location, retry-after, x-request-id",
                ),
            );
        }
    }
}

/// Refuses changes requested by pages of other sites. With a cookie, the browser must confirm that
/// the request is from this server's own page.
pub(crate) fn check_change(site: RequestSite, has_cookie: bool) -> Result<(), HttpProblem> {
    match (site, has_cookie) {
        (RequestSite::Own | RequestSite::Listed, false)
        | (RequestSite::Own, true)
        | (RequestSite::Unsaid, false) => Ok(()),
        (RequestSite::Unsaid, true) => Err(HttpProblem::new(
            ProblemKind::CrossSite,
            "a change with a cookie needs `Origin` or `Sec-Fetch-Site`",
        )
        .hint("programs send the key itself: `Authorization: Bearer KEY`")),
        (RequestSite::Foreign, _) | (RequestSite::Listed, true) => Err(HttpProblem::new(
            ProblemKind::CrossSite,
            "a page of another site may not change anything here",
        )
        .hint("list its origin with the server if it may")),
    }
}

/// Whether the method can make changes.
pub(crate) fn is_change(method: &Method) -> bool {
    !matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE
    )
}

/// Whether an origin is the host that the request was sent to.
fn is_own(origin: &str, host: &str) -> bool {
    let Ok(origin) = origin.parse::<Uri>() else {
        return false;
    };
    let default = match origin.scheme_str() {
        Some("http") => ":80",
        Some("https") => ":443",
        _ => return false,
    };
    let plain = |authority: &str| {
        let authority = authority.to_ascii_lowercase();
        authority
            .strip_suffix(default)
            .map_or(authority.clone(), str::to_owned)
    };
    origin
        .authority()
        .is_some_and(|authority| plain(authority.as_str()) == plain(host))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HOST: &str = "localhost:3001";

    #[test]
    fn a_browser_says_which_site_asks() {
        let origins = Origins::new(&["https://Listed.example/".into()]);
        let check = |origin: Option<&str>, fetch: Option<&str>, expect: RequestSite| {
            let mut headers = HeaderMap::new();
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            if let Some(fetch) = fetch {
                headers.insert(FETCH_SITE, fetch.parse().unwrap());
            }
            assert_eq!(origins.site(&headers, HOST), expect, "{origin:?} {fetch:?}");
        };
        check(None, None, RequestSite::Unsaid);
        check(None, Some("none"), RequestSite::Unsaid);
        check(None, Some("same-origin"), RequestSite::Own);
        check(None, Some("same-site"), RequestSite::Foreign);
        check(None, Some("cross-site"), RequestSite::Foreign);
        check(Some("http://localhost:3001"), None, RequestSite::Own);
        check(
            Some("http://LOCALHOST:3001"),
            Some("same-origin"),
            RequestSite::Own,
        );
        check(
            Some("http://localhost:3001"),
            Some("cross-site"),
            RequestSite::Foreign,
        );
        check(
            Some("http://localhost:3002"),
            Some("same-site"),
            RequestSite::Foreign,
        );
        check(Some("http://localhost"), None, RequestSite::Foreign);
        check(Some("http://evil.example"), None, RequestSite::Foreign);
        check(Some("null"), None, RequestSite::Foreign);
        check(Some("file://"), None, RequestSite::Foreign);
        check(
            Some("https://listed.example"),
            Some("cross-site"),
            RequestSite::Listed,
        );
        check(
            Some("http://listed.example"),
            Some("cross-site"),
            RequestSite::Foreign,
        );
    }

    #[test]
    fn default_ports_may_be_explicit() {
        for (origin, host, expect) in [
            ("https://hot.example", "hot.example:443", true),
            ("https://hot.example", "hot.example", true),
            ("http://hot.example", "hot.example:80", true),
            ("http://hot.example", "hot.example:443", false),
        ] {
            assert_eq!(is_own(origin, host), expect, "{origin} {host}");
        }
    }

    #[test]
    fn changes_need_the_right_site() {
        for (site, has_cookie, expect) in [
            (RequestSite::Own, false, true),
            (RequestSite::Own, true, true),
            (RequestSite::Listed, false, true),
            (RequestSite::Listed, true, false),
            (RequestSite::Foreign, false, false),
            (RequestSite::Foreign, true, false),
            (RequestSite::Unsaid, false, true),
            (RequestSite::Unsaid, true, false),
        ] {
            let found = check_change(site, has_cookie).is_ok();
            assert_eq!(found, expect, "{site:?} {has_cookie}");
        }
    }
}
