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
    pub(crate) target: CompletionTarget,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CompletionRow {
    pub(crate) label: String,
    pub(crate) description: String,
    /// Indices of the label's `char`s that match the query.
    pub(crate) matched: Vec<u32>,
    /// The text to insert.
    pub(crate) insertion: String,
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
        let is_word_end = after.chars().next().is_none_or(char::is_whitespace);
        if let Some(command) = before.strip_prefix('/').filter(|_| is_first_line) {
            let Some((name, argument)) = command.split_once(' ') else {
                let is_name = !command.contains(|ch: char| ch == '/' || ch.is_whitespace());
                return (is_name && is_word_end).then(|| Self::Command(command.to_owned()));
            };
            let mut names = ["load", "model", "attach"].into_iter();
            if let Some(name) = names.find(|known| *known == name && after.trim().is_empty()) {
                return Some(Self::Argument(name, argument.trim_start().to_owned()));
            }
        }
        let (left, word) = before.rsplit_once('@').filter(|_| is_word_end)?;
        let is_start = left.is_empty()
            || left.ends_with(|ch: char| ch.is_whitespace() || "([{\"'`".contains(ch));
        let is_word = !word.contains(char::is_whitespace);
        (is_start && is_word).then(|| Self::File(word.to_owned()))
    }

    /// Number of characters before the cursor that a completion replaces.
    pub(crate) fn char_count(&self) -> usize {
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

/// The candidates that match a query, as their indices and those of the matching characters of
/// their names: first the candidates whose name starts with the query, then fuzzy matches of the
/// name and the description.
fn rank(candidates: &[(&str, &str)], query: &str) -> Vec<(usize, Vec<u32>)> {
    let starts_with_query = |index: &usize| candidates[*index].0.starts_with(query);
    let (first, others): (Vec<_>, Vec<_>) = (0..candidates.len()).partition(starts_with_query);
    let prefix = 0..u32::try_from(query.chars().count()).unwrap_or(0);
    let first = first
        .into_iter()
        .map(|index| (index, prefix.clone().collect()));
    let mut ranked: Vec<_> = first.collect();
    let texts = others.iter().map(|index| {
        let (name, description) = candidates[*index];
        format!("{name} {description}")
    });
    let mut finder = FuzzyFinder::new(texts.collect());
    finder.search(query);
    for (found, mut matched) in finder.best() {
        let index = others[found];
        let length = candidates[index].0.chars().count();
        matched.retain(|character| (*character as usize) < length);
        ranked.push((index, matched));
    }
    ranked
}

/// Commands that start with a word, then those that contain its characters.
pub(crate) fn complete_command(word: &str) -> Vec<CompletionRow> {
    let names: Vec<_> = SLASH_COMMANDS
        .iter()
        .map(|known| (known.name, ""))
        .collect();
    let row = |(index, matched): (usize, Vec<u32>)| {
        let SlashCommandInfo {
            name,
            argument,
            about,
        } = SLASH_COMMANDS[index];
        let label = format!("/{name} {argument}").trim_end().to_owned();
        CompletionRow {
            insertion: match argument {
                "" => label.clone(),
                _ => format!("/{name} "),
            },
            label,
            description: about.to_owned(),
            matched: matched.into_iter().map(|index| index + 1).collect(),
        }
    };
    rank(&names, word).into_iter().map(row).collect()
}

/// Arguments of a command. Both the name and the description are matched.
pub(crate) fn complete_argument(known: &[(String, String)], word: &str) -> Vec<CompletionRow> {
    let known: Vec<_> = known
        .iter()
        .map(|(name, about)| (name.as_str(), about.as_str()))
        .collect();
    let row = |(index, matched): (usize, Vec<u32>)| CompletionRow {
        label: one_line(known[index].0),
        description: one_line(known[index].1),
        matched,
        insertion: one_line(known[index].0),
    };
    let ranked = rank(&known, word).into_iter();
    ranked.take(MAX_COMPLETIONS).map(row).collect()
}

/// The best matches among the files searched so far.
pub(crate) fn complete_file(finder: &mut FuzzyFinder, query: &str) -> Vec<CompletionRow> {
    finder.search(query);
    let best = finder.best().into_iter().take(MAX_COMPLETIONS);
    let row = |(index, matched)| {
        let path = finder.path(index);
        let label = one_line(path);
        CompletionRow {
            insertion: if label.contains(' ') {
                format!("@\"{label}\" ")
            } else {
                format!("@{label} ")
            },
            // Removed characters would shift the indices.
            matched: if label == path { matched } else { Vec::new() },
            description: String::new(),
            label,
        }
    };
    best.map(row).collect()
}

fn one_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_completion_target_is_read_at_the_cursor() {
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
    fn commands_match_by_prefix_then_fuzzily() {
        fn check(word: &str, expect: &[&str]) {
            let rows = complete_command(word);
            let words: Vec<_> = rows.iter().map(|row| row.insertion.as_str()).collect();
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
    fn arguments_match_by_name_and_description() {
        let known = [
            ("20260101", "fix the parser"),
            ("20260202", "write the letter"),
        ];
        let known = known.map(|(name, about)| (name.to_owned(), about.to_owned()));
        let check = |word: &str, expect: &[&str]| {
            let rows = complete_argument(&known, word);
            let words: Vec<_> = rows.iter().map(|row| row.insertion.as_str()).collect();
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
            complete_file(&mut finder, "notes")[0].insertion,
            "@\"my notes.md\" "
        );
        let row = &complete_file(&mut finder, "31")[0];
        assert!(!row.insertion.contains('\u{1b}') && row.matched.is_empty());
    }
}
