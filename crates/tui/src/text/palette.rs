//! Maps parts of code to the sixteen ANSI colours.
//!
//! No other colours are used: these come from the user's own palette, and so fit the background.

use ratatui::style::{Color, Modifier, Style};
use syntect::parsing::Scope;

use crate::theme::{ColourScheme, Theme};

/// The kind of a part of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeTokenKind {
    Plain,
    Comment,
    Text,
    Key,
    Value,
    Keyword,
    Function,
    Type,
    Heading,
    Strong,
    Added,
    Removed,
    Hunk,
}

/// Scope prefixes with their meaning; the first match counts.
const SCOPE_RULES: &[(&str, CodeTokenKind)] = &[
    ("comment", CodeTokenKind::Comment),
    ("punctuation.definition.comment", CodeTokenKind::Comment),
    ("meta.interpolation", CodeTokenKind::Plain),
    ("meta.template.expression", CodeTokenKind::Plain),
    ("meta.mapping.key", CodeTokenKind::Key),
    ("string.unquoted.plain.out", CodeTokenKind::Plain),
    ("constant.character.escape", CodeTokenKind::Value),
    ("string", CodeTokenKind::Text),
    ("constant", CodeTokenKind::Value),
    ("keyword.operator.word", CodeTokenKind::Keyword),
    ("keyword.operator.logical.python", CodeTokenKind::Keyword),
    ("keyword.operator", CodeTokenKind::Plain),
    ("keyword", CodeTokenKind::Keyword),
    ("storage", CodeTokenKind::Keyword),
    ("variable.language", CodeTokenKind::Keyword),
    ("entity.name.function", CodeTokenKind::Function),
    ("entity.name.macro", CodeTokenKind::Function),
    ("support.function", CodeTokenKind::Function),
    ("support.macro", CodeTokenKind::Function),
    ("variable.function", CodeTokenKind::Function),
    ("entity.name.tag", CodeTokenKind::Keyword),
    ("entity.other.attribute-name", CodeTokenKind::Type),
    ("entity.name.type", CodeTokenKind::Type),
    ("entity.name.class", CodeTokenKind::Type),
    ("entity.name.struct", CodeTokenKind::Type),
    ("entity.name.enum", CodeTokenKind::Type),
    ("entity.name.trait", CodeTokenKind::Type),
    ("entity.name.impl", CodeTokenKind::Type),
    ("entity.other.inherited-class", CodeTokenKind::Type),
    ("support.type.property-name", CodeTokenKind::Key),
    ("support.type", CodeTokenKind::Type),
    ("support.class", CodeTokenKind::Type),
    ("markup.heading", CodeTokenKind::Heading),
    ("entity.name.section", CodeTokenKind::Heading),
    ("markup.bold", CodeTokenKind::Strong),
    ("markup.raw", CodeTokenKind::Text),
    ("markup.inserted", CodeTokenKind::Added),
    ("markup.deleted", CodeTokenKind::Removed),
    ("meta.diff.range", CodeTokenKind::Hunk),
    ("meta.diff.header", CodeTokenKind::Hunk),
];

/// The rules with parsed scopes.
#[derive(Debug)]
pub(super) struct ScopePalette {
    rules: Vec<(Scope, CodeTokenKind)>,
    key: Option<Scope>,
}

impl ScopePalette {
    pub(super) fn new() -> Self {
        let scope = |name: &str| Scope::new(name).ok();
        Self {
            rules: SCOPE_RULES
                .iter()
                .filter_map(|(name, part)| Some((scope(name)?, *part)))
                .collect(),
            key: scope("meta.mapping.key"),
        }
    }

    /// The meaning of the innermost scope that matches a rule.
    pub(super) fn part(&self, stack: &[Scope]) -> CodeTokenKind {
        let found = stack.iter().rev().find_map(|scope| {
            self.rules
                .iter()
                .find(|(prefix, _)| prefix.is_prefix_of(*scope))
                .map(|(_, part)| *part)
        });
        match found {
            Some(CodeTokenKind::Text) if self.is_key(stack) => CodeTokenKind::Key,
            Some(part) => part,
            None => CodeTokenKind::Plain,
        }
    }

    /// Whether a string is the key of a mapping.
    fn is_key(&self, stack: &[Scope]) -> bool {
        self.key
            .is_some_and(|key| stack.iter().any(|scope| key.is_prefix_of(*scope)))
    }
}

impl CodeTokenKind {
    pub(super) fn style(self, theme: &Theme) -> Style {
        let colour = |dark: Color, light: Color| match theme.scheme {
            ColourScheme::Dark => theme.text.fg(dark),
            ColourScheme::Light => theme.text.fg(light),
            ColourScheme::Plain => theme.text,
        };
        match self {
            Self::Plain => theme.text,
            Self::Comment => theme.dim,
            Self::Text => colour(Color::Green, Color::Green),
            Self::Key => colour(Color::LightBlue, Color::Blue),
            Self::Value => colour(Color::Cyan, Color::Red),
            Self::Keyword => colour(Color::Magenta, Color::Magenta),
            Self::Function => colour(Color::LightBlue, Color::Blue),
            Self::Type => colour(Color::Yellow, Color::Cyan),
            Self::Heading => theme.heading,
            Self::Strong => theme.text.add_modifier(Modifier::BOLD),
            Self::Added => theme.added,
            Self::Removed => theme.removed,
            Self::Hunk => theme.hunk,
        }
    }
}
