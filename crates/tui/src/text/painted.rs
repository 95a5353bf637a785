//! Code that was coloured as a whole, kept for a while.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::highlighter::Highlighter;
use super::palette::Part;

/// Lines that are kept, of all codes together; the latest code is kept whatever its length.
const MOST_LINES: usize = 20_000;

/// Which code it is: a hash of its language and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key(u64);

impl Key {
    pub(super) fn new(language: &str, text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (language, text).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The parts of every line, by their lengths.
#[derive(Debug)]
pub(super) struct Painted {
    lines: Vec<Vec<(usize, Part)>>,
    /// Goes on after the last line.
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

    /// The parts of a line, if it is the one that was coloured.
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

/// The codes that are kept.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// `None` while it is being coloured.
    codes: HashMap<Key, Option<Arc<Painted>>>,
    /// The latest is the last.
    order: VecDeque<Key>,
    lines: usize,
}

impl Shelf {
    /// A code, if it is there; `Some(None)` if it is to be coloured, which is said only once.
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
