//! Converts an error response (status, headers and body) to a [`ModelError`]. Pure.
//!
//! The provider's message becomes part of the error's message, without terminal control characters
//! and cut to a readable length.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{ModelError, ModelErrorKind};

/// Maximum length of a provider's message, in characters.
const MAX_MESSAGE_CHARS: usize = 1_000;

/// An error as the provider reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// Such as `overloaded_error`; empty if the provider does not name it.
    pub(crate) name: String,
    pub(crate) words: String,
}

impl ProviderError {
    /// From an `error` object, or from the string that some servers send instead.
    pub(crate) fn from_value(error: &Value) -> Self {
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        };
        let words = match error {
            Value::String(words) => Some(words.clone()),
            _ => text("message"),
        };
        // `code` is more specific than `type` where both are present: OpenAI's type is
        // `invalid_request_error` for almost everything.
        Self {
            name: text("code").or_else(|| text("type")).unwrap_or_default(),
            words: clean_line(&words.unwrap_or_else(|| error.to_string())),
        }
    }

    /// From the body of a response; `None` if it contains no error.
    pub(crate) fn from_body(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            error: Value,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        (!body.error.is_null()).then(|| Self::from_value(&body.error))
    }

    fn describe(&self) -> String {
        match (self.name.as_str(), self.words.as_str()) {
            ("", words) => words.to_owned(),
            (name, "") => name.to_owned(),
            (name, words) => format!("{words} ({name})"),
        }
    }

    /// The kind, if the provider's error alone determines it.
    fn kind(&self) -> Option<ModelErrorKind> {
        if is_too_long(self) {
            return Some(ModelErrorKind::TooLong);
        }
        // Not `invalid_request_error` and `api_error`: compatible servers use these for everything,
        // so the status is more specific.
        match self.name.as_str() {
            "authentication_error" | "permission_error" | "invalid_api_key" => {
                Some(ModelErrorKind::Key)
            }
            "not_found_error" | "model_not_found" => Some(ModelErrorKind::NotFound),
            "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => {
                Some(ModelErrorKind::RateLimit)
            }
            "overloaded_error" => Some(ModelErrorKind::Overloaded),
            "timeout_error" => Some(ModelErrorKind::Server),
            _ => None,
        }
    }
}

/// Providers have no common name for this error. Their messages are stable enough to match.
fn is_too_long(problem: &ProviderError) -> bool {
    let words = problem.words.to_ascii_lowercase();
    matches!(
        problem.name.as_str(),
        "context_length_exceeded" | "exceed_context_size_error"
    ) || [
        "prompt is too long",
        "exceed context limit",
        "maximum context length",
        "exceeds the available context size",
    ]
    .iter()
    .any(|sign| words.contains(sign))
}

/// The error for a response with a status other than success.
pub(crate) fn from_response(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> ModelError {
    let problem = ProviderError::from_body(body).unwrap_or_else(|| ProviderError {
        name: String::new(),
        words: clean_line(&String::from_utf8_lossy(body)),
    });
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    let mut message = format!("cannot get a reply: status {status} {reason}");
    message.truncate(message.trim_end().len());
    let said = problem.describe();
    if !said.is_empty() {
        message = format!("{message}: {said}");
    }
    if let Some(place) = text(headers, LOCATION.as_str()) {
        message = format!(
            "{message}; it redirects to `{}`, and redirects are not followed because of the key",
            clean_line(place)
        );
    }
    if let Some(id) = text(headers, "request-id").or_else(|| text(headers, "x-request-id")) {
        message = format!("{message} [request {}]", clean_line(id));
    }
    let kind = problem.kind().unwrap_or(kind_of_status(status));
    let out_of_money = (problem.name == "insufficient_quota").then_some(false);
    ModelError {
        should_retry: should_retry(headers).or(out_of_money),
        retry_after: retry_after(headers, now),
        ..ModelError::new(kind, message)
    }
}

/// An error that arrives in the middle of a stream, after a success status.
pub(crate) fn from_stream(error: &Value) -> ModelError {
    let problem = ProviderError::from_value(error);
    let kind = problem.kind().unwrap_or(match problem.name.as_str() {
        "invalid_request_error" | "request_too_large" => ModelErrorKind::Request,
        _ => ModelErrorKind::Server,
    });
    let said = problem.describe();
    ModelError::new(kind, format!("cannot get the whole reply: {said}"))
}

fn kind_of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Key,
        404 | 300..=399 => ModelErrorKind::NotFound,
        429 => ModelErrorKind::RateLimit,
        503 | 529 => ModelErrorKind::Overloaded,
        408 | 409 | 500.. => ModelErrorKind::Server,
        _ => ModelErrorKind::Request,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn should_retry(headers: &HeaderMap) -> Option<bool> {
    match text(headers, "x-should-retry")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// From `retry-after-ms`, or else `retry-after`: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let number = text.parse::<f64>().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    let millis = text(headers, "retry-after-ms").and_then(|text| seconds(text, 0.001));
    millis.or_else(|| {
        let text = text(headers, RETRY_AFTER.as_str())?;
        seconds(text, 1.0).or_else(|| {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            // A date in the past means no delay.
            Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
        })
    })
}

/// One line of bounded length, without control characters.
pub(crate) fn clean_line(text: &str) -> String {
    let words = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let line = line.join(" ");
    match line.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn failure(status: u16, headers: &[(&str, &str)], body: &str) -> ModelError {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                let name = name.parse::<HeaderName>().unwrap();
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect();
        let now = "2026-01-31T12:00:00Z".parse().unwrap();
        from_response(status, &headers, body.as_bytes(), now)
    }

    #[test]
    fn status_and_type_choose_the_kind() {
        fn check(status: u16, name: &str, expect: ModelErrorKind) {
            let body = json!({"type": "error", "error": {"type": name, "message": "no"}});
            let error = failure(status, &[], &body.to_string());
            assert_eq!(error.kind, expect, "{status} {name}");
            assert!(error.message.contains(name), "{}", error.message);
        }
        check(400, "invalid_request_error", ModelErrorKind::Request);
        check(401, "authentication_error", ModelErrorKind::Key);
        check(401, "invalid_request_error", ModelErrorKind::Key);
        check(402, "billing_error", ModelErrorKind::Request);
        check(403, "permission_error", ModelErrorKind::Key);
        check(404, "not_found_error", ModelErrorKind::NotFound);
        check(408, "timeout_error", ModelErrorKind::Server);
        check(409, "", ModelErrorKind::Server);
        check(413, "request_too_large", ModelErrorKind::Request);
        check(422, "", ModelErrorKind::Request);
        check(429, "rate_limit_error", ModelErrorKind::RateLimit);
        check(500, "api_error", ModelErrorKind::Server);
        check(500, "overloaded_error", ModelErrorKind::Overloaded);
        check(502, "", ModelErrorKind::Server);
        check(503, "", ModelErrorKind::Overloaded);
        check(529, "overloaded_error", ModelErrorKind::Overloaded);
        check(307, "", ModelErrorKind::NotFound);
    }

    #[test]
    fn too_long_is_known_by_the_words() {
        for (name, words) in [
            (
                "invalid_request_error",
                "prompt is too long: 208310 tokens > 200000 maximum",
            ),
            (
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
            ),
            ("context_length_exceeded", ""),
            ("", "This model's maximum context length is 4096 tokens"),
            (
                "exceed_context_size_error",
                "the request exceeds the available context size",
            ),
        ] {
            let body = json!({"error": {"type": name, "message": words}});
            let error = failure(400, &[], &body.to_string());
            assert_eq!(error.kind, ModelErrorKind::TooLong, "{name} {words}");
            assert!(!error.is_retryable());
        }
    }

    #[test]
    fn any_body_becomes_one_line_for_a_person() {
        fn check(status: u16, headers: &[(&str, &str)], body: &str, expect: &str) {
            assert_eq!(failure(status, headers, body).message, expect);
        }
        check(
            500,
            &[],
            "",
            "cannot get a reply: status 500 Internal Server Error",
        );
        check(529, &[], "", "cannot get a reply: status 529");
        check(
            400,
            &[("request-id", "req_1")],
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"no\n tools"}}"#,
            "cannot get a reply: status 400 Bad Request: no tools (invalid_request_error) \
             [request req_1]",
        );
        check(
            401,
            &[("x-request-id", "r2")],
            r#"{"error":{"message":"bad","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            "cannot get a reply: status 401 Unauthorized: bad (invalid_api_key) [request r2]",
        );
        check(
            404,
            &[],
            r#"{"error":"no model `x`"}"#,
            "cannot get a reply: status 404 Not Found: no model `x`",
        );
        check(
            502,
            &[],
            "<html>\r\n\u{1b}[31mBad\u{7} gateway</html>",
            "cannot get a reply: status 502 Bad Gateway: <html> [31mBad gateway</html>",
        );
        check(
            302,
            &[("location", "https://elsewhere/")],
            "",
            "cannot get a reply: status 302 Found; it redirects to `https://elsewhere/`, and \
             redirects are not followed because of the key",
        );
        let long = failure(500, &[], &"ä".repeat(5_000)).message;
        assert!(long.chars().count() < 1_100);
    }

    #[test]
    fn the_provider_says_whether_and_when_to_try_again() {
        fn check(headers: &[(&str, &str)], retry: bool, after: Option<Duration>) {
            let error = failure(429, headers, "");
            assert_eq!(error.is_retryable(), retry, "{headers:?}");
            assert_eq!(error.retry_after, after, "{headers:?}");
        }
        let millis = |millis| Some(Duration::from_millis(millis));
        check(&[], true, None);
        check(&[("x-should-retry", "false")], false, None);
        check(&[("x-should-retry", "perhaps")], true, None);
        check(&[("retry-after", "7")], true, millis(7_000));
        check(&[("retry-after", "1.5")], true, millis(1_500));
        check(&[("retry-after", "-1")], true, None);
        check(&[("retry-after", "NaN")], true, None);
        check(&[("retry-after", "1e300")], true, None);
        check(&[("retry-after", "soon")], true, None);
        check(
            &[("retry-after-ms", "250"), ("retry-after", "7")],
            true,
            millis(250),
        );
        check(
            &[("retry-after-ms", "?"), ("retry-after", "7")],
            true,
            millis(7_000),
        );
        check(
            &[("retry-after", "Sat, 31 Jan 2026 12:00:30 GMT")],
            true,
            millis(30_000),
        );
        check(
            &[("retry-after", "Sat, 31 Jan 2026 11:00:00 GMT")],
            true,
            millis(0),
        );
        assert!(failure(400, &[("x-should-retry", "true")], "").is_retryable());
        let broke = r#"{"error":{"message":"pay","type":"insufficient_quota"}}"#;
        assert!(!failure(429, &[], broke).is_retryable());
    }

    #[test]
    fn errors_in_mid_stream_have_only_a_name() {
        for (name, kind) in [
            ("overloaded_error", ModelErrorKind::Overloaded),
            ("rate_limit_error", ModelErrorKind::RateLimit),
            ("api_error", ModelErrorKind::Server),
            ("authentication_error", ModelErrorKind::Key),
            ("invalid_request_error", ModelErrorKind::Request),
            ("something_new", ModelErrorKind::Server),
        ] {
            let error = from_stream(&json!({"type": name, "message": "sorry"}));
            assert_eq!(error.kind, kind);
            assert_eq!(
                error.message,
                format!("cannot get the whole reply: sorry ({name})")
            );
        }
    }
}
