//! Extractors for requests. Errors become problem documents, so that clients never see a response
//! of the framework.

use std::ops::Deref;
use std::sync::Arc;

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use protocol::job::{JobId, UserRole};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use crate::app::Caller;
use crate::http::guard::authentication::no_key;
use crate::http::problem::{HttpProblem, ProblemKind};

/// The caller of a request, as determined by the guards.
#[derive(Debug, Clone)]
pub(crate) struct AuthenticatedCaller(Arc<Caller>);

impl Deref for AuthenticatedCaller {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl AuthenticatedCaller {
    pub(crate) fn require_admin(&self) -> Result<(), HttpProblem> {
        match self.role {
            UserRole::Admin => Ok(()),
            UserRole::User => Err(HttpProblem::new(
                ProblemKind::Forbidden,
                "only admins may do this",
            )),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for AuthenticatedCaller {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        let caller = parts.extensions.get::<Arc<Caller>>();
        caller.cloned().map(Self).ok_or_else(no_key)
    }
}

/// The job id in a path. An invalid id is reported as a missing job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobPath(pub(crate) JobId);

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpProblem> {
        let name = name(parts, state).await?;
        let id = parse_id(&name).ok_or_else(|| HttpProblem::no_job(&name))?;
        Ok(Self(JobId(id)))
    }
}

/// The key id in a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPath(pub(crate) Uuid);

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, HttpProblem> {
        let name = name(parts, state).await?;
        let id = parse_id(&name).ok_or_else(|| {
            HttpProblem::new(ProblemKind::NotFound, format!("there is no key `{name}`"))
        })?;
        Ok(Self(id))
    }
}

async fn name<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<String, HttpProblem> {
    let Path(name) = Path::<String>::from_request_parts(parts, state)
        .await
        .map_err(|rejection| HttpProblem::bad(rejection.body_text()))?;
    Ok(name)
}

/// Parses an id. Only the canonical lower-case form is accepted.
fn parse_id(name: &str) -> Option<Uuid> {
    let is_plain = name.len() == 36 && !name.bytes().any(|byte| byte.is_ascii_uppercase());
    is_plain.then(|| Uuid::try_parse(name).ok())?
}

/// Query parameters. `T` should deny unknown fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryParameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = HttpProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpProblem> {
        let Query(value) = Query::try_from_uri(&parts.uri).map_err(|rejection| {
            let text = rejection.body_text();
            let text = text.strip_prefix("Failed to deserialize query string: ");
            let text = text.map_or_else(|| rejection.body_text(), str::to_owned);
            HttpProblem::bad(format!("the query cannot be read: {text}"))
        })?;
        Ok(Self(value))
    }
}

/// A non-negative number of a request.
pub(crate) fn non_negative(name: &str, number: Option<i64>) -> Result<Option<u64>, HttpProblem> {
    number
        .map(u64::try_from)
        .transpose()
        .map_err(|_| HttpProblem::bad(format!("{name}: the number is negative")))
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = HttpProblem;

    async fn from_request(request: Request, _: &S) -> Result<Self, HttpProblem> {
        match media_type(request.headers()) {
            Some(MediaType::Json) => read_json(&read(request).await?).map(Self),
            _ => Err(
                HttpProblem::new(ProblemKind::MediaType, "the body is not JSON")
                    .hint("send it with `Content-Type: application/json`"),
            ),
        }
    }
}

/// The media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediaType {
    Json,
    Text,
    Form,
    Other,
}

/// `None` when the request does not specify a type.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<MediaType> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    let (name, parameters) = value.split_once(';').unwrap_or((value, ""));
    let charset = parameters
        .split(';')
        .filter_map(|parameter| parameter.trim().split_once('='))
        .find_map(|(name, value)| name.eq_ignore_ascii_case("charset").then_some(value));
    let charset = charset.unwrap_or("utf-8").trim_matches('"');
    let is_readable = ["utf-8", "utf8", "us-ascii"]
        .iter()
        .any(|known| charset.eq_ignore_ascii_case(known));
    Some(match name.trim().to_ascii_lowercase().as_str() {
        _ if !is_readable => MediaType::Other,
        "application/json" => MediaType::Json,
        "text/plain" => MediaType::Text,
        "multipart/form-data" => MediaType::Form,
        // `curl -d` sends this type by default for any body.
        "application/x-www-form-urlencoded" => return None,
        _ => MediaType::Other,
    })
}

/// Reads the whole body. The guards have limited its size.
pub(crate) async fn read(request: Request) -> Result<Bytes, HttpProblem> {
    to_bytes(request.into_body(), usize::MAX)
        .await
        .map_err(|error| HttpProblem::from_body_error(&error))
}

/// The only field that may be a list.
const LIST_FIELD: &str = "network";

pub(crate) fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, HttpProblem> {
    check_lists(body)?;
    let rejection = match Json::from_bytes(body) {
        Ok(Json(value)) => return Ok(value),
        Err(rejection) => rejection,
    };
    let kind = match rejection {
        JsonRejection::JsonDataError(_) => ProblemKind::Invalid,
        _ => ProblemKind::BadRequest,
    };
    // The framework's message without its generic prefix.
    let text = rejection.body_text();
    let text = [
        "Failed to deserialize the JSON body into the target type: ",
        "Failed to parse the request body as JSON: ",
    ]
    .iter()
    .find_map(|words| text.strip_prefix(words))
    .unwrap_or(&text);
    Err(HttpProblem::new(
        kind,
        format!("the body cannot be read: {text}"),
    ))
}

/// Refuses lists in place of objects: serde would accept them, field by field.
fn check_lists(body: &[u8]) -> Result<(), HttpProblem> {
    if !body.contains(&b'[') {
        return Ok(());
    }
    // Invalid JSON is reported by the parser below.
    let value = serde_json::from_slice(body).unwrap_or(Value::Null);
    match misplaced_list("the body", &value) {
        None => Ok(()),
        Some(name) => Err(HttpProblem::new(
            ProblemKind::Invalid,
            format!("the body cannot be read: {name} is a list"),
        )),
    }
}

/// The name of a list where none is allowed.
fn misplaced_list<'a>(name: &'a str, value: &'a Value) -> Option<&'a str> {
    match value {
        Value::Array(items) if name == LIST_FIELD => items
            .iter()
            .find_map(|item| misplaced_list("an item", item)),
        Value::Array(_) => Some(name),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| misplaced_list(name, value)),
        _ => None,
    }
}

pub(crate) fn read_text(body: &[u8]) -> Result<String, HttpProblem> {
    match std::str::from_utf8(body) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(HttpProblem::bad("the body is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn media_types_are_told_apart() {
        for (value, expect) in [
            ("application/json", MediaType::Json),
            ("Application/JSON; charset=UTF-8", MediaType::Json),
            ("application/json; charset=utf-16", MediaType::Other),
            ("text/plain", MediaType::Text),
            ("text/plain;charset=\"utf-8\"", MediaType::Text),
            ("multipart/form-data; boundary=x", MediaType::Form),
            ("application/xml", MediaType::Other),
            ("", MediaType::Other),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(media_type(&headers), Some(expect), "{value}");
        }
        let mut headers = HeaderMap::new();
        let form = "application/x-www-form-urlencoded".parse().unwrap();
        headers.insert(header::CONTENT_TYPE, form);
        assert_eq!(media_type(&headers), None);
        assert_eq!(media_type(&HeaderMap::new()), None);
    }

    #[test]
    fn a_list_is_no_object() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        #[serde(default)]
        struct Inner {
            cost: Option<u32>,
        }
        impl Default for Inner {
            fn default() -> Self {
                Self { cost: Some(1) }
            }
        }
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Outer {
            #[serde(default)]
            budget: Inner,
            #[serde(default)]
            network: Vec<String>,
        }
        for (body, expect) in [
            ("{}", true),
            (r#"{"budget": {"cost": 2}, "network": ["a", "[b]"]}"#, true),
            ("[]", false),
            ("[{}, []]", false),
            (r#"{"budget": []}"#, false),
            (r#"{"budget": [2]}"#, false),
            (r#"{"network": [["a"]]}"#, false),
        ] {
            let found = read_json::<Outer>(body.as_bytes());
            assert_eq!(found.is_ok(), expect, "{body}");
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = "0199aaaa-0000-7000-8000-000000000001";
        assert!(parse_id(id).is_some());
        for name in [
            id.to_uppercase(),
            id.replace('-', ""),
            format!("{{{id}}}"),
            format!("urn:uuid:{id}"),
            "..".to_owned(),
        ] {
            assert!(parse_id(&name).is_none(), "{name}");
        }
    }
}
