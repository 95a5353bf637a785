//! Styles by meaning. With [`ColourScheme::Plain`] there are only bold, dim and reverse. No meaning is
//! expressed by style alone: the text always says it too.

use ratatui::style::{Color, Modifier, Style};

use crate::text::SyntaxColours;

/// The colours of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColourScheme {
    #[default]
    Dark,
    Light,
    /// No colours at all.
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Theme {
    pub(crate) scheme: ColourScheme,
    pub(crate) text: Style,
    pub(crate) dim: Style,
    pub(crate) accent: Style,
    pub(crate) person: Style,
    pub(crate) heading: Style,
    pub(crate) strong: Style,
    pub(crate) emphasis: Style,
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) good: Style,
    pub(crate) bad: Style,
    pub(crate) warn: Style,
    pub(crate) added: Style,
    pub(crate) removed: Style,
    pub(crate) hunk: Style,
    pub(crate) selected: Style,
    pub(crate) current_match: Style,
    pub(crate) border: Style,
    pub(crate) status: Style,
    /// Syntax colours. Without them, code is plain.
    pub(crate) colours: Option<&'static SyntaxColours>,
}

impl Theme {
    pub(crate) fn new(scheme: ColourScheme) -> Self {
        let plain = Style::new();
        let colour = |dark: Color, light: Color| match scheme {
            ColourScheme::Dark => plain.fg(dark),
            ColourScheme::Light => plain.fg(light),
            ColourScheme::Plain => plain,
        };
        let bold = Modifier::BOLD;
        Self {
            scheme,
            text: plain,
            // Not a grey of the palette: in some palettes it is the background.
            dim: plain.add_modifier(Modifier::DIM),
            accent: colour(Color::Cyan, Color::Blue).add_modifier(bold),
            person: colour(Color::Cyan, Color::Blue),
            heading: colour(Color::Cyan, Color::Blue).add_modifier(bold),
            strong: plain.add_modifier(bold),
            emphasis: plain.add_modifier(Modifier::ITALIC),
            code: colour(Color::Yellow, Color::Magenta),
            link: colour(Color::Blue, Color::Blue).add_modifier(Modifier::UNDERLINED),
            good: colour(Color::Green, Color::Green),
            bad: colour(Color::Red, Color::Red),
            warn: colour(Color::Yellow, Color::Magenta),
            added: colour(Color::Green, Color::Green),
            removed: colour(Color::Red, Color::Red),
            hunk: colour(Color::Cyan, Color::Blue),
            selected: plain.add_modifier(Modifier::REVERSED),
            current_match: plain.add_modifier(Modifier::REVERSED | bold),
            border: plain.add_modifier(Modifier::DIM),
            status: plain,
            colours: None,
        }
    }
}
