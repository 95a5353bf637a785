//! Approval questions, and the rules for when a key answers one.
//!
//! A key that was typed before the question could be read must never answer it, nor may a key that
//! is part of a sentence. So:
//! - the question must be fully on the screen, with no earlier key left unread;
//! - then nothing may have been typed or pasted for [`QUIET_PERIOD`]: a user who is typing is not reading;
//! - while there is text in the editor, only Alt with a letter answers;
//! - an answer is held for [`ANSWER_HOLD_DELAY`]: if more is typed right after it, it was the beginning of a
//!   word, and both keys go to the editor. This holds for Alt too, since Esc followed by a letter
//!   sends the same bytes.
//!
//! After an answer, all of this starts again for the next question. Pasted text never answers. A
//! key that does not answer goes on to the editor, so that no input is lost. Pure: the time is
//! passed in with every call. Entry type: [`OpenQuestions`].

mod panel;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use protocol::{AgentCommand, Decision, Question, Scope};

pub(crate) use self::panel::{PanelContext, QuestionPanel};

/// Time without typing before a key can be an answer.
pub(crate) const QUIET_PERIOD: Duration = Duration::from_millis(400);
/// Time without a further key before a letter counts as the answer.
pub(crate) const ANSWER_HOLD_DELAY: Duration = Duration::from_millis(250);

/// Key, whether it allows, and scope of each answer, in the order in which they are shown.
const ANSWER_KEYS: [(char, bool, Scope); 5] = [
    ('y', true, Scope::Once),
    ('s', true, Scope::Session),
    ('a', true, Scope::Always),
    ('n', false, Scope::Once),
    ('d', false, Scope::Always),
];

/// The open questions; the first one is shown.
#[derive(Debug, Default)]
pub(crate) struct OpenQuestions {
    waiting: VecDeque<Question>,
    /// Questions answered since the queue was last empty.
    answered: usize,
    /// When the first question was drawn, with no earlier key left unread.
    shown: Option<Duration>,
    /// Time of the last key or paste.
    typed: Option<Duration>,
    held: Option<HeldAnswer>,
    /// How much of the first question the current layout shows.
    fit: QuestionFit,
}

/// How much of the first question fits on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum QuestionFit {
    /// Not visible at all.
    #[default]
    Hidden,
    /// Not all of its text is visible: it can be refused, not allowed.
    Cut,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct HeldAnswer {
    key: KeyEvent,
    at: Duration,
    decision: Decision,
}

/// What the question did with a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KeyOutcome {
    /// The key is not for the question.
    No,
    /// The question took the key.
    Yes,
    /// The key is not for the question, and neither was the held one: type the held key first.
    NorBefore(KeyEvent),
}

impl OpenQuestions {
    pub(crate) fn ask(&mut self, question: Question) {
        if self
            .waiting
            .iter()
            .any(|other| other.number == question.number)
        {
            return;
        }
        if self.is_empty() {
            self.answered = 0;
            self.begin();
        }
        self.waiting.push_back(question);
    }

    /// Removes a question that was answered, here or elsewhere, or is no longer needed.
    pub(crate) fn settle(&mut self, number: u32) {
        let Some(index) = self.waiting.iter().position(|one| one.number == number) else {
            return;
        };
        self.waiting.remove(index);
        self.answered += 1;
        if index == 0 {
            self.begin();
        }
    }

    /// Removes all questions.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.begin();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is a question that is not visible.
    pub(crate) fn is_hidden(&self) -> bool {
        !self.is_empty() && self.fit == QuestionFit::Hidden
    }

    pub(crate) fn first(&self) -> Option<&Question> {
        self.waiting.front()
    }

    /// The number of the first question, while it has not been drawn yet.
    pub(crate) fn unseen(&self) -> Option<u32> {
        let is_unseen = self.shown.is_none() && self.fit != QuestionFit::Hidden;
        self.first().filter(|_| is_unseen).map(|one| one.number)
    }

    /// Sets how much of the first question the new layout shows.
    pub(crate) fn fits(&mut self, fit: QuestionFit) {
        if fit != self.fit {
            self.fit = fit;
            self.shown = None;
        }
    }

    /// The screen was resized: the question must be drawn again.
    pub(crate) fn resized(&mut self) {
        self.shown = None;
    }

    /// The state has been drawn, and no key typed before that is left unread. Returns the held
    /// answer if it is due.
    pub(crate) fn shown(&mut self, now: Duration) -> Option<AgentCommand> {
        if self.shown.is_none() && !self.is_empty() && self.fit != QuestionFit::Hidden {
            self.shown = Some(now);
        }
        self.release(now)
    }

    /// Returns the held answer if its hold time has passed. Call only when no key is left unread.
    pub(crate) fn release(&mut self, now: Duration) -> Option<AgentCommand> {
        let held = self
            .held
            .filter(|held| now >= held.at + ANSWER_HOLD_DELAY)?;
        self.held = None;
        let question = self.first()?.number;
        self.settle(question);
        Some(AgentCommand::Decide {
            question,
            decision: held.decision,
        })
    }

    /// The next time at which the state changes without a key.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let held = self.held.map(|held| held.at + ANSWER_HOLD_DELAY);
        held.or_else(|| self.armed_at().filter(|from| *from > now))
    }

    /// Handles every key before the rest of the UI, even without an open question. `is_free`: the
    /// editor is empty and nothing else takes letters.
    pub(crate) fn key(&mut self, now: Duration, key: KeyEvent, is_free: bool) -> KeyOutcome {
        if let Some(held) = self.held {
            // Enter after an answer is ignored: some users confirm with it.
            if key.code == KeyCode::Enter && key.modifiers.is_empty() {
                return KeyOutcome::Yes;
            }
            self.held = None;
            self.typed = Some(now);
            return KeyOutcome::NorBefore(held.key);
        }
        let is_armed = self.is_armed(now);
        self.typed = Some(now);
        let modifiers = if is_free {
            key.modifiers.is_empty() || key.modifiers == KeyModifiers::ALT
        } else {
            key.modifiers == KeyModifiers::ALT
        };
        match self.choice(key.code).filter(|_| is_armed && modifiers) {
            Some(decision) => {
                let at = now;
                self.held = Some(HeldAnswer { key, at, decision });
                KeyOutcome::Yes
            }
            None => KeyOutcome::No,
        }
    }

    /// Notes a paste. Returns the held key, which was not an answer.
    pub(crate) fn handle_paste(&mut self, now: Duration) -> Option<KeyEvent> {
        self.typed = Some(now);
        self.held.take().map(|held| held.key)
    }

    pub(crate) fn is_armed(&self, now: Duration) -> bool {
        self.armed_at().is_some_and(|from| now >= from)
    }

    fn armed_at(&self) -> Option<Duration> {
        let shown = self.shown.filter(|_| !self.is_empty())?;
        Some(self.typed.map_or(shown, |typed| typed.max(shown)) + QUIET_PERIOD)
    }

    fn choice(&self, code: KeyCode) -> Option<Decision> {
        let KeyCode::Char(character) = code else {
            return None;
        };
        let (_, is_allowed, scope) = *ANSWER_KEYS.iter().find(|choice| choice.0 == character)?;
        let is_open = !is_allowed || self.fit == QuestionFit::Whole;
        is_open.then_some(Decision { is_allowed, scope })
    }

    /// Resets the state for the next question.
    fn begin(&mut self) {
        self.shown = None;
        self.held = None;
    }
}
