//! A cache of coloured code.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::highlighter::Highlighter;
use super::palette::Part;

/// Maximum number of cached lines over all texts. The latest text is kept whatever its length.
const MOST_LINES: usize = 20_000;

/// Identifies a text: a hash of its language and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(language: &str, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (language, text).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The parts of every line with their lengths in bytes.
#[derive(Debug)]
pub(super) struct Painted {
    lines: Vec<Vec<(usize, Part)>>,
    /// The state after the last line.
    end: Highlighter,
}

impl Painted {
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
    pub(super) fn parts<'a>(&self, number: usize, line: &'a str) -> Vec<(&'a str, Part)> {
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
            parts.push((rest, Part::Plain));
        }
        parts
    }
}

/// The cached texts.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// `None` while it is being coloured.
    codes: HashMap<Key, Option<Arc<Painted>>>,
    /// The latest one is last.
    order: VecDeque<Key>,
    lines: usize,
}

impl Shelf {
    /// The cached text; `Some(None)` if the caller has to request it, which is returned only once
    /// per key; `None` while it is being coloured.
    pub(super) fn take_or_ask(&mut self, key: Key) -> Option<Option<Arc<Painted>>> {
        match self.codes.get(&key) {
            Some(Some(painted)) => Some(Some(Arc::clone(painted))),
            Some(None) => None,
            None => {
                self.codes.insert(key, None);
                Some(None)
            }
        }
    }

    pub(super) fn put(&mut self, key: Key, painted: Arc<Painted>) {
        self.lines += painted.lines.len();
        self.codes.insert(key, Some(painted));
        self.order.push_back(key);
        while self.lines > MOST_LINES && self.order.len() > 1 {
            let oldest = self.order.pop_front();
            let gone = oldest
                .and_then(|oldest| self.codes.remove(&oldest))
                .flatten();
            self.lines -= gone.map_or(0, |gone| gone.lines.len());
        }
    }
}
