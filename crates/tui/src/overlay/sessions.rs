//! The session picker: searches as the query is typed, and shows the end of the chosen session. The
//! host does the search.

use std::collections::BTreeMap;

use crossterm::event::KeyEvent;
use protocol::SessionId;

use super::OverlayAction;
use super::picker::{Picker, PickerStep};
use crate::app::AppEffect;
use crate::port::{SessionRow, UiNotice, UiRequest};
use crate::text::clean;

/// Maximum number of cached previews.
const MAX_CACHED_PREVIEWS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct SessionPicker {
    pub(crate) picker: Picker<SessionRow>,
    previews: BTreeMap<SessionId, String>,
    /// The preview that was requested and has not arrived.
    requested: Option<SessionId>,
}

impl SessionPicker {
    pub(crate) fn open() -> (Self, Vec<AppEffect>) {
        let sessions = Self::default();
        let effects = vec![sessions.scheme()];
        (sessions, effects)
    }

    /// The end of the chosen session, if it has arrived.
    pub(crate) fn preview(&self) -> Option<&str> {
        let row = self.picker.selected()?;
        self.previews.get(&row.session).map(String::as_str)
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> OverlayAction {
        match self.picker.key(key) {
            PickerStep::Closed => OverlayAction::Close(Vec::new()),
            PickerStep::Taken => match self.picker.selected() {
                Some(row) => OverlayAction::Close(vec![AppEffect::Ask(UiRequest::Load(
                    row.session.to_string(),
                ))]),
                None => OverlayAction::Stay(Vec::new()),
            },
            step => OverlayAction::Stay(self.follow(step)),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) -> Vec<AppEffect> {
        let step = self.picker.paste(text);
        self.follow(step)
    }

    pub(crate) fn scroll(&mut self, rows: i32) -> Vec<AppEffect> {
        let step = self.picker.step(rows as isize);
        self.follow(step)
    }

    pub(crate) fn receive(&mut self, notice: &UiNotice) -> Vec<AppEffect> {
        match notice {
            // An answer to an older query may arrive after one to a newer query.
            UiNotice::Sessions { words, rows } if words == self.picker.query() => {
                let rows = rows.iter().map(cleaned).collect();
                self.picker
                    .fill(rows, |old, new| old.session == new.session);
                self.request_preview()
            }
            UiNotice::Preview(preview) => {
                if self.previews.len() >= MAX_CACHED_PREVIEWS {
                    self.previews.clear();
                }
                let text = clean(&preview.text).into_owned();
                self.previews.insert(preview.session.clone(), text);
                self.requested = None;
                // The selection may have moved meanwhile.
                self.request_preview()
            }
            UiNotice::Failed { what, .. } => {
                self.picker.fail(&clean(what));
                self.requested = None;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn follow(&mut self, step: PickerStep) -> Vec<AppEffect> {
        match step {
            PickerStep::Typed => vec![self.scheme()],
            PickerStep::Moved => self.request_preview(),
            PickerStep::Nothing | PickerStep::Taken | PickerStep::Closed => Vec::new(),
        }
    }

    fn scheme(&self) -> AppEffect {
        let words = self.picker.query().to_owned();
        AppEffect::Ask(UiRequest::Sessions { words })
    }

    /// Requests the preview of the chosen session. One request at a time, so that moving quickly
    /// through the list causes few requests.
    fn request_preview(&mut self) -> Vec<AppEffect> {
        let Some(row) = self.picker.selected() else {
            return Vec::new();
        };
        if self.requested.is_some() || self.previews.contains_key(&row.session) {
            return Vec::new();
        }
        self.requested = Some(row.session.clone());
        vec![AppEffect::Ask(UiRequest::Preview(row.session.clone()))]
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
