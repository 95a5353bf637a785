//! The server's behaviour, apart from its replies.

use crate::framing::Framing;

#[derive(Debug, Clone)]
pub struct ModelServerSettings {
    pub framing: Framing,
    pub dialect: Dialect,
    /// Whether requests are checked against the providers' rules. A check costs time proportional
    /// to the request's length, so benchmarks of long conversations disable it.
    pub check: bool,
    /// The only accepted key. If absent, any key is accepted.
    pub key: Option<String>,
    /// How many of the latest requests are kept for [`crate::ModelServer::requests`].
    pub keep: usize,
    /// The answer of `/v1/messages/count_tokens`, or the status of its error.
    pub count: Result<u64, u16>,
}

impl Default for ModelServerSettings {
    fn default() -> Self {
        Self {
            framing: Framing::default(),
            dialect: Dialect::default(),
            check: true,
            key: None,
            keep: usize::MAX,
            count: Ok(1234),
        }
    }
}

impl ModelServerSettings {
    /// For benchmarks: no checks, one chunk per reply, and no request history.
    pub fn fast() -> Self {
        Self {
            framing: Framing::whole(),
            check: false,
            keep: 1,
            ..Self::default()
        }
    }

    pub fn framed(framing: Framing) -> Self {
        Self {
            framing,
            ..Self::default()
        }
    }

    pub fn speaking(dialect: Dialect) -> Self {
        Self {
            dialect,
            ..Self::default()
        }
    }
}

/// How a server of `/v1/chat/completions` differs from OpenAI's, which is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Pieces of calls lack the index of their call.
    pub missing_index: bool,
    /// A call's id is in every piece, not only in the first.
    pub repeated_id: bool,
    /// Calls have no id.
    pub no_id: bool,
    /// Arguments arrive in one piece, with the name.
    pub arguments_at_once: bool,
    /// Arguments are an object instead of text, and arrive in one piece.
    pub object_arguments: bool,
    /// The finish reason is `stop` although there are calls.
    pub stop_despite_calls: bool,
    /// No usage, even when requested.
    pub no_usage: bool,
    /// No `[DONE]` at the end.
    pub no_done: bool,
    /// One JSON object, although a stream was requested.
    pub no_stream: bool,
}
