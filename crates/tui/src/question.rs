//! Questions that wait for a person's word, and when a key counts as the answer to one.
//!
//! A key that was typed before the question could be read must never answer it, nor one that is
//! part of a sentence. So:
//! - the question has to be on the screen, whole, with no earlier key left to be read;
//! - then nothing may have been typed or pasted for [`QUIET`]: who is writing is not reading;
//! - while there is text in the editor, only Alt with a letter answers;
//! - an answer is held for [`HOLD`]: if more is typed right after it, it was the beginning of a
//!   word, and both go to the editor. With Alt too: Esc and a letter look the same to us.
//!
//! After an answer the next question starts from nothing. Pasted text never answers. A key that
//! is not taken goes on to the editor: nothing is lost. Pure: the time comes in with every call.
//! Entry type: [`Questions`].

mod panel;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use protocol::{Command, Decision, Question, Scope};

pub(crate) use self::panel::{Panel, Setting};

/// How long nothing may have been typed before a key can be an answer.
pub(crate) const QUIET: Duration = Duration::from_millis(400);
/// How long nothing may follow a letter for it to be an answer.
pub(crate) const HOLD: Duration = Duration::from_millis(250);

/// An answer by its letter, in the order in which they are shown.
const CHOICES: [(char, bool, Scope); 5] = [
    ('y', true, Scope::Once),
    ('s', true, Scope::Session),
    ('a', true, Scope::Always),
    ('n', false, Scope::Once),
    ('d', false, Scope::Always),
];

/// The questions that are open; the first is the one that is shown.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    waiting: VecDeque<Question>,
    /// Since the first one began to wait.
    answered: usize,
    /// When the first one was on the screen, with no earlier key left to be read.
    shown: Option<Duration>,
    /// When anything was typed or pasted last.
    typed: Option<Duration>,
    held: Option<Held>,
    /// The first one is, or is about to be, on the screen to the last word.
    fit: Fit,
}

/// How much of the first question the screen has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It cannot be seen at all.
    #[default]
    Hidden,
    /// Some of what it asks is left out: it can be refused, not granted.
    Cut,
    Whole,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    key: KeyEvent,
    at: Duration,
    decision: Decision,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Taken {
    /// It is not for the question.
    No,
    /// The question has it.
    Yes,
    /// It is not for the question, and neither was this one before it, which is to be typed first.
    NorBefore(KeyEvent),
}

impl Questions {
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

    /// It was answered, here or elsewhere, or nobody needs the answer any more.
    pub(crate) fn settle(&mut self, number: u32) {
        let Some(place) = self.waiting.iter().position(|one| one.number == number) else {
            return;
        };
        self.waiting.remove(place);
        self.answered += 1;
        if place == 0 {
            self.begin();
        }
    }

    /// None of them matters any more.
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

    /// There is one, and it cannot be seen.
    pub(crate) fn is_hidden(&self) -> bool {
        !self.is_empty() && self.fit == Fit::Hidden
    }

    pub(crate) fn first(&self) -> Option<&Question> {
        self.waiting.front()
    }

    /// The number of the first one, while nothing says that it is on the screen.
    pub(crate) fn unseen(&self) -> Option<u32> {
        let is_unseen = self.shown.is_none() && self.fit != Fit::Hidden;
        self.first().filter(|_| is_unseen).map(|one| one.number)
    }

    /// Says, at every layout, how much of the first question will be drawn.
    pub(crate) fn fits(&mut self, fit: Fit) {
        if fit != self.fit {
            self.fit = fit;
            self.shown = None;
        }
    }

    /// The screen has another size: what was drawn before was drawn elsewhere.
    pub(crate) fn resized(&mut self) {
        self.shown = None;
    }

    /// The screen shows the state, and no key that was typed before waits to be read. Returns the
    /// answer that was held, if nothing came after it.
    pub(crate) fn shown(&mut self, now: Duration) -> Option<Command> {
        if self.shown.is_none() && !self.is_empty() && self.fit != Fit::Hidden {
            self.shown = Some(now);
        }
        self.release(now)
    }

    /// Time went by, and no key waits to be read. Returns the answer that was held, if nothing came
    /// after it.
    pub(crate) fn release(&mut self, now: Duration) -> Option<Command> {
        let held = self.held.filter(|held| now >= held.at + HOLD)?;
        self.held = None;
        let question = self.first()?.number;
        self.settle(question);
        Some(Command::Decide {
            question,
            decision: held.decision,
        })
    }

    /// When something changes though nothing is typed.
    pub(crate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let held = self.held.map(|held| held.at + HOLD);
        held.or_else(|| self.armed_from().filter(|from| *from > now))
    }

    /// Every key, before anybody else gets it, also while there is no question. Free is when nothing
    /// is being written and nothing else wants letters.
    pub(crate) fn key(&mut self, now: Duration, key: KeyEvent, is_free: bool) -> Taken {
        if let Some(held) = self.held {
            // Some people end every answer so.
            if key.code == KeyCode::Enter && key.modifiers.is_empty() {
                return Taken::Yes;
            }
            self.held = None;
            self.typed = Some(now);
            return Taken::NorBefore(held.key);
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
                self.held = Some(Held { key, at, decision });
                Taken::Yes
            }
            None => Taken::No,
        }
    }

    /// Something was pasted. Returns the letter that was held, which was no answer.
    pub(crate) fn pasted(&mut self, now: Duration) -> Option<KeyEvent> {
        self.typed = Some(now);
        self.held.take().map(|held| held.key)
    }

    pub(crate) fn is_armed(&self, now: Duration) -> bool {
        self.armed_from().is_some_and(|from| now >= from)
    }

    fn armed_from(&self) -> Option<Duration> {
        let shown = self.shown.filter(|_| !self.is_empty())?;
        Some(self.typed.map_or(shown, |typed| typed.max(shown)) + QUIET)
    }

    fn choice(&self, code: KeyCode) -> Option<Decision> {
        let KeyCode::Char(letter) = code else {
            return None;
        };
        let (_, is_allowed, scope) = *CHOICES.iter().find(|choice| choice.0 == letter)?;
        let is_open = !is_allowed || self.fit == Fit::Whole;
        is_open.then_some(Decision { is_allowed, scope })
    }

    /// The next question starts from nothing.
    fn begin(&mut self) {
        self.shown = None;
        self.held = None;
    }
}
