//! The picker of models. A name that is not in the list can be typed.

use crossterm::event::KeyEvent;
use protocol::Command;

use super::After;
use super::picker::{Picker, Step, has_words};
use crate::app::Effect;
use crate::port::{Notice, Request};
use crate::text::clean;

#[derive(Debug)]
pub(crate) struct Models {
    pub(crate) picker: Picker<String>,
    /// The model in use.
    pub(crate) current: String,
}

impl Models {
    pub(crate) fn open(current: &str) -> (Self, Vec<Effect>) {
        let models = Self {
            picker: Picker::default(),
            current: current.to_owned(),
        };
        (models, vec![Effect::Ask(Request::Models)])
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> After {
        let step = self.picker.key(key);
        match step {
            Step::Closed => After::Close(Vec::new()),
            Step::Taken => match self.name() {
                Some(name) => After::Close(vec![Effect::Ask(Request::Agent(Command::UseModel {
                    name,
                }))]),
                None => After::Stay(Vec::new()),
            },
            step => {
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
            Notice::Models(names) => {
                let names: Vec<String> = names
                    .iter()
                    .map(|name| clean(name).replace(['\n', '\t'], " "))
                    .collect();
                let place = names.iter().position(|name| *name == self.current);
                self.picker.fill(names, |old, new| old == new);
                if self.picker.words().is_empty() {
                    let place = place.and_then(|place| isize::try_from(place).ok());
                    self.picker.step(place.unwrap_or(0));
                } else {
                    self.follow(Step::Typed)
                }
            }
            Notice::Failed { what, .. } => self.picker.fail(&clean(what)),
            _ => {}
        }
    }

    /// The name that Enter selects: the chosen row, or the typed text if no row matches.
    pub(crate) fn name(&self) -> Option<String> {
        let typed = self.picker.words().trim();
        let chosen = self.picker.chosen().cloned();
        chosen.or_else(|| (!typed.is_empty()).then(|| typed.to_owned()))
    }

    fn follow(&mut self, step: Step) {
        if step == Step::Typed {
            let words = self.picker.words().to_owned();
            self.picker.keep(|name| has_words(name, &words));
        }
    }
}
