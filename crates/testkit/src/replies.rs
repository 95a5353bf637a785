//! The source of answers: a list, or a closure that gets the request.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use llm::script::{Script, ScriptedReply};

use crate::answer::Answer;
use crate::record::Recorded;

/// Each request gets the next answer. After the last one, requests get an error that says so.
pub struct Replies {
    source: Source,
}

enum Source {
    List {
        rest: VecDeque<Answer>,
        given: usize,
    },
    Decider(Box<dyn FnMut(&Recorded) -> Answer + Send>),
}

impl Replies {
    pub fn list<T: Into<Answer>>(answers: impl IntoIterator<Item = T>) -> Self {
        let rest = answers.into_iter().map(Into::into).collect();
        Self {
            source: Source::List { rest, given: 0 },
        }
    }

    /// For conversations that are too long to write down.
    pub fn decide<T: Into<Answer>>(
        mut decide: impl FnMut(&Recorded) -> T + Send + 'static,
    ) -> Self {
        Self {
            source: Source::Decider(Box::new(move |request| decide(request).into())),
        }
    }

    /// The answer, or the error in the test that should have provided one.
    pub(crate) fn next(&mut self, request: &Recorded) -> Result<Answer, String> {
        match &mut self.source {
            Source::List { rest, given } => Ok(match rest.pop_front() {
                Some(answer) => {
                    *given += 1;
                    answer
                }
                None => Answer::reply(ScriptedReply::error(
                    400,
                    "invalid_request_error",
                    &format!("the script ends after {given} replies"),
                )),
            }),
            Source::Decider(decide) => catch_unwind(AssertUnwindSafe(|| decide(request)))
                .map_err(|_| "the test's own closure panicked".to_owned()),
        }
    }
}

impl fmt::Debug for Replies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::List { rest, .. } => formatter.debug_tuple("Replies").field(rest).finish(),
            Source::Decider(_) => formatter.write_str("Replies(closure)"),
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

impl From<Answer> for Replies {
    fn from(answer: Answer) -> Self {
        Self::list([answer])
    }
}

impl<T: Into<Answer>> From<Vec<T>> for Replies {
    fn from(answers: Vec<T>) -> Self {
        Self::list(answers)
    }
}

impl<T: Into<Answer>, const COUNT: usize> From<[T; COUNT]> for Replies {
    fn from(answers: [T; COUNT]) -> Self {
        Self::list(answers)
    }
}
