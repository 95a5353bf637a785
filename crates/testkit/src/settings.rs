//! How a server behaves, apart from what it says.

use crate::framing::Framing;

#[derive(Debug, Clone)]
pub struct Settings {
    pub framing: Framing,
    pub dialect: Dialect,
    /// Whether requests are held against the providers' rules. Each look costs as much as the
    /// request is long, so a benchmark of long conversations goes without.
    pub check: bool,
    /// The only key that is taken; without one, any is.
    pub key: Option<String>,
    /// How many requests are kept for [`crate::ModelServer::requests`], the latest ones.
    pub keep: usize,
    /// What `/v1/messages/count_tokens` answers; an error of this status if there is one.
    pub count: Result<u64, u16>,
}

impl Default for Settings {
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

impl Settings {
    /// For benchmarks: no checks, one chunk a reply, and no history of requests.
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

/// How servers of `/v1/chat/completions` differ from the first one, which is the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dialect {
    /// Pieces of calls do not say which call they belong to.
    pub missing_index: bool,
    /// A call's id comes with every piece, not only with the first one.
    pub repeated_id: bool,
    /// Calls have no id at all.
    pub no_id: bool,
    /// Arguments come in one piece, with the name.
    pub arguments_at_once: bool,
    /// Arguments come as an object instead of as text; at once, then.
    pub object_arguments: bool,
    /// The reason to finish is `stop` although there are calls.
    pub stop_despite_calls: bool,
    /// No usage, even when asked for.
    pub no_usage: bool,
    /// No `[DONE]` at the end.
    pub no_done: bool,
    /// One JSON object, although a stream was asked for.
    pub no_stream: bool,
}
