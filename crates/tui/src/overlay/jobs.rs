//! The picker of a server's jobs.

use crossterm::event::KeyEvent;

use super::OverlayAction;
use super::picker::{Picker, PickerStep, has_words};
use crate::app::AppEffect;
use crate::port::{JobRow, UiNotice, UiRequest};
use crate::text::clean;

#[derive(Debug, Default)]
pub(crate) struct JobPicker {
    pub(crate) picker: Picker<JobRow>,
}

impl JobPicker {
    pub(crate) fn open() -> (Self, Vec<AppEffect>) {
        (Self::default(), vec![AppEffect::Ask(UiRequest::Jobs)])
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> OverlayAction {
        let step = self.picker.key(key);
        match (step, self.picker.selected()) {
            (PickerStep::Closed, _) => OverlayAction::Close(Vec::new()),
            (PickerStep::Taken, Some(row)) => {
                OverlayAction::Close(vec![AppEffect::Ask(UiRequest::Follow(row.job.to_string()))])
            }
            _ => {
                self.follow(step);
                OverlayAction::Stay(Vec::new())
            }
        }
    }

    pub(crate) fn paste(&mut self, text: &str) {
        let step = self.picker.paste(text);
        self.follow(step);
    }

    pub(crate) fn receive(&mut self, notice: &UiNotice) {
        match notice {
            UiNotice::Jobs(rows) => {
                let rows = rows.iter().map(cleaned).collect();
                self.picker.fill(rows, |old, new| old.job == new.job);
                if !self.picker.query().is_empty() {
                    self.follow(PickerStep::Typed);
                }
            }
            UiNotice::Failed { what, .. } => self.picker.fail(&clean(what)),
            _ => {}
        }
    }

    fn follow(&mut self, step: PickerStep) {
        if step == PickerStep::Typed {
            let query = self.picker.query().to_owned();
            self.picker.filter_rows(|row| {
                has_words(&format!("{} {} {}", row.job, row.state, row.title), &query)
            });
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
