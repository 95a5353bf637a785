//! Completions for the word at the cursor. Pure.

use super::fuzzy_finder::FuzzyFinder;
use crate::command::{SLASH_COMMANDS, SlashCommandInfo};
use crate::text::clean;

const MAX_COMPLETIONS: usize = 50;

/// Rows to choose from, drawn above the editor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Completion {
    pub(crate) rows: Vec<CompletionRow>,
    pub(crate) selected: usize,
    pub(crate) wanted: CompletionTarget,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CompletionRow {
    pub(crate) label: String,
    pub(crate) description: String,
    /// Indices of the label's `char`s that match the query.
    pub(crate) matched: Vec<u32>,
    /// The text to insert.
    pub(crate) words: String,
}

/// What is being completed at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompletionTarget {
    /// The name of a command as typed so far, without its slash.
    Command(String),
    /// A command and its argument as typed so far.
    Argument(&'static str, String),
    /// A path as typed so far, without its `@`.
    File(String),
}

impl CompletionTarget {
    /// Parses the line of the cursor, split at the cursor.
    pub(crate) fn read(before: &str, after: &str, is_first_line: bool) -> Option<Self> {
        let is_at_end = after.chars().next().is_none_or(char::is_whitespace);
        let command = before.strip_prefix('/').filter(|_| is_first_line);
        match command.map(|command| command.split_once(' ')) {
            Some(None) => {
                let name = command.unwrap_or_default();
                let is_name =
                    !name.contains(|letter: char| letter == '/' || letter.is_whitespace());
                return (is_name && is_at_end).then(|| Self::Command(name.to_owned()));
            }
            Some(Some((name, argument))) => {
                let known = SLASH_COMMANDS.iter().find(|known| known.name == name);
                let takes = known.filter(|known| ["load", "model", "attach"].contains(&known.name));
                if let Some(known) = takes.filter(|_| after.trim().is_empty()) {
                    return Some(Self::Argument(known.name, argument.trim_start().to_owned()));
                }
            }
            None => {}
        }
        let place = before.rfind('@').filter(|_| is_at_end)?;
        let (left, word) = (&before[..place], &before[place + 1..]);
        let is_start = left
            .chars()
            .next_back()
            .is_none_or(|letter| letter.is_whitespace() || "([{\"'`".contains(letter));
        let is_word = !word.contains(char::is_whitespace);
        (is_start && is_word).then(|| Self::File(word.to_owned()))
    }

    /// Number of characters before the cursor that a completion replaces.
    pub(crate) fn letters(&self) -> usize {
        match self {
            Self::Command(word) | Self::File(word) => word.chars().count() + 1,
            Self::Argument(_, word) => word.chars().count(),
        }
    }

    /// Whether both complete the same thing; the text typed so far may differ.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Argument(one, _), Self::Argument(other, _)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// Commands that start with a word, then those that contain its letters.
pub(crate) fn complete_command(word: &str) -> Vec<CompletionRow> {
    let row = |slash: &SlashCommandInfo, matched: Vec<u32>| CompletionRow {
        label: match slash.argument {
            "" => format!("/{}", slash.name),
            argument => format!("/{} {argument}", slash.name),
        },
        description: slash.about.to_owned(),
        matched: matched.into_iter().map(|place| place + 1).collect(),
        words: match slash.argument {
            "" => format!("/{}", slash.name),
            _ => format!("/{} ", slash.name),
        },
    };
    let begun = SLASH_COMMANDS
        .iter()
        .filter(|slash| slash.name.starts_with(word));
    let mut rows: Vec<CompletionRow> = begun
        .map(|slash| row(slash, (0..u32::try_from(word.len()).unwrap_or(0)).collect()))
        .collect();
    let others = SLASH_COMMANDS
        .iter()
        .filter(|slash| !slash.name.starts_with(word));
    let mut finder = FuzzyFinder::new(others.map(|slash| slash.name.to_owned()).collect());
    finder.look_for(word);
    for (place, matched) in finder.best() {
        let slash = SLASH_COMMANDS
            .iter()
            .find(|slash| slash.name == finder.path(place));
        rows.extend(slash.map(|slash| row(slash, matched)));
    }
    rows
}

/// Arguments of a command. Both the name and the description are matched.
pub(crate) fn complete_argument(known: &[(String, String)], word: &str) -> Vec<CompletionRow> {
    let row = |(name, about): &(String, String), matched: Vec<u32>| CompletionRow {
        label: one_line(name),
        description: one_line(about),
        matched,
        words: one_line(name),
    };
    let begun = |(name, _): &&(String, String)| name.starts_with(word);
    let letters = u32::try_from(word.chars().count()).unwrap_or(0);
    let mut rows: Vec<CompletionRow> = known
        .iter()
        .filter(begun)
        .map(|known| row(known, (0..letters).collect()))
        .collect();
    let others: Vec<_> = known.iter().filter(|known| !begun(known)).collect();
    let both = others.iter().map(|(name, about)| format!("{name} {about}"));
    let mut finder = FuzzyFinder::new(both.collect());
    finder.look_for(word);
    for (place, matched) in finder.best() {
        let known = others[place];
        let end = u32::try_from(known.0.chars().count()).unwrap_or(0);
        let matched = matched.into_iter().filter(|place| *place < end).collect();
        rows.push(row(known, matched));
    }
    rows.truncate(MAX_COMPLETIONS);
    rows
}

/// The best matches among the files searched so far.
pub(crate) fn complete_file(finder: &mut FuzzyFinder, letters: &str) -> Vec<CompletionRow> {
    finder.look_for(letters);
    let mut rows = Vec::new();
    for (place, matched) in finder.best() {
        let path = finder.path(place);
        let label = one_line(path);
        rows.push(CompletionRow {
            words: if label.contains(' ') {
                format!("@\"{label}\" ")
            } else {
                format!("@{label} ")
            },
            // Removed characters would shift the indices.
            matched: if label == path { matched } else { Vec::new() },
            description: String::new(),
            label,
        });
    }
    rows.truncate(MAX_COMPLETIONS);
    rows
}

fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_tells_what_is_wanted() {
        fn check(before: &str, after: &str, expect: Option<CompletionTarget>) {
            assert_eq!(
                CompletionTarget::read(before, after, true),
                expect,
                "{before}|{after}"
            );
        }
        let command = |word: &str| Some(CompletionTarget::Command(word.to_owned()));
        let file = |word: &str| Some(CompletionTarget::File(word.to_owned()));
        check("/", "", command(""));
        check("/un", "", command("un"));
        check("/un", "do", None);
        check("/usr/bin", "", None);
        check("//un", "", None);
        check(" /un", "", None);
        check(
            "/load 2",
            "",
            Some(CompletionTarget::Argument("load", "2".to_owned())),
        );
        check(
            "/model ",
            "",
            Some(CompletionTarget::Argument("model", String::new())),
        );
        check("/model a", "b", None);
        check("/export @", "", file(""));
        check("see @src", "", file("src"));
        check("see (@src", " and", file("src"));
        check("see @src", "/x", None);
        check("see @src and", "", None);
        check("me@example.com", "", None);
        check("words", "", None);
        assert_eq!(CompletionTarget::read("/un", "", false), None);
    }

    #[test]
    fn commands_are_offered_by_their_beginning_then_by_their_letters() {
        fn check(word: &str, expect: &[&str]) {
            let rows = complete_command(word);
            let words: Vec<_> = rows.iter().map(|row| row.words.as_str()).collect();
            assert_eq!(words, expect, "{word}");
        }
        check("co", &["/continue", "/cost", "/compact", "/copy"]);
        check("ud", &["/undo"]);
        check("load", &["/load "]);
        check("xyz", &[]);
        assert_eq!(complete_command("").len(), SLASH_COMMANDS.len());
        assert_eq!(complete_command("ud")[0].matched, [1, 3]);
    }

    #[test]
    fn arguments_are_offered_by_name_and_by_description() {
        let known = [
            ("20260101", "fix the parser"),
            ("20260202", "write the letter"),
        ];
        let known = known.map(|(name, about)| (name.to_owned(), about.to_owned()));
        let check = |word: &str, expect: &[&str]| {
            let rows = complete_argument(&known, word);
            let words: Vec<_> = rows.iter().map(|row| row.words.as_str()).collect();
            assert_eq!(words, expect, "{word}");
        };
        check("", &["20260101", "20260202"]);
        check("202602", &["20260202"]);
        check("parser", &["20260101"]);
        check("nothing", &[]);
    }

    #[test]
    fn paths_with_spaces_are_quoted() {
        let mut finder =
            FuzzyFinder::new(vec!["my notes.md".to_owned(), "a\u{1b}[31mb".to_owned()]);
        assert_eq!(
            complete_file(&mut finder, "notes")[0].words,
            "@\"my notes.md\" "
        );
        let row = &complete_file(&mut finder, "31")[0];
        assert!(!row.words.contains('\u{1b}') && row.matched.is_empty());
    }
}
