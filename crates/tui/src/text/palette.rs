//! Maps parts of code to the sixteen ANSI colours.
//!
//! No other colours are used: these come from the user's own palette, and so fit the background.

use ratatui::style::{Color, Modifier, Style};
use syntect::parsing::Scope;

use crate::theme::{Look, Theme};

/// The kind of a part of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
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
const RULES: &[(&str, Part)] = &[
    ("comment", Part::Comment),
    ("punctuation.definition.comment", Part::Comment),
    ("meta.interpolation", Part::Plain),
    ("meta.template.expression", Part::Plain),
    ("meta.mapping.key", Part::Key),
    ("string.unquoted.plain.out", Part::Plain),
    ("constant.character.escape", Part::Value),
    ("string", Part::Text),
    ("constant", Part::Value),
    ("keyword.operator.word", Part::Keyword),
    ("keyword.operator.logical.python", Part::Keyword),
    ("keyword.operator", Part::Plain),
    ("keyword", Part::Keyword),
    ("storage", Part::Keyword),
    ("variable.language", Part::Keyword),
    ("entity.name.function", Part::Function),
    ("entity.name.macro", Part::Function),
    ("support.function", Part::Function),
    ("support.macro", Part::Function),
    ("variable.function", Part::Function),
    ("entity.name.tag", Part::Keyword),
    ("entity.other.attribute-name", Part::Type),
    ("entity.name.type", Part::Type),
    ("entity.name.class", Part::Type),
    ("entity.name.struct", Part::Type),
    ("entity.name.enum", Part::Type),
    ("entity.name.trait", Part::Type),
    ("entity.name.impl", Part::Type),
    ("entity.other.inherited-class", Part::Type),
    ("support.type.property-name", Part::Key),
    ("support.type", Part::Type),
    ("support.class", Part::Type),
    ("markup.heading", Part::Heading),
    ("entity.name.section", Part::Heading),
    ("markup.bold", Part::Strong),
    ("markup.raw", Part::Text),
    ("markup.inserted", Part::Added),
    ("markup.deleted", Part::Removed),
    ("meta.diff.range", Part::Hunk),
    ("meta.diff.header", Part::Hunk),
];

/// The rules with parsed scopes.
#[derive(Debug)]
pub(super) struct Palette {
    rules: Vec<(Scope, Part)>,
    key: Option<Scope>,
}

impl Palette {
    pub(super) fn new() -> Self {
        let scope = |name: &str| Scope::new(name).ok();
        Self {
            rules: RULES
                .iter()
                .filter_map(|(name, part)| Some((scope(name)?, *part)))
                .collect(),
            key: scope("meta.mapping.key"),
        }
    }

    /// The meaning of the innermost scope that matches a rule.
    pub(super) fn part(&self, stack: &[Scope]) -> Part {
        let found = stack.iter().rev().find_map(|scope| {
            self.rules
                .iter()
                .find(|(prefix, _)| prefix.is_prefix_of(*scope))
                .map(|(_, part)| *part)
        });
        match found {
            Some(Part::Text) if self.is_key(stack) => Part::Key,
            Some(part) => part,
            None => Part::Plain,
        }
    }

    /// Whether a string is the key of a mapping.
    fn is_key(&self, stack: &[Scope]) -> bool {
        self.key
            .is_some_and(|key| stack.iter().any(|scope| key.is_prefix_of(*scope)))
    }
}

impl Part {
    pub(super) fn style(self, theme: &Theme) -> Style {
        let colour = |dark: Color, light: Color| match theme.look {
            Look::Dark => theme.text.fg(dark),
            Look::Light => theme.text.fg(light),
            Look::Plain => theme.text,
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
