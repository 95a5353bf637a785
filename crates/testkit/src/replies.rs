//! The source of answers: a list, or a closure that gets the request.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use llm::script::{Script, ScriptedReply};

use crate::answer::ScriptedAnswer;
use crate::request_log::RecordedRequest;

/// Each request gets the next answer. After the last one, requests get an error that says so.
pub struct Replies {
    source: ReplySource,
}

enum ReplySource {
    List {
        rest: VecDeque<ScriptedAnswer>,
        given: usize,
    },
    Decider(Box<dyn FnMut(&RecordedRequest) -> ScriptedAnswer + Send>),
}

impl Replies {
    pub fn list<T: Into<ScriptedAnswer>>(answers: impl IntoIterator<Item = T>) -> Self {
        let rest = answers.into_iter().map(Into::into).collect();
        Self {
            source: ReplySource::List { rest, given: 0 },
        }
    }

    /// For conversations that are too long to write down.
    pub fn decide<T: Into<ScriptedAnswer>>(
        mut decide: impl FnMut(&RecordedRequest) -> T + Send + 'static,
    ) -> Self {
        Self {
            source: ReplySource::Decider(Box::new(move |request| decide(request).into())),
        }
    }

    /// The answer, or the error in the test that should have provided one.
    pub(crate) fn next(&mut self, request: &RecordedRequest) -> Result<ScriptedAnswer, String> {
        match &mut self.source {
            ReplySource::List { rest, given } => Ok(match rest.pop_front() {
                Some(answer) => {
                    *given += 1;
                    answer
                }
                None => ScriptedAnswer::reply(ScriptedReply::error(
                    400,
                    "invalid_request_error",
                    &format!("the script ends after {given} replies"),
                )),
            }),
            ReplySource::Decider(decide) => catch_unwind(AssertUnwindSafe(|| decide(request)))
                .map_err(|_| "the test's own closure panicked".to_owned()),
        }
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ReplySource::List { rest, .. } => formatter.debug_tuple("Replies").field(rest).finish(),
            ReplySource::Decider(_) => formatter.write_str("Replies(closure)"),
        }
    }
}

impl From<Script> for Replies {
    fn from(script: Script) -> Self {
        Self::list(script.replies)
    }
}

impl From<ScriptedReply> for Replies {
    fn from(reply: ScriptedReply) -> Self {
        Self::list([reply])
    }
}

impl From<ScriptedAnswer> for Replies {
    fn from(answer: ScriptedAnswer) -> Self {
        Self::list([answer])
    }
}

impl<T: Into<ScriptedAnswer>> From<Vec<T>> for Replies {
    fn from(answers: Vec<T>) -> Self {
        Self::list(answers)
    }
}

impl<T: Into<ScriptedAnswer>, const COUNT: usize> From<[T; COUNT]> for Replies {
    fn from(answers: [T; COUNT]) -> Self {
        Self::list(answers)
    }
}
