//! Highlights code line by line.
//!
//! If a line cannot be parsed, it and everything after it stay plain. Entry type: [`Highlighter`].

use std::fmt;

use syntect::parsing::{ParseState, ScopeStack, SyntaxReference, SyntaxSet};
use unicode_segmentation::GraphemeCursor;

use super::palette::{CodeTokenKind, ScopePalette};

/// A longer line stays plain, and so does everything after it.
const MAX_LINE_BYTES: usize = 2_000;

/// The definitions of all languages.
pub(super) struct LanguageSet {
    set: SyntaxSet,
    palette: ScopePalette,
}

impl LanguageSet {
    /// Takes tens of milliseconds.
    pub(super) fn load() -> Self {
        Self {
            set: two_face::syntax::extra_newlines(),
            palette: ScopePalette::new(),
        }
    }

    /// A highlighter for a language, if it is known.
    pub(super) fn highlighter(&'static self, name: &str) -> Option<Highlighter> {
        Some(Highlighter {
            languages: self,
            state: ParseState::new(find_syntax(&self.set, name)?),
            stack: ScopeStack::new(),
            is_lost: false,
        })
    }
}

fn find_syntax<'a>(set: &'a SyntaxSet, name: &str) -> Option<&'a SyntaxReference> {
    let token = match name {
        "console" | "shell" | "shellsession" | "sh-session" | "zsh" | "ksh" => "bash",
        "golang" => "go",
        "js" | "mjs" | "cjs" | "node" => "javascript",
        "jsx" => "tsx",
        "mts" | "cts" => "ts",
        "python3" | "py3" | "pycon" => "python",
        "jsonc" | "json5" | "jsonl" | "ndjson" => "json",
        "docker" | "containerfile" => "dockerfile",
        "patch" => "diff",
        "plaintext" | "plain" | "text" | "txt" => return None,
        name => name,
    };
    let extension = || token.rsplit_once('.').map(|(_, extension)| extension);
    set.find_syntax_by_token(token)
        .or_else(|| set.find_syntax_by_token(extension()?))
}

/// Highlights the lines of one text from the first on. Cheap to clone: a clone is used to look
/// ahead.
#[derive(Clone)]
pub(super) struct Highlighter {
    languages: &'static LanguageSet,
    state: ParseState,
    stack: ScopeStack,
    /// A line could not be parsed: the rest is plain.
    is_lost: bool,
}

impl fmt::Debug for Highlighter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Highlighter")
            .field("has_failed", &self.is_lost)
            .finish_non_exhaustive()
    }
}

impl Highlighter {
    /// The parts of the next line, which has no line end.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Vec<(&'a str, CodeTokenKind)> {
        if self.is_lost || line.len() > MAX_LINE_BYTES {
            self.is_lost = true;
            return vec![(line, CodeTokenKind::Plain)];
        }
        let Ok(changes) = self
            .state
            .parse_line(&format!("{line}\n"), &self.languages.set)
        else {
            self.is_lost = true;
            return vec![(line, CodeTokenKind::Plain)];
        };
        let mut parts: Vec<(&str, CodeTokenKind)> = Vec::new();
        let mut from = 0;
        for (at, change) in changes {
            let at = grapheme_boundary(line, at.min(line.len()));
            if at > from {
                let part = self.languages.palette.part(self.stack.as_slice());
                parts.push((&line[from..at], part));
                from = at;
            }
            if self.stack.apply(&change).is_err() {
                self.is_lost = true;
                break;
            }
        }
        if from < line.len() {
            let part = self.languages.palette.part(self.stack.as_slice());
            parts.push((&line[from..], part));
        }
        parts
    }
}

/// Moves a position to the next grapheme boundary. A part that ended inside a grapheme would change
/// how lines are wrapped.
fn grapheme_boundary(line: &str, at: usize) -> usize {
    if line.is_ascii() {
        return at;
    }
    let mut cursor = GraphemeCursor::new(at, line.len(), true);
    match cursor.is_boundary(line, 0) {
        Ok(false) => cursor
            .next_boundary(line, 0)
            .ok()
            .flatten()
            .unwrap_or(line.len()),
        _ => at,
    }
}
