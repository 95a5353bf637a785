//! The picker of a server's jobs.

use crossterm::event::KeyEvent;

use super::After;
use super::picker::{Picker, Step, has_words};
use crate::app::Effect;
use crate::port::{JobRow, Notice, Request};
use crate::text::clean;

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) picker: Picker<JobRow>,
}

impl Jobs {
    pub(crate) fn open() -> (Self, Vec<Effect>) {
        (Self::default(), vec![Effect::Ask(Request::Jobs)])
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> After {
        let step = self.picker.key(key);
        match (step, self.picker.chosen()) {
            (Step::Closed, _) => After::Close(Vec::new()),
            (Step::Taken, Some(row)) => {
                After::Close(vec![Effect::Ask(Request::Follow(row.job.to_string()))])
            }
            _ => {
                self.follow(step);
                After::Stay(Vec::new())
            }
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        let step = self.picker.paste(text);
        self.follow(step);
    }

    pub(crate) fn hear(&mut self, notice: &Notice) {
        match notice {
            Notice::Jobs(rows) => {
                let rows = rows.iter().map(cleaned).collect();
                self.picker.fill(rows, |old, new| old.job == new.job);
                if !self.picker.words().is_empty() {
                    self.follow(Step::Typed);
                }
            }
            Notice::Failed { what, .. } => self.picker.fail(&clean(what)),
            _ => {}
        }
    }

    fn follow(&mut self, step: Step) {
        if step == Step::Typed {
            let words = self.picker.words().to_owned();
            self.picker
                .keep(|row| has_words(&format!("{} {} {}", row.job, row.state, row.title), &words));
        }
    }
}

fn cleaned(row: &JobRow) -> JobRow {
    let line = |text: &str| clean(text).replace(['\n', '\t'], " ");
    JobRow {
        title: line(&row.title),
        state: line(&row.state),
        ..row.clone()
    }
}
