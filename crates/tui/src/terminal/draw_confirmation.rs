//! Tracks whether the user can have seen what was drawn. Pure.
//!
//! A frame that was written may still be on its way through a slow line, and so may keys that were
//! typed before it. So while a question is new on the screen, a status query follows the frame; its
//! answer arrives after every key that was typed before. A terminal that does not answer in time is
//! not queried again. Entry type: [`DrawConfirmation`].

use std::time::Duration;

/// Time after which a terminal without an answer counts as one that never answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// What has to be seen: the number of a question, and the screen size at which it was drawn.
pub(super) type DrawnQuestion = (u32, u16, u16);

#[derive(Debug, Default)]
pub(super) struct DrawConfirmation {
    /// What was on the screen when the query was sent, and when that was.
    unconfirmed: Option<(DrawnQuestion, Duration)>,
    /// What was on the screen at the query that was answered last.
    answered: Option<DrawnQuestion>,
    /// The terminal does not answer.
    is_mute: bool,
    /// A frame was drawn since the state last counted as seen.
    is_owed: bool,
}

impl DrawConfirmation {
    /// Whether the next frame must end with a status query.
    pub(super) fn asks(&self, unseen: Option<DrawnQuestion>) -> bool {
        let is_open = !self.is_mute && self.unconfirmed.is_none();
        is_open && unseen.is_some() && unseen != self.answered
    }

    /// A frame was written, with a query if one was needed.
    pub(super) fn drawn(&mut self, now: Duration, unseen: Option<DrawnQuestion>) {
        if self.asks(unseen) {
            self.unconfirmed = unseen.map(|unseen| (unseen, now));
        }
        self.is_owed = true;
    }

    /// The terminal answered the query.
    pub(super) fn answer(&mut self) {
        self.answered = self.unconfirmed.take().map(|(unseen, _)| unseen);
    }

    /// Whether the last frame counts as seen, provided that every typed key has been read.
    pub(super) fn is_clear(&self, unseen: Option<DrawnQuestion>) -> bool {
        let is_sure = self.is_mute || unseen.is_none() || unseen == self.answered;
        self.is_owed && is_sure
    }

    /// The frame has been reported as seen.
    pub(super) fn settle(&mut self) {
        (self.is_owed, self.answered) = (false, None);
    }

    /// When the query times out.
    pub(super) fn query_deadline(&self) -> Option<Duration> {
        self.unconfirmed.map(|(_, at)| at + ANSWER_TIMEOUT)
    }

    pub(super) fn pass(&mut self, now: Duration) {
        if self.query_deadline().is_some_and(|at| now >= at) {
            (self.is_mute, self.unconfirmed) = (true, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: DrawnQuestion = (1, 80, 24);
    const NEXT: DrawnQuestion = (2, 80, 24);

    /// Plays a script, one step per letter: `d` draws, `a` answers, `p` lets time pass, `s` marks
    /// as seen.
    fn run_script(unseen: Option<DrawnQuestion>, script: &str) -> (bool, bool) {
        let mut sight = DrawConfirmation::default();
        play_steps(&mut sight, unseen, script);
        (sight.asks(unseen), sight.is_clear(unseen))
    }

    fn play_steps(sight: &mut DrawConfirmation, unseen: Option<DrawnQuestion>, script: &str) {
        for step in script.chars() {
            match step {
                'd' => sight.drawn(Duration::ZERO, unseen),
                'a' => sight.answer(),
                'p' => sight.pass(ANSWER_TIMEOUT),
                _ => sight.settle(),
            }
        }
    }

    #[test]
    fn an_unconfirmed_question_is_queried() {
        let check = |unseen, script: &str, asks: bool, is_clear: bool| {
            assert_eq!(
                run_script(unseen, script),
                (asks, is_clear),
                "{unseen:?} {script}"
            );
        };
        check(None, "", false, false);
        check(None, "d", false, true);
        check(None, "ds", false, false);
        check(Some(QUESTION), "", true, false);
        check(Some(QUESTION), "d", false, false);
        check(Some(QUESTION), "dd", false, false);
        check(Some(QUESTION), "da", false, true);
        check(Some(QUESTION), "dadd", false, true);
        // A redrawn question needs a new answer.
        check(Some(QUESTION), "das", true, false);
        check(Some(QUESTION), "dasd", false, false);
        // A stray answer does not count.
        check(Some(QUESTION), "ada", false, true);
        check(Some(QUESTION), "aad", false, false);
        // After the timeout, the frame counts as seen.
        check(Some(QUESTION), "dp", false, true);
    }

    #[test]
    fn a_confirmation_applies_to_one_question() {
        let mut sight = DrawConfirmation::default();
        play_steps(&mut sight, Some(QUESTION), "d");
        play_steps(&mut sight, Some(NEXT), "da");
        assert!(!sight.is_clear(Some(NEXT)) && sight.asks(Some(NEXT)));
        play_steps(&mut sight, Some(NEXT), "da");
        assert!(sight.is_clear(Some(NEXT)));
    }
}
