//! Problem documents (RFC 9457). Every response with a status of 400 or above is one.
//!
//! [`ProblemKind`] lists all problems; each has a stable address. Never exposes internals of the server,
//! which are only logged.

use std::error::Error;
use std::io;
use std::iter::successors;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::error_chain;
use protocol::job::JobId;
use serde::Serialize;
use store::StoreError;
use utoipa::ToSchema;

use crate::app::AppError;
use crate::http::body::BodyError;

pub(crate) const MEDIA_TYPE: &str = "application/problem+json";

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    BadRequest,
    NoKey,
    Forbidden,
    CrossSite,
    OtherUser,
    NotFound,
    NotHere,
    MethodNotAllowed,
    Timeout,
    Conflict,
    TooLarge,
    MediaType,
    WrongHost,
    Invalid,
    KeyTaken,
    TooMany,
    QueueFull,
    Server,
    Store,
    Unavailable,
    StoreBusy,
    DiskFull,
}

impl ProblemKind {
    const ALL: [Self; 22] = [
        Self::BadRequest,
        Self::NoKey,
        Self::Forbidden,
        Self::CrossSite,
        Self::OtherUser,
        Self::NotFound,
        Self::NotHere,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::Conflict,
        Self::TooLarge,
        Self::MediaType,
        Self::WrongHost,
        Self::Invalid,
        Self::KeyTaken,
        Self::TooMany,
        Self::QueueFull,
        Self::Server,
        Self::Store,
        Self::Unavailable,
        Self::StoreBusy,
        Self::DiskFull,
    ];

    /// Status, last part of the address, and title.
    fn definition(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::BadRequest => (
                StatusCode::BAD_REQUEST,
                "bad-request",
                "The request cannot be read",
            ),
            Self::NoKey => (
                StatusCode::UNAUTHORIZED,
                "no-key",
                "A key of the API is needed",
            ),
            Self::Forbidden => (StatusCode::FORBIDDEN, "forbidden", "Not allowed"),
            Self::CrossSite => (
                StatusCode::FORBIDDEN,
                "cross-site",
                "Another site made the request",
            ),
            Self::OtherUser => (
                StatusCode::FORBIDDEN,
                "other-user",
                "Another user needs a key",
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "There is no such thing"),
            Self::NotHere => (StatusCode::NOT_FOUND, "no-page", "There is no such page"),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "Another method is needed",
            ),
            Self::Timeout => (
                StatusCode::REQUEST_TIMEOUT,
                "timeout",
                "The request came too slowly",
            ),
            Self::Conflict => (
                StatusCode::CONFLICT,
                "conflict",
                "Not possible in this state",
            ),
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-large",
                "The request is too large",
            ),
            Self::MediaType => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "media-type",
                "Another media type is needed",
            ),
            Self::WrongHost => (
                StatusCode::MISDIRECTED_REQUEST,
                "wrong-host",
                "The server has another name",
            ),
            Self::Invalid => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "invalid",
                "The request is not valid",
            ),
            Self::KeyTaken => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency-key-taken",
                "The idempotency key belongs to another request",
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too-many-requests",
                "Too many requests",
            ),
            Self::QueueFull => (
                StatusCode::TOO_MANY_REQUESTS,
                "queue-full",
                "The queue is full",
            ),
            Self::Server => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "server",
                "The server failed",
            ),
            Self::Store => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "store",
                "The server's store failed",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The server is not ready",
            ),
            Self::StoreBusy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "store-busy",
                "The server's store is busy",
            ),
            Self::DiskFull => (
                StatusCode::INSUFFICIENT_STORAGE,
                "disk-full",
                "The server's disk is full",
            ),
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        self.definition().0
    }

    /// Whether the store failed.
    pub(crate) fn is_store_failure(self) -> bool {
        matches!(self, Self::Store | Self::StoreBusy | Self::DiskFull)
    }
}

/// The document that a client receives.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDocument {
    /// A stable name of the kind of problem, as a path.
    #[schema(example = "/docs#problem-not-found")]
    r#type: String,
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What is wrong with this request, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct HttpProblem {
    pub(crate) kind: ProblemKind,
    detail: Option<String>,
    hint: Option<String>,
    /// Seconds.
    retry_after: Option<u64>,
}

impl HttpProblem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: Some(detail.into()),
            hint: None,
            retry_after: None,
        }
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::BadRequest, detail)
    }

    pub(crate) fn no_job(name: &str) -> Self {
        Self::new(ProblemKind::NotFound, format!("there is no job `{name}`"))
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    /// For an error response of the framework that has no body.
    pub(crate) fn from_status(status: StatusCode) -> Self {
        let kind = ProblemKind::ALL
            .into_iter()
            .find(|kind| kind.status() == status && *kind != ProblemKind::NotFound);
        let kind = kind.unwrap_or(if status.is_client_error() {
            ProblemKind::BadRequest
        } else {
            ProblemKind::Server
        });
        Self {
            kind,
            detail: None,
            hint: None,
            retry_after: None,
        }
    }

    /// The problem of a body that cannot be read: searches the error's sources for a [`BodyError`].
    pub(crate) fn from_body_error(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref::<BodyError>() {
                Some(known @ (BodyError::TooLarge { .. } | BodyError::FieldHead)) => {
                    return Self::new(ProblemKind::TooLarge, known.to_string());
                }
                Some(BodyError::TooSlow) => {
                    return Self::new(ProblemKind::Timeout, BodyError::TooSlow.to_string());
                }
                None => cause = error.source(),
            }
        }
        Self::bad(format!("the body cannot be read: {error}"))
    }

    /// Logs the full error, of which the client gets only the first message.
    pub(crate) fn failed(mut kind: ProblemKind, error: &(dyn Error + 'static)) -> Self {
        let mut causes = successors(error.source(), |&cause| cause.source());
        if causes.any(is_disk_full) {
            kind = ProblemKind::DiskFull;
        }
        tracing::error!(error = error_chain(error), "request failed");
        Self::new(kind, error.to_string()).hint("the server's log says more")
    }

    fn from_store_error(error: &StoreError) -> Self {
        match (error.is_full(), error.is_busy()) {
            (true, _) => Self::failed(ProblemKind::DiskFull, error),
            (_, true) => Self::failed(ProblemKind::StoreBusy, error).retry_after(5),
            _ => Self::failed(ProblemKind::Store, error),
        }
    }

    fn document(self) -> ProblemDocument {
        let (status, name, title) = self.kind.definition();
        ProblemDocument {
            r#type: format!("/docs#problem-{name}"),
            title,
            status: status.as_u16(),
            detail: self.detail,
            hint: self.hint,
        }
    }
}

impl From<AppError> for HttpProblem {
    fn from(error: AppError) -> Self {
        let text = error.to_string();
        match &error {
            AppError::NoJob(id) => Self::missing_job(*id),
            AppError::NoKey(_) => Self::new(ProblemKind::NotFound, text),
            AppError::Invalid(_) | AppError::UploadNamed => Self::new(ProblemKind::Invalid, text),
            AppError::Conflict(_) => Self::new(ProblemKind::Conflict, text),
            AppError::Forbidden(_) => Self::new(ProblemKind::Forbidden, text),
            AppError::KeyTaken => Self::new(ProblemKind::KeyTaken, text)
                .hint("use a new `Idempotency-Key` for a new job"),
            AppError::Full { retry_after, .. } => {
                Self::new(ProblemKind::QueueFull, text).retry_after(*retry_after)
            }
            AppError::Ending => Self::new(ProblemKind::Unavailable, text).retry_after(5),
            AppError::Store(source) => Self::from_store_error(source),
            AppError::Files(_) | AppError::Lost => Self::failed(ProblemKind::Server, &error),
        }
    }
}

impl HttpProblem {
    fn missing_job(id: JobId) -> Self {
        Self::no_job(&id.to_string())
    }
}

fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    let kind = error.map(io::Error::kind);
    matches!(
        kind,
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    )
}

impl IntoResponse for HttpProblem {
    fn into_response(self) -> Response {
        let kind = self.kind;
        let retry_after = self.retry_after;
        let document = serde_json::to_vec(&self.document()).expect("a problem serialises to JSON");
        let mut response = Response::new(Body::from(document));
        *response.status_mut() = kind.status();
        response.extensions_mut().insert(kind);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.max(1).into());
        }
        if kind == ProblemKind::NoKey {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"hotcell\""),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: HashSet<_> = ProblemKind::ALL
            .iter()
            .map(|kind| kind.definition().1)
            .collect();
        assert_eq!(names.len(), ProblemKind::ALL.len());
    }

    #[test]
    fn a_status_alone_makes_a_problem_of_that_status() {
        for status in [400, 404, 405, 408, 413, 415, 500, 503] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(HttpProblem::from_status(status).kind.status(), status);
        }
    }
}
