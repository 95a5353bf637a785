//! Word-level differences between two lines.
//!
//! Reports nothing for lines that have too little in common: then all of both counts as changed.
//! Entry point: [`changed`].

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Longer lines are not compared.
const MAX_LINE_BYTES: usize = 2_000;
/// Maximum size of the table for the longest common subsequence.
const MAX_TABLE_CELLS: usize = 40_000;

/// Changed byte ranges of the old line and of the new one.
pub(super) type ChangedRanges = (Vec<Range<usize>>, Vec<Range<usize>>);

/// The changed ranges of both lines; `None` if less than a third is in common.
pub(super) fn changed(old: &str, new: &str) -> Option<ChangedRanges> {
    if old.len().max(new.len()) > MAX_LINE_BYTES {
        return None;
    }
    let (old_words, new_words) = (words(old), words(new));
    let head = common_prefix_len(old_words.iter(), new_words.iter());
    let (old_rest, new_rest) = (&old_words[head..], &new_words[head..]);
    let tail = common_prefix_len(old_rest.iter().rev(), new_rest.iter().rev());
    let old_middle = &old_rest[..old_rest.len() - tail];
    let new_middle = &new_rest[..new_rest.len() - tail];
    let unchanged = longest_common_subsequence(old_middle, new_middle);

    let mut same = 0;
    let mut ranges = (Vec::new(), Vec::new());
    let mut collect = |all: &[&str], middle: &[&str], unchanged: &[usize], into: &mut Vec<_>| {
        let mut at = 0;
        for (index, word) in all.iter().enumerate() {
            let is_kept = index < head
                || index >= head + middle.len()
                || unchanged.binary_search(&(index - head)).is_ok();
            if is_kept {
                same += word.trim().len();
            } else {
                push_range(into, at..at + word.len());
            }
            at += word.len();
        }
    };
    let (old_kept, new_kept): (Vec<usize>, Vec<usize>) = unchanged.into_iter().unzip();
    collect(&old_words, old_middle, &old_kept, &mut ranges.0);
    collect(&new_words, new_middle, &new_kept, &mut ranges.1);
    let all = non_space_len(&old_words) + non_space_len(&new_words);
    (same * 3 >= all).then_some(ranges)
}

fn non_space_len(words: &[&str]) -> usize {
    words.iter().map(|word| word.trim().len()).sum()
}

/// Appends a range, merged with the last one if they touch.
fn push_range(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

/// Splits a line into names and numbers, runs of spaces, and single other characters.
fn words(line: &str) -> Vec<&str> {
    let kind = |grapheme: &str| match grapheme.chars().next() {
        Some(character) if character.is_alphanumeric() || character == '_' => 1,
        Some(character) if character.is_whitespace() => 2,
        _ => 0,
    };
    let mut words = Vec::new();
    let mut from = 0;
    let mut last = 0;
    for (at, grapheme) in line.grapheme_indices(true) {
        let this = kind(grapheme);
        if at > from && (this != last || this == 0) {
            words.push(&line[from..at]);
            from = at;
        }
        last = this;
    }
    if from < line.len() {
        words.push(&line[from..]);
    }
    words
}

fn common_prefix_len<'a>(
    old: impl Iterator<Item = &'a &'a str>,
    new: impl Iterator<Item = &'a &'a str>,
) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// The longest common subsequence, as pairs of indices.
fn longest_common_subsequence(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let (height, width) = (old.len() + 1, new.len() + 1);
    if height * width > MAX_TABLE_CELLS {
        return Vec::new();
    }
    // `longest[row * width + column]`: length for the suffixes from these indices on.
    let mut longest = vec![0_u16; height * width];
    for row in (0..old.len()).rev() {
        for column in (0..new.len()).rev() {
            longest[row * width + column] = if old[row] == new[column] {
                longest[(row + 1) * width + column + 1] + 1
            } else {
                longest[(row + 1) * width + column].max(longest[row * width + column + 1])
            };
        }
    }
    let mut pairs = Vec::new();
    let (mut row, mut column) = (0, 0);
    while row < old.len() && column < new.len() {
        if old[row] == new[column] {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if longest[(row + 1) * width + column] >= longest[row * width + column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}
