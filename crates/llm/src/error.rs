//! Why a model request failed, and whether a retry may help.

use std::time::Duration;

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// What failed and why, for the user. Never contains a key.
    pub message: String,
    /// Whether the provider says to retry. Takes precedence over the default of the kind.
    pub should_retry: Option<bool>,
    /// The delay that the provider asked for.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing or not accepted (401, 403).
    Key,
    /// No such model or address (404).
    NotFound,
    /// The provider rejects the request (400, 413, 422 and similar).
    Request,
    /// The request has more tokens than the model's context window.
    TooLong,
    /// Too many requests (429).
    RateLimit,
    /// The provider is overloaded (529, 503).
    Overloaded,
    /// Any other failure on the provider's side (408, 409, 5xx).
    Server,
    /// The provider could not be reached.
    Network,
    /// The reply ended early or cannot be parsed.
    Stream,
}

impl ModelError {
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            should_retry: None,
            retry_after: None,
        }
    }

    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or(match self.kind {
            ModelErrorKind::RateLimit
            | ModelErrorKind::Overloaded
            | ModelErrorKind::Server
            | ModelErrorKind::Network
            | ModelErrorKind::Stream => true,
            ModelErrorKind::Key
            | ModelErrorKind::NotFound
            | ModelErrorKind::Request
            | ModelErrorKind::TooLong => false,
        })
    }
}
