//! Paths as a tree: each folder once, with its entries below.

use ratatui::text::{Line, Span};

use super::content::ViewerLines;
use crate::text::clean;
use crate::theme::Theme;

pub(super) fn lay_out(paths: &[String], is_cut: bool, theme: &Theme) -> ViewerLines {
    let mut layout = ViewerLines::default();
    if paths.is_empty() {
        layout
            .lines
            .push(Line::styled("the workspace has no files", theme.dim));
    }
    let mut paths: Vec<Vec<&str>> = paths.iter().map(|path| path.split('/').collect()).collect();
    paths.sort_unstable();
    let mut open: Vec<&str> = Vec::new();
    for path in &paths {
        let Some((name, folders)) = path.split_last() else {
            continue;
        };
        let mut pairs = open.iter().zip(folders);
        let shared = pairs
            .position(|(open, folder)| open != folder)
            .unwrap_or(open.len().min(folders.len()));
        for (depth, folder) in folders.iter().enumerate().skip(shared) {
            if depth == 0 {
                layout.parts.push(layout.lines.len());
            }
            let folder = format!("{}/", single_line(folder));
            layout
                .lines
                .push(indented(depth, Span::styled(folder, theme.strong)));
        }
        open = folders.to_vec();
        let name = Span::styled(single_line(name), theme.text);
        layout.lines.push(indented(folders.len(), name));
    }
    if is_cut {
        layout
            .lines
            .push(Line::styled("… and more, not shown", theme.dim));
    }
    layout
}

fn indented(depth: usize, span: Span<'static>) -> Line<'static> {
    Line::from(vec![Span::raw("  ".repeat(depth)), span])
}

fn single_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}
