//! Connections that wait for approval. Connections to the same target share one question.
//!
//! Bounded in number and in time, so that a sandbox can neither accumulate questions nor hold
//! descriptors of the host. Entry type: [`PendingQuestions`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::gate::{HostApproval, HostApprover};
use crate::host::ConnectTarget;
use crate::rules::EgressRule;

/// Timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Most connections that wait for an answer; more are refused.
const MAX_WAITING_CONNECTIONS: usize = 32;

#[derive(Debug)]
pub(crate) struct PendingQuestions {
    questions: Mutex<QuestionTable>,
    places: Semaphore,
}

#[derive(Debug, Default)]
struct QuestionTable {
    last: u64,
    open: HashMap<ConnectTarget, (u64, Weak<PendingQuestion>)>,
}

/// Held by the connections that wait for it. The last one to drop it cancels the question.
#[derive(Debug)]
struct PendingQuestion {
    answer: watch::Receiver<Option<HostApproval>>,
    asking: AbortHandle,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Default for PendingQuestions {
    fn default() -> PendingQuestions {
        PendingQuestions {
            questions: Mutex::default(),
            places: Semaphore::new(MAX_WAITING_CONNECTIONS),
        }
    }
}

impl PendingQuestions {
    /// Asks and waits for the answer. `None` if `is_settled` returns true right before asking.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        asker: &Arc<dyn HostApprover>,
        target: &ConnectTarget,
        rule: Option<&EgressRule>,
        is_settled: impl FnOnce() -> bool,
    ) -> Option<HostApproval> {
        let denied = |because: &str| HostApproval::Denied {
            because: because.to_owned(),
        };
        let Ok(_place) = self.places.try_acquire() else {
            return Some(denied("too many connections wait for an answer"));
        };
        let question = self.join(asker, target, rule, is_settled)?;
        let mut answer = question.answer.clone();
        let answered = answer.wait_for(Option::is_some).await;
        let lost = || denied("the question was lost");
        Some(answered.map_or_else(|_| lost(), |answer| answer.clone().unwrap_or_else(lost)))
    }

    /// Joins the pending question about this target, or starts one.
    fn join(
        self: &Arc<Self>,
        asker: &Arc<dyn HostApprover>,
        target: &ConnectTarget,
        rule: Option<&EgressRule>,
        is_settled: impl FnOnce() -> bool,
    ) -> Option<Arc<PendingQuestion>> {
        let mut questions = self.questions();
        let open = questions.open.get(target);
        if let Some(question) = open.and_then(|(_, question)| question.upgrade()) {
            return Some(question);
        }
        // A previous question may just have been answered, and the answer may have become a rule.
        if is_settled() {
            return None;
        }
        questions.last += 1;
        let number = questions.last;
        let (teller, answer) = watch::channel(None);
        let asked = asker.ask(target, rule);
        let asking = {
            let (waiting, target) = (Arc::clone(self), target.clone());
            tokio::spawn(async move {
                let answer = timeout(ANSWER_TIMEOUT, asked).await;
                let answer = answer.unwrap_or_else(|_| HostApproval::Denied {
                    because: "nobody answered in time".to_owned(),
                });
                // Before the answer is sent, so that later connections ask again.
                waiting.close(&target, number);
                let _ = teller.send(Some(answer));
            })
        };
        let question = Arc::new(PendingQuestion {
            answer,
            asking: asking.abort_handle(),
        });
        let entry = (number, Arc::downgrade(&question));
        questions.open.insert(target.clone(), entry);
        // Remove questions without waiting connections.
        questions
            .open
            .retain(|_, (_, question)| question.strong_count() > 0);
        Some(question)
    }

    fn close(&self, target: &ConnectTarget, number: u64) {
        let mut questions = self.questions();
        if questions
            .open
            .get(target)
            .is_some_and(|(open, _)| *open == number)
        {
            questions.open.remove(target);
        }
    }

    /// Locked for short updates only, which cannot panic halfway.
    fn questions(&self) -> MutexGuard<'_, QuestionTable> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
