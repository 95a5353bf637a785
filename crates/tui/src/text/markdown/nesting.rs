//! The lines of a block, and the lists and quotes around them.
//!
//! Levels are no longer indented when there is too little room. Entry type: [`NestedLines`].

use ratatui::text::{Line, Span};

/// Columns that an indent has to leave for text.
pub(super) const MIN_TEXT_COLUMNS: usize = 10;

/// The kind of a nesting level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NestingKind {
    Quote,
    List {
        /// Number of the next item.
        number: Option<u64>,
        /// Digits of the largest number of the list.
        digits: usize,
    },
    Item,
}

/// A list, a list item, or a quote around the lines.
#[derive(Debug)]
pub(super) struct NestingLevel {
    pub(super) within: NestingKind,
    /// Nothing in it has been laid out yet.
    pub(super) is_fresh: bool,
    /// Empty lines separate its content.
    pub(super) is_loose: bool,
    /// Prefix of its first line, until that is written.
    pub(super) first: Option<Span<'static>>,
    /// Prefix of its other lines.
    pub(super) rest: Vec<Span<'static>>,
    /// Width of both prefixes in columns.
    pub(super) columns: usize,
}

impl NestingLevel {
    pub(super) fn is_list(&self) -> bool {
        matches!(self.within, NestingKind::List { .. })
    }

    pub(super) fn has_bullets(&self) -> bool {
        matches!(self.within, NestingKind::List { number: None, .. })
    }
}

/// Collects lines with the prefixes of all levels.
#[derive(Debug)]
pub(super) struct NestedLines {
    pub(super) width: usize,
    pub(super) lines: Vec<Line<'static>>,
    pub(super) levels: Vec<NestingLevel>,
}

impl NestedLines {
    /// Adds lines with the prefixes of all levels.
    pub(super) fn emit(&mut self, lines: Vec<Line<'static>>) {
        for line in lines {
            let mut spans = Vec::with_capacity(line.spans.len() + self.levels.len());
            for level in &mut self.levels {
                level.is_fresh = false;
                match level.first.take() {
                    Some(first) => spans.push(first),
                    None => spans.extend(level.rest.iter().cloned()),
                }
            }
            spans.extend(line.spans.into_iter().map(|mut span| {
                span.style = line.style.patch(span.style);
                span
            }));
            self.lines.push(Line::from(spans));
        }
    }

    /// Adds an empty line, which keeps the prefixes of quotes.
    pub(super) fn gap(&mut self) {
        let quoted = self
            .levels
            .iter()
            .rposition(|level| level.within == NestingKind::Quote);
        let shown = quoted.map_or(&[][..], |last| &self.levels[..=last]);
        let mut spans: Vec<_> = shown.iter().flat_map(|level| level.rest.clone()).collect();
        if let Some(last) = spans.last_mut() {
            last.content = last.content.trim_end().to_owned().into();
        }
        self.lines.push(Line::from(spans));
    }

    /// Remaining columns.
    pub(super) fn room(&self) -> usize {
        let taken: usize = self.levels.iter().map(|level| level.columns).sum();
        self.width.saturating_sub(taken)
    }

    /// Begins a level. Returns the prefix of the first line if there is no room for it.
    pub(super) fn push_level(
        &mut self,
        within: NestingKind,
        first: Option<Span<'static>>,
        rest: Vec<Span<'static>>,
        columns: usize,
    ) -> Option<Span<'static>> {
        let has_room = self.room() >= columns + MIN_TEXT_COLUMNS;
        let level = NestingLevel {
            is_loose: !matches!(within, NestingKind::List { .. } | NestingKind::Item),
            within,
            is_fresh: true,
            first: None,
            rest: Vec::new(),
            columns: 0,
        };
        if !has_room {
            self.levels.push(level);
            return first;
        }
        self.levels.push(NestingLevel {
            first,
            rest,
            columns,
            ..level
        });
        None
    }

    pub(super) fn pop_level(&mut self) {
        let Some(ended) = self.levels.pop() else {
            return;
        };
        if let Some(level) = self.levels.last_mut() {
            level.is_fresh &= ended.is_fresh;
            level.is_loose |= level.is_list() && ended.is_loose;
        }
    }
}
