//! Why a model did not answer, and whether asking again may help.

use std::time::Duration;

use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ErrorKind,
    /// What was tried and what came of it, for a person. Never holds a key.
    pub message: String,
    /// What the provider said of trying again, which wins over what the kind suggests.
    pub should_retry: Option<bool>,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// No key, or not one that the provider takes (401, 403).
    Key,
    /// No such model or address (404).
    NotFound,
    /// The request is not one that the provider takes (400, 413, 422 and the like).
    Request,
    /// The request has more tokens than the model's window.
    TooLong,
    /// Too many requests (429).
    RateLimit,
    /// The provider has too much to do (529, 503).
    Overloaded,
    /// Any other failure on the provider's side (408, 409, 5xx).
    Server,
    /// The provider could not be reached.
    Network,
    /// The reply broke off, or is none that can be understood.
    Stream,
}

impl ModelError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            should_retry: None,
            retry_after: None,
        }
    }

    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or(match self.kind {
            ErrorKind::RateLimit
            | ErrorKind::Overloaded
            | ErrorKind::Server
            | ErrorKind::Network
            | ErrorKind::Stream => true,
            ErrorKind::Key | ErrorKind::NotFound | ErrorKind::Request | ErrorKind::TooLong => false,
        })
    }
}
