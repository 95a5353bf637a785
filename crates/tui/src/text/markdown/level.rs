//! A list, an item of one, or a quote that lines are in.

use ratatui::text::Span;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Within {
    Quote,
    List {
        /// Of the next item.
        number: Option<u64>,
        /// That the largest number of the list has.
        digits: usize,
    },
    Item,
}

#[derive(Debug)]
pub(super) struct Level {
    pub(super) within: Within,
    /// Nothing in it has been laid out yet.
    pub(super) is_fresh: bool,
    /// Empty lines keep apart what is in it.
    pub(super) is_loose: bool,
    /// What its first line begins with, until there is one.
    pub(super) first: Option<Span<'static>>,
    /// What its other lines begin with.
    pub(super) rest: Vec<Span<'static>>,
    /// Of both.
    pub(super) columns: usize,
}

impl Level {
    pub(super) fn is_list(&self) -> bool {
        matches!(self.within, Within::List { .. })
    }
}
