//! The picker of models. A name that is not in the list can be typed.

use crossterm::event::KeyEvent;
use protocol::AgentCommand;

use super::OverlayAction;
use super::picker::{Picker, PickerStep, has_words};
use crate::app::AppEffect;
use crate::port::{UiNotice, UiRequest};
use crate::text::clean;

#[derive(Debug)]
pub(crate) struct ModelPicker {
    pub(crate) picker: Picker<String>,
    /// The model in use.
    pub(crate) current: String,
}

impl ModelPicker {
    pub(crate) fn open(current: &str) -> (Self, Vec<AppEffect>) {
        let models = Self {
            picker: Picker::default(),
            current: current.to_owned(),
        };
        (models, vec![AppEffect::Ask(UiRequest::Models)])
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> OverlayAction {
        let step = self.picker.key(key);
        match step {
            PickerStep::Closed => OverlayAction::Close(Vec::new()),
            PickerStep::Taken => match self.name() {
                Some(name) => OverlayAction::Close(vec![AppEffect::Ask(UiRequest::Agent(
                    AgentCommand::UseModel { name },
                ))]),
                None => OverlayAction::Stay(Vec::new()),
            },
            step => {
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
            UiNotice::Models(names) => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| clean(name).replace(['\n', '\t'], " "))
                    .collect();
                let index = names.iter().position(|name| *name == self.current);
                self.picker.fill(names, |old, new| old == new);
                if self.picker.query().is_empty() {
                    let index = index.and_then(|index| isize::try_from(index).ok());
                    self.picker.step(index.unwrap_or(0));
                } else {
                    self.follow(PickerStep::Typed)
                }
            }
            UiNotice::Failed { what, .. } => self.picker.fail(&clean(what)),
            _ => {}
        }
    }

    /// The name that Enter selects: the chosen row, or the typed text if no row matches.
    pub(crate) fn name(&self) -> Option<String> {
        let typed = self.picker.query().trim();
        let selected = self.picker.selected().cloned();
        selected.or_else(|| (!typed.is_empty()).then(|| typed.to_owned()))
    }

    fn follow(&mut self, step: PickerStep) {
        if step == PickerStep::Typed {
            let query = self.picker.query().to_owned();
            self.picker.filter_rows(|name| has_words(name, &query));
        }
    }
}
