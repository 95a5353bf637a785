//! The proxy's own responses: short plain texts that distinguish a denial from a failure.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use crate::connection::DenialReason;

/// A streamed body from a server, or a text of the proxy.
pub(crate) type ProxyBody = Either<Incoming, Full<Bytes>>;

const DENIED_HEADER: HeaderName = HeaderName::from_static("x-hotcell-denied");

/// A response without a body.
pub(crate) fn status(status: StatusCode) -> Response<ProxyBody> {
    let mut response = Response::new(Either::Right(Full::default()));
    *response.status_mut() = status;
    response
}

/// A response that says why a request was refused or failed.
pub(crate) fn refusal_response(reason: &DenialReason) -> Response<ProxyBody> {
    let code = reason.status();
    if code != StatusCode::FORBIDDEN {
        return text(code, &reason.to_string());
    }
    let mut lines = format!("denied: {reason}");
    if let Some(rule) = reason.hint() {
        lines.push_str(&format!("\nhint: --allow-net {rule}"));
    }
    let mut response = text(code, &lines);
    let plain: String = reason
        .to_string()
        .chars()
        .map(|c| if c.is_ascii() { c } else { '?' })
        .collect();
    if let Ok(value) = HeaderValue::from_str(&plain) {
        response.headers_mut().insert(DENIED_HEADER, value);
    }
    response
}

/// A plain text response.
pub(crate) fn text(code: StatusCode, text: &str) -> Response<ProxyBody> {
    let mut response = status(code);
    *response.body_mut() = Either::Right(Full::from(format!("hotcell: {text}\n")));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// Closes the connection after this response.
pub(crate) fn with_connection_close(mut response: Response<ProxyBody>) -> Response<ProxyBody> {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
