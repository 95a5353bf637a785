//! A viewer for long text: scrolls, searches, copies. The text is laid out once per width.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;

use super::OverlayAction;
use super::content::{ViewerContent, ViewerLines};
use crate::app::AppEffect;
use crate::text::query_regex;
use crate::theme::{ColourScheme, Theme};

#[derive(Debug)]
pub(crate) struct Viewer {
    pub(crate) content: ViewerContent,
    layout: ViewerLines,
    /// The width and look of the current layout.
    size: Option<(u16, ColourScheme)>,
    /// First visible line.
    top: usize,
    height: usize,
    search: ViewerSearch,
}

/// The search query and its matches.
#[derive(Debug, Default)]
pub(crate) struct ViewerSearch {
    pub(crate) query: String,
    pub(crate) is_being_written: bool,
    /// Indices of matching lines.
    matches: Vec<usize>,
    /// The current match, as an index into `found`.
    current: usize,
}

impl Viewer {
    pub(crate) fn new(content: ViewerContent) -> Self {
        Self {
            content,
            layout: ViewerLines::default(),
            size: None,
            top: 0,
            height: 1,
            search: ViewerSearch::default(),
        }
    }

    pub(crate) fn arrange(&mut self, width: u16, height: usize, theme: &Theme) {
        self.height = height;
        let size = Some((width, theme.scheme));
        if self.size != size {
            let old = self.layout.lines.len().max(1);
            self.layout = self.content.lay_out(width, theme);
            // Keep about the same position.
            self.top = self.top * self.layout.lines.len() / old;
            self.size = size;
            self.find();
        }
        self.top = self.top.min(self.last_top());
    }

    pub(crate) fn search(&self) -> &ViewerSearch {
        &self.search
    }

    /// The visible lines; true for those that match the query.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (bool, &Line<'static>)> {
        let lines = self.layout.lines.iter().enumerate();
        lines
            .skip(self.top)
            .take(self.height)
            .map(|(index, line)| (self.search.matches.binary_search(&index).is_ok(), line))
    }

    /// First visible line, number of visible lines, number of all lines.
    pub(crate) fn position(&self) -> (usize, usize, usize) {
        (self.top, self.height, self.layout.lines.len())
    }

    /// What the parts are called, if there are several.
    pub(crate) fn part_name(&self) -> Option<&'static str> {
        (self.layout.parts.len() > 1).then(|| self.content.part_name())
    }

    pub(crate) fn scroll(&mut self, lines: i64) {
        let lines = isize::try_from(lines).unwrap_or(0);
        self.top = self.top.saturating_add_signed(lines).min(self.last_top());
    }

    pub(crate) fn paste(&mut self, text: &str) {
        if self.search.is_being_written {
            let line = text.lines().next().unwrap_or_default();
            let line = line.chars().filter(|character| !character.is_control());
            self.search.query.extend(line);
            self.find_matches_from_view();
        }
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> OverlayAction {
        if self.search.is_being_written {
            self.write(key);
            return OverlayAction::Stay(Vec::new());
        }
        let page = self.height.max(2) as i64 - 1;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd' | 'g') if control => return OverlayAction::Close(Vec::new()),
            KeyCode::Char('f') if control => self.begin_search(),
            KeyCode::Esc if !self.search.query.is_empty() => self.search = ViewerSearch::default(),
            KeyCode::Esc | KeyCode::Char('q') => return OverlayAction::Close(Vec::new()),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => self.scroll(1),
            KeyCode::PageUp | KeyCode::Char('b') => self.scroll(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll(page),
            KeyCode::Home | KeyCode::Char('g') => self.top = 0,
            KeyCode::End | KeyCode::Char('G') => self.top = self.last_top(),
            KeyCode::Tab => self.go_to_part(1),
            KeyCode::BackTab => self.go_to_part(-1),
            KeyCode::Char('/') => self.begin_search(),
            KeyCode::Char('n') => self.go_to_match(1),
            KeyCode::Char('N') => self.go_to_match(-1),
            KeyCode::Char('y') => return OverlayAction::Stay(vec![AppEffect::Copy(self.source())]),
            _ => {}
        }
        OverlayAction::Stay(Vec::new())
    }

    fn source(&self) -> String {
        self.content.source().unwrap_or_else(|| {
            let lines: Vec<String> = self.layout.lines.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    fn last_top(&self) -> usize {
        self.layout.lines.len().saturating_sub(self.height.max(1))
    }

    fn go_to_part(&mut self, step: i32) {
        let parts = &self.layout.parts;
        let next = if step > 0 {
            parts.iter().find(|part| **part > self.top)
        } else {
            parts.iter().rev().find(|part| **part < self.top)
        };
        self.top = next.copied().unwrap_or(if step > 0 { self.top } else { 0 });
        self.top = self.top.min(self.last_top());
    }

    fn begin_search(&mut self) {
        self.search = ViewerSearch {
            is_being_written: true,
            ..ViewerSearch::default()
        };
    }

    fn write(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Esc => self.search = ViewerSearch::default(),
            KeyCode::Enter => self.search.is_being_written = false,
            KeyCode::Backspace => {
                if self.search.query.pop().is_none() {
                    self.search = ViewerSearch::default();
                }
                self.find_matches_from_view();
            }
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => {
                self.search.query.clear();
                self.find_matches_from_view();
            }
            KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => {
                self.search = ViewerSearch::default();
            }
            KeyCode::Char(character) if (key.modifiers - KeyModifiers::SHIFT).is_empty() => {
                self.search.query.push(character);
                self.find_matches_from_view();
            }
            _ => {}
        }
    }

    /// Finds the matching lines.
    fn find(&mut self) {
        let query = query_regex(&self.search.query);
        let is_match = |line: &Line<'_>| {
            let query = query.as_ref();
            query.is_some_and(|query| query.is_match(&line.to_string()))
        };
        let lines = self.layout.lines.iter().enumerate();
        self.search.matches = lines
            .filter_map(|(index, line)| is_match(line).then_some(index))
            .collect();
        let last = self.search.matches.len().saturating_sub(1);
        self.search.current = self.search.current.min(last);
    }

    fn find_matches_from_view(&mut self) {
        self.find();
        let matches = &self.search.matches;
        self.search.current = matches
            .iter()
            .position(|line| *line >= self.top)
            .unwrap_or(0);
        self.show_match();
    }

    fn go_to_match(&mut self, step: isize) {
        let all = self.search.matches.len();
        if all > 0 {
            self.search.current = (self.search.current + all).saturating_add_signed(step) % all;
            self.show_match();
        }
    }

    fn show_match(&mut self) {
        if let Some(line) = self.search.matches.get(self.search.current)
            && !(self.top..self.top + self.height).contains(line)
        {
            self.top = line.saturating_sub(self.height / 3).min(self.last_top());
        }
    }
}

impl ViewerSearch {
    /// Number of the current match, from 1, and of all matches.
    pub(crate) fn position(&self) -> Option<(usize, usize)> {
        match (self.query.is_empty(), self.matches.len()) {
            (true, _) => None,
            (false, 0) => Some((0, 0)),
            (false, all) => Some((self.current + 1, all)),
        }
    }
}
