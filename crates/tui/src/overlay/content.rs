//! The content of a viewer and its layout. Pure.

use protocol::Change;
use ratatui::text::Line;

use super::{changes, cost, files, help};
use crate::amount::{count, some};
use crate::status::UiStatus;
use crate::text::clean;
use crate::theme::Theme;

#[derive(Debug)]
pub(crate) enum ViewerContent {
    Help,
    Cost(Box<UiStatus>),
    Files { paths: Vec<String>, is_cut: bool },
    Changes { changes: Vec<Change>, left_out: u64 },
}

/// Lines laid out for a width, and the line indices at which the parts begin.
#[derive(Debug, Default)]
pub(crate) struct ViewerLines {
    pub(crate) lines: Vec<Line<'static>>,
    pub(crate) parts: Vec<usize>,
}

impl ViewerContent {
    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Cost(_) => "cost",
            Self::Files { .. } => "files",
            Self::Changes { .. } => "changes",
        }
    }

    /// What one part is called.
    pub(crate) fn part_name(&self) -> &'static str {
        match self {
            Self::Help | Self::Cost(_) => "section",
            Self::Files { .. } => "folder",
            Self::Changes { .. } => "file",
        }
    }

    /// Shown beside the title.
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Help | Self::Cost(_) => String::new(),
            Self::Files { paths, is_cut } => {
                let more = if *is_cut { " and more" } else { "" };
                format!("{}{more}", some(paths.len() as u64, "file", "files"))
            }
            Self::Changes { changes, left_out } => {
                let (added, removed) = changes::line_counts(changes);
                let files = some(changes.len() as u64 + left_out, "file", "files");
                format!("{files}  +{} −{}", count(added), count(removed))
            }
        }
    }

    pub(crate) fn lay_out(&self, width: u16, theme: &Theme) -> ViewerLines {
        match self {
            Self::Help => help::lay_out(width, theme),
            Self::Cost(status) => cost::lay_out(status, width, theme),
            Self::Files { paths, is_cut } => files::lay_out(paths, *is_cut, theme),
            Self::Changes { changes, left_out } => {
                changes::lay_out(changes, *left_out, width, theme)
            }
        }
    }

    /// The text to copy, if it differs from the shown lines.
    pub(crate) fn source(&self) -> Option<String> {
        match self {
            Self::Help | Self::Cost(_) => None,
            Self::Files { paths, .. } => Some(clean(&paths.join("\n")).into_owned()),
            Self::Changes { changes, .. } => Some(changes::source(changes)),
        }
    }
}
