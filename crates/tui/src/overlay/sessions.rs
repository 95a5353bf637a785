//! The session picker: searches as the query is typed, and shows the end of the chosen session. The
//! host does the search.

use std::collections::BTreeMap;

use crossterm::event::KeyEvent;
use protocol::SessionId;

use super::After;
use super::picker::{Picker, Step};
use crate::app::Effect;
use crate::port::{Notice, Request, SessionRow};
use crate::text::clean;

/// Maximum number of cached previews.
const PREVIEWS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) picker: Picker<SessionRow>,
    previews: BTreeMap<SessionId, String>,
    /// The preview that was requested and has not arrived.
    asked: Option<SessionId>,
}

impl Sessions {
    pub(crate) fn open() -> (Self, Vec<Effect>) {
        let sessions = Self::default();
        let effects = vec![sessions.look()];
        (sessions, effects)
    }

    /// The end of the chosen session, if it has arrived.
    pub(crate) fn preview(&self) -> Option<&str> {
        let row = self.picker.chosen()?;
        self.previews.get(&row.session).map(String::as_str)
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> After {
        match self.picker.key(key) {
            Step::Closed => After::Close(Vec::new()),
            Step::Taken => match self.picker.chosen() {
                Some(row) => {
                    After::Close(vec![Effect::Ask(Request::Load(row.session.to_string()))])
                }
                None => After::Stay(Vec::new()),
            },
            step => After::Stay(self.follow(step)),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) -> Vec<Effect> {
        let step = self.picker.paste(text);
        self.follow(step)
    }

    pub(crate) fn scroll(&mut self, rows: i32) -> Vec<Effect> {
        let step = self.picker.step(rows as isize);
        self.follow(step)
    }

    pub(crate) fn hear(&mut self, notice: &Notice) -> Vec<Effect> {
        match notice {
            // An answer to an older query may arrive after one to a newer query.
            Notice::Sessions { words, rows } if words == self.picker.words() => {
                let rows = rows.iter().map(cleaned).collect();
                self.picker
                    .fill(rows, |old, new| old.session == new.session);
                self.show_chosen()
            }
            Notice::Preview(preview) => {
                if self.previews.len() >= PREVIEWS {
                    self.previews.clear();
                }
                let text = clean(&preview.text).into_owned();
                self.previews.insert(preview.session.clone(), text);
                self.asked = None;
                // The selection may have moved meanwhile.
                self.show_chosen()
            }
            Notice::Failed { what, .. } => {
                self.picker.fail(&clean(what));
                self.asked = None;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn follow(&mut self, step: Step) -> Vec<Effect> {
        match step {
            Step::Typed => vec![self.look()],
            Step::Moved => self.show_chosen(),
            Step::Nothing | Step::Taken | Step::Closed => Vec::new(),
        }
    }

    fn look(&self) -> Effect {
        let words = self.picker.words().to_owned();
        Effect::Ask(Request::Sessions { words })
    }

    /// Requests the preview of the chosen session. One request at a time, so that moving quickly
    /// through the list causes few requests.
    fn show_chosen(&mut self) -> Vec<Effect> {
        let Some(row) = self.picker.chosen() else {
            return Vec::new();
        };
        if self.asked.is_some() || self.previews.contains_key(&row.session) {
            return Vec::new();
        }
        self.asked = Some(row.session.clone());
        vec![Effect::Ask(Request::Preview(row.session.clone()))]
    }
}

/// Removes control sequences and line breaks from all texts.
fn cleaned(row: &SessionRow) -> SessionRow {
    let line = |text: &str| clean(text).replace(['\n', '\t'], " ");
    SessionRow {
        title: line(&row.title),
        workspace: line(&row.workspace),
        model: line(&row.model),
        outcome: row.outcome.as_deref().map(line),
        excerpt: row.excerpt.as_deref().map(line),
        ..row.clone()
    }
}
