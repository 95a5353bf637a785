//! Connections that wait for an answer. Those to the same target share one question.
//!
//! Bounded in number and in time: a sandbox can neither pile up questions nor hold the host's
//! descriptors by asking. Entry type: [`Waiting`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::gate::{Answer, Asker};
use crate::host::Target;
use crate::rules::Rule;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// So many connections may wait at once; more are refused.
const MOST: usize = 32;

#[derive(Debug)]
pub(crate) struct Waiting {
    questions: Mutex<Questions>,
    places: Semaphore,
}

#[derive(Debug, Default)]
struct Questions {
    last: u64,
    open: HashMap<Target, (u64, Weak<Question>)>,
}

/// Kept by those who wait for it; when the last one leaves, nobody is asked any more.
#[derive(Debug)]
struct Question {
    answer: watch::Receiver<Option<Answer>>,
    asking: AbortHandle,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            questions: Mutex::default(),
            places: Semaphore::new(MOST),
        }
    }
}

impl Waiting {
    /// Asks, unless `is_settled` by the time at which the question would be put: then `None`.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        asker: &Arc<dyn Asker>,
        target: &Target,
        rule: Option<&Rule>,
        is_settled: impl FnOnce() -> bool,
    ) -> Option<Answer> {
        let denied = |because: &str| Answer::Denied {
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

    /// The question about this target, which is asked now if it is not already.
    fn join(
        self: &Arc<Self>,
        asker: &Arc<dyn Asker>,
        target: &Target,
        rule: Option<&Rule>,
        is_settled: impl FnOnce() -> bool,
    ) -> Option<Arc<Question>> {
        let mut questions = self.questions();
        let open = questions.open.get(target);
        if let Some(question) = open.and_then(|(_, question)| question.upgrade()) {
            return Some(question);
        }
        // The last question about it may just have been closed, and its answer become a rule.
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
                let answer = timeout(PATIENCE, asked).await;
                let answer = answer.unwrap_or_else(|_| Answer::Denied {
                    because: "nobody answered in time".to_owned(),
                });
                // First, so that whoever comes after the answer asks anew.
                waiting.close(&target, number);
                let _ = teller.send(Some(answer));
            })
        };
        let question = Arc::new(Question {
            answer,
            asking: asking.abort_handle(),
        });
        let entry = (number, Arc::downgrade(&question));
        questions.open.insert(target.clone(), entry);
        // Those that nobody waits for any more.
        questions
            .open
            .retain(|_, (_, question)| question.strong_count() > 0);
        Some(question)
    }

    fn close(&self, target: &Target, number: u64) {
        let mut questions = self.questions();
        if questions
            .open
            .get(target)
            .is_some_and(|(open, _)| *open == number)
        {
            questions.open.remove(target);
        }
    }

    /// A lock that is held for single statements only, so a panic cannot leave it half-changed.
    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
