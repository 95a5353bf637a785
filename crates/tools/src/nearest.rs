//! Explains why a text was not found: the most similar lines of the file, and how they differ.

use std::collections::HashSet;
use std::fmt::Write;

/// Lines of the wanted text that are compared and shown.
const MAX_COMPARED_LINES: usize = 40;

/// Lines of the file that are compared.
const MAX_SEARCHED_LINES: usize = 200_000;

/// Longer lines are cut to this many bytes.
const MAX_LINE_BYTES: usize = 300;

/// Minimum similarity, from 0 to 1, of a line that is shown.
const MIN_SIMILARITY: f64 = 0.5;

/// The message for a model whose `old` text is not in the file.
pub(crate) fn explain_not_found(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().take(MAX_COMPARED_LINES).collect();
    let lines: Vec<&str> = text.split('\n').take(MAX_SEARCHED_LINES).collect();
    let Some(first) = find_nearest(&lines, &wanted) else {
        return "`old` is not in the file, nor anything like it: read the file again".to_owned();
    };
    let there = &lines[first..lines.len().min(first + wanted.len())];
    let mut message = format!(
        "`old` is not in the file. Nearest are lines {} to {} (`-` is `old`, `+` the file):\n",
        first + 1,
        first + there.len()
    );
    let mut reasons = Vec::new();
    for (at, old) in wanted.iter().copied().enumerate() {
        let file = there.get(at);
        let file = file.map(|line| line.strip_suffix('\r').unwrap_or(line));
        if file == Some(old) {
            let _ = writeln!(message, "  {}", truncate_line(old));
            continue;
        }
        let _ = writeln!(message, "- {}", truncate_line(old));
        if let Some(file) = file {
            let _ = writeln!(message, "+ {}", truncate_line(file));
            if let Some(reason) = line_difference(old, file)
                && !reasons.contains(&reason)
            {
                reasons.push(reason);
            }
        }
    }
    if reasons.is_empty()
        && there
            .iter()
            .zip(&wanted)
            .all(|(file, old)| file.trim_end_matches('\r') == *old)
    {
        reasons.push("the lines are the same: the difference is in their ends (CRLF, or the newline at the end)");
    }
    if !reasons.is_empty() {
        let _ = writeln!(message, "difference: {}", reasons.join("; "));
    }
    message.truncate(message.trim_end().len());
    message
}

/// Index of the first line of the most similar place.
fn find_nearest(lines: &[&str], wanted: &[&str]) -> Option<usize> {
    let plain: Vec<String> = wanted.iter().map(|line| plain(line)).collect();
    // Lines with content. The place with the most equal lines is chosen.
    let anchors: Vec<(usize, &str)> = plain
        .iter()
        .enumerate()
        .filter(|(_, line)| line.len() > 2)
        .map(|(at, line)| (at, line.as_str()))
        .collect();
    let mut scores = vec![0u32; lines.len()];
    for (at, line) in lines.iter().enumerate() {
        let line = self::plain(line);
        for (offset, _) in anchors.iter().filter(|(_, anchor)| *anchor == line) {
            if let Some(first) = at.checked_sub(*offset) {
                scores[first] += 1;
            }
        }
    }
    let best = scores
        .iter()
        .enumerate()
        .rev()
        .max_by_key(|(_, score)| **score);
    if let Some((first, score)) = best
        && *score > 0
    {
        return Some(first);
    }
    // No line is equal: use the line that is most similar to the longest wanted one.
    let (offset, anchor) = anchors.iter().max_by_key(|(_, line)| line.len())?;
    let pairs = pairs(anchor);
    let (similarity, at) = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.len() < 4 * anchor.len() + 80)
        .map(|(at, line)| (similarity(&pairs, &self::plain(line)), at))
        .max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)))?;
    (similarity >= MIN_SIMILARITY).then(|| at.saturating_sub(*offset))
}

/// A line with normalised whitespace and typographic characters replaced by ASCII.
fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.extend(word.chars().map(ascii_lookalike));
    }
    plain
}

/// The ASCII character that looks like this one.
fn ascii_lookalike(character: char) -> char {
    match character {
        '\u{2018}' | '\u{2019}' | '\u{201b}' => '\'',
        '\u{201c}' | '\u{201d}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{202f}' => ' ',
        other => other,
    }
}

/// Why two lines with the same content differ.
fn line_difference(old: &str, file: &str) -> Option<&'static str> {
    let indent = |line: &str| line[..line.len() - line.trim_start().len()].to_owned();
    let without = |line: &str| -> String { line.split_whitespace().collect() };
    if old.trim_end() == file.trim_end() {
        return Some(if old.len() > file.len() {
            "`old` has blanks at the end of a line"
        } else {
            "the file has blanks at the end of a line"
        });
    }
    if old.trim() == file.trim() {
        return Some(
            match (indent(old).contains('\t'), indent(file).contains('\t')) {
                (false, true) => "the file is indented with tabs, `old` with spaces",
                (true, false) => "the file is indented with spaces, `old` with tabs",
                _ => "the indentation",
            },
        );
    }
    if without(old) == without(file) {
        return Some("blanks within a line");
    }
    (plain(old) == plain(file))
        .then_some("typographic quotes, dashes or blanks in place of plain ones")
}

fn pairs(text: &str) -> HashSet<[u8; 2]> {
    text.as_bytes()
        .windows(2)
        .map(|pair| [pair[0], pair[1]])
        .collect()
}

/// The share of byte pairs that two lines have in common, from 0 to 1.
fn similarity(pairs: &HashSet<[u8; 2]>, other: &str) -> f64 {
    let others = self::pairs(other);
    let common = pairs.intersection(&others).count();
    2.0 * common as f64 / (pairs.len() + others.len()).max(1) as f64
}

fn truncate_line(line: &str) -> &str {
    &line[..line.floor_char_boundary(MAX_LINE_BYTES)]
}
