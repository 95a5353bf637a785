//! Questions to the user in lines: what the agent wants, answered with a letter.
//!
//! Only input typed after the question was shown can answer it.

use protocol::{AgentCommand, Decision, Question, Scope};

use super::dialogue::{Dialogue, DialogueEnd};
use super::input::InputItem;
use super::signals::ChatSignal;
use crate::cli_error::warn;
use crate::render::clean;

impl Dialogue<'_> {
    /// Asks the user, and sends the answer.
    pub(super) fn ask(&mut self, question: &Question) -> Result<(), DialogueEnd> {
        let what = clean(&question.what).replace('\n', " ");
        let why = clean(&question.why).replace('\n', " ");
        self.view
            .announce(&format!("the agent wants to {what}: {why}"))?;
        let decision = loop {
            let said = self
                .input
                .answer("allow? once (y), this session (s), always (a), no (n), never (d): ")?;
            match said {
                InputItem::Words(words) => match decision(&words) {
                    Some(decision) => break decision,
                    None => warn("answer with one of the letters y, s, a, n, d"),
                },
                InputItem::Wish(ChatSignal::Leave(code)) => return Err(DialogueEnd::Signal(code)),
                // The question is withdrawn with the turn.
                InputItem::Wish(ChatSignal::Interrupt) => {
                    self.tell(AgentCommand::Interrupt);
                    return Ok(());
                }
                InputItem::End | InputItem::Refused(_) => break DENY_ONCE,
            }
        };
        self.tell(AgentCommand::Decide {
            question: question.number,
            decision,
        });
        Ok(())
    }
}

const DENY_ONCE: Decision = Decision {
    is_allowed: false,
    scope: Scope::Once,
};

fn decision(words: &str) -> Option<Decision> {
    let (is_allowed, scope) = match words.trim().to_lowercase().as_str() {
        "y" | "yes" | "once" => (true, Scope::Once),
        "s" | "session" => (true, Scope::Session),
        "a" | "always" => (true, Scope::Always),
        "n" | "no" => return Some(DENY_ONCE),
        "d" | "never" => (false, Scope::Always),
        _ => return None,
    };
    Some(Decision { is_allowed, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_words_answer() {
        fn check(words: &str, expect: Option<(bool, Scope)>) {
            let decision = decision(words).map(|one| (one.is_allowed, one.scope));
            assert_eq!(decision, expect, "{words:?}");
        }
        check("y", Some((true, Scope::Once)));
        check(" Yes ", Some((true, Scope::Once)));
        check("s", Some((true, Scope::Session)));
        check("ALWAYS", Some((true, Scope::Always)));
        check("n", Some((false, Scope::Once)));
        check("never", Some((false, Scope::Always)));
        for words in ["", "yy", "y n", "allow", "/quit"] {
            check(words, None);
        }
    }
}
