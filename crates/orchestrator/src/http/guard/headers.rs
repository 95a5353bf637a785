//! Security headers of every response: no framing, sniffing, embedding or caching.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue};

/// Defaults, unless the response sets them.
static DEFAULT_HEADERS: [(HeaderName, HeaderValue); 8] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; \
             frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static(
            "camera=(), geolocation=(), microphone=(), payment=(), usb=(), interest-cohort=()",
        ),
    ),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

pub(crate) fn add_defaults(headers: &mut HeaderMap) {
    for (name, value) in &DEFAULT_HEADERS {
        if !headers.contains_key(name) {
            headers.insert(name, value.clone());
        }
    }
}
