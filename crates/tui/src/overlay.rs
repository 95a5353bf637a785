//! Overlays in front of the page: pickers, viewers, help. Holds the state only: [`crate::draw`]
//! paints it. Never performs I/O: requests go out as effects, answers come in as notices. Entry
//! type: [`Overlay`].

mod changes;
mod content;
mod cost;
mod files;
mod help;
mod jobs;
mod models;
mod picker;
mod sessions;
#[cfg(test)]
mod tests;
mod viewer;

use crossterm::event::KeyEvent;
use protocol::Change;
use ratatui::layout::Rect;

pub(crate) use self::content::ViewerContent;
pub(crate) use self::jobs::JobPicker;
pub(crate) use self::models::ModelPicker;
pub(crate) use self::picker::{Picker, PickerState};
pub(crate) use self::sessions::SessionPicker;
pub(crate) use self::viewer::Viewer;
use crate::app::AppEffect;
use crate::draw::{body, panes};
use crate::port::UiNotice;
use crate::status::UiStatus;
use crate::theme::Theme;

/// At most one is open. It gets every key that the question does not take.
#[derive(Debug)]
pub(crate) enum Overlay {
    Viewer(Box<Viewer>),
    Sessions(Box<SessionPicker>),
    Jobs(Box<JobPicker>),
    Models(Box<ModelPicker>),
}

/// Whether the overlay stays open after a key, and the effects of the key.
#[derive(Debug, PartialEq)]
pub(crate) enum OverlayAction {
    Stay(Vec<AppEffect>),
    Close(Vec<AppEffect>),
}

impl Overlay {
    pub(crate) fn help() -> Self {
        Self::view(ViewerContent::Help)
    }

    /// Opens the session picker; the effects request its rows.
    pub(crate) fn sessions() -> (Self, Vec<AppEffect>) {
        let (sessions, effects) = SessionPicker::open();
        (Self::Sessions(Box::new(sessions)), effects)
    }

    pub(crate) fn jobs() -> (Self, Vec<AppEffect>) {
        let (jobs, effects) = JobPicker::open();
        (Self::Jobs(Box::new(jobs)), effects)
    }

    pub(crate) fn models(current: &str) -> (Self, Vec<AppEffect>) {
        let (models, effects) = ModelPicker::open(current);
        (Self::Models(Box::new(models)), effects)
    }

    pub(crate) fn cost(status: &UiStatus) -> Self {
        Self::view(ViewerContent::Cost(Box::new(status.clone())))
    }

    pub(crate) fn files(paths: &[String], is_cut: bool) -> Self {
        let paths = paths.to_vec();
        Self::view(ViewerContent::Files { paths, is_cut })
    }

    pub(crate) fn changes(changes: &[Change], left_out: u64) -> Self {
        let changes = changes.to_vec();
        Self::view(ViewerContent::Changes { changes, left_out })
    }

    /// One diff, in unified form.
    pub(crate) fn diff(text: &str) -> Self {
        let change = Change {
            path: String::new(),
            diff: Some(text.to_owned()),
        };
        Self::changes(&[change], 0)
    }

    fn view(content: ViewerContent) -> Self {
        Self::Viewer(Box::new(Viewer::new(content)))
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> OverlayAction {
        match self {
            Self::Viewer(viewer) => viewer.key(key),
            Self::Sessions(sessions) => sessions.key(key),
            Self::Jobs(jobs) => jobs.key(key),
            Self::Models(models) => models.key(key),
        }
    }

    pub(crate) fn paste(&mut self, text: &str) -> Vec<AppEffect> {
        match self {
            Self::Viewer(viewer) => viewer.paste(text),
            Self::Sessions(sessions) => return sessions.paste(text),
            Self::Jobs(jobs) => jobs.paste(text),
            Self::Models(models) => models.paste(text),
        }
        Vec::new()
    }

    /// Scrolls by mouse wheel; positive is down.
    pub(crate) fn scroll(&mut self, lines: i32) -> Vec<AppEffect> {
        match self {
            Self::Viewer(viewer) => viewer.scroll(lines.into()),
            Self::Sessions(sessions) => return sessions.scroll(lines.signum()),
            Self::Jobs(jobs) => drop(jobs.picker.step(lines.signum() as isize)),
            Self::Models(models) => drop(models.picker.step(lines.signum() as isize)),
        }
        Vec::new()
    }

    /// Lays the overlay out for an area. Called before every draw.
    pub(crate) fn arrange(&mut self, area: Rect, theme: &Theme) {
        let rows = |has_preview| usize::from(panes(area, has_preview).list.height);
        match self {
            Self::Viewer(viewer) => {
                let body = body(area);
                viewer.arrange(body.width, usize::from(body.height), theme);
            }
            Self::Sessions(sessions) => sessions.picker.arrange(rows(true)),
            Self::Jobs(jobs) => jobs.picker.arrange(rows(false)),
            Self::Models(models) => models.picker.arrange(rows(false)),
        }
    }

    /// Handles answers to the overlay's requests; ignores other notices.
    pub(crate) fn receive(&mut self, notice: &UiNotice) -> Vec<AppEffect> {
        match self {
            Self::Viewer(_) => {}
            Self::Sessions(sessions) => return sessions.receive(notice),
            Self::Jobs(jobs) => jobs.receive(notice),
            Self::Models(models) => models.receive(notice),
        }
        Vec::new()
    }
}
