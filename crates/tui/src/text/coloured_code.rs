//! A cache of coloured code.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::highlighter::Highlighter;
use super::palette::CodeTokenKind;

/// Maximum number of cached lines over all texts. The latest text is kept whatever its length.
const MAX_CACHED_LINES: usize = 20_000;

/// Identifies a text: a hash of its language and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CodeKey(u64);

impl CodeKey {
    pub(super) fn new(language: &str, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (language, text).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The parts of every line with their lengths in bytes.
#[derive(Debug)]
pub(super) struct ColouredCode {
    lines: Vec<Vec<(usize, CodeTokenKind)>>,
    /// The state after the last line.
    end: Highlighter,
}

impl ColouredCode {
    pub(super) fn new(mut highlighter: Highlighter, text: &str) -> Self {
        let lines = text
            .lines()
            .map(|line| {
                let parts = highlighter.line(line).into_iter();
                parts.map(|(text, part)| (text.len(), part)).collect()
            })
            .collect();
        Self {
            lines,
            end: highlighter,
        }
    }

    pub(super) fn end(&self) -> Highlighter {
        self.end.clone()
    }

    /// The coloured parts of a line. Text that does not match the coloured one is plain.
    pub(super) fn parts<'a>(&self, number: usize, line: &'a str) -> Vec<(&'a str, CodeTokenKind)> {
        let mut parts = Vec::new();
        let mut rest = line;
        for (length, part) in self.lines.get(number).into_iter().flatten() {
            let Some((text, after)) = rest.split_at_checked(*length) else {
                break;
            };
            parts.push((text, *part));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push((rest, CodeTokenKind::Plain));
        }
        parts
    }
}

/// The cached texts.
#[derive(Debug, Default)]
pub(super) struct ColouredCodeCache {
    /// `None` while it is being coloured.
    codes: HashMap<CodeKey, Option<Arc<ColouredCode>>>,
    /// The latest one is last.
    order: VecDeque<CodeKey>,
    lines: usize,
}

impl ColouredCodeCache {
    /// The cached text; `Some(None)` if the caller has to request it, which is returned only once
    /// per key; `None` while it is being coloured.
    pub(super) fn get_or_reserve(&mut self, key: CodeKey) -> Option<Option<Arc<ColouredCode>>> {
        match self.codes.get(&key) {
            Some(Some(painted)) => Some(Some(Arc::clone(painted))),
            Some(None) => None,
            None => {
                self.codes.insert(key, None);
                Some(None)
            }
        }
    }

    pub(super) fn put(&mut self, key: CodeKey, painted: Arc<ColouredCode>) {
        self.lines += painted.lines.len();
        self.codes.insert(key, Some(painted));
        self.order.push_back(key);
        while self.lines > MAX_CACHED_LINES && self.order.len() > 1 {
            let oldest = self.order.pop_front();
            let gone = oldest
                .and_then(|oldest| self.codes.remove(&oldest))
                .flatten();
            self.lines -= gone.map_or(0, |gone| gone.lines.len());
        }
    }
}
