//! Converts the SGR styles of command output to styles of the UI. Output cannot hide text:
//! unreadable combinations of foreground and background lose their colours.
//!
//! Entry type: [`SgrStyle`].

use ratatui::style::{Color, Modifier, Style};

use crate::theme::ColourScheme;

/// The style set by the sequences so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct SgrStyle {
    foreground: Option<Color>,
    background: Option<Color>,
    modifiers: Modifier,
}

impl SgrStyle {
    /// Applies the parameters of one sequence, such as `1;38;5;196`.
    pub(super) fn apply(&mut self, parameters: &str) {
        let mut groups = parameters.split(';');
        while let Some(group) = groups.next() {
            let mut parts = group.split(':');
            let code = parse_number(parts.next());
            match code {
                0 => *self = Self::default(),
                4 if parts.next() == Some("0") => self.modifiers.remove(Modifier::UNDERLINED),
                1..=4 | 7 | 9 | 21 => self.modifiers.insert(sgr_modifier(code)),
                22 => self.modifiers.remove(Modifier::BOLD | Modifier::DIM),
                23 | 24 | 27 | 29 => self.modifiers.remove(sgr_modifier(code - 20)),
                30..=37 => self.foreground = Some(ansi_colour(code - 30)),
                39 => self.foreground = None,
                40..=47 => self.background = Some(ansi_colour(code - 40)),
                49 => self.background = None,
                90..=97 => self.foreground = Some(ansi_colour(code - 82)),
                100..=107 => self.background = Some(ansi_colour(code - 92)),
                38 | 48 | 58 => {
                    let colour = if group.contains(':') {
                        colour_of_parts(&parts.collect::<Vec<_>>())
                    } else {
                        colour_of_groups(&mut groups)
                    };
                    match code {
                        38 => self.foreground = colour.or(self.foreground),
                        48 => self.background = colour.or(self.background),
                        _ => {}
                    }
                }
                // Blinking, hidden text and other fonts are ignored.
                _ => {}
            }
        }
    }

    /// The style of the text, on top of a base style.
    pub(super) fn style(self, base: Style, scheme: ColourScheme) -> Style {
        if scheme == ColourScheme::Plain || self == Self::default() {
            return base;
        }
        let page = match scheme {
            ColourScheme::Light => (255, 255, 255),
            ColourScheme::Dark | ColourScheme::Plain => (0, 0, 0),
        };
        let background = self.background.map_or(page, rgb);
        let style = match (self.foreground, self.background) {
            (Some(foreground), _) if is_unreadable(rgb(foreground), background) => Style::new(),
            (Some(foreground), None) => Style::new().fg(foreground),
            (Some(foreground), Some(background)) => Style::new().fg(foreground).bg(background),
            (None, Some(colour)) if luminance(background) > 128 => {
                Style::new().fg(Color::Black).bg(colour)
            }
            (None, Some(colour)) => Style::new().fg(Color::White).bg(colour),
            (None, None) => Style::new(),
        };
        base.patch(style.add_modifier(self.modifiers))
    }
}

fn parse_number(text: Option<&str>) -> u16 {
    text.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn sgr_modifier(code: u16) -> Modifier {
    match code {
        1 => Modifier::BOLD,
        2 => Modifier::DIM,
        3 => Modifier::ITALIC,
        4 | 21 => Modifier::UNDERLINED,
        7 => Modifier::REVERSED,
        9 => Modifier::CROSSED_OUT,
        _ => Modifier::empty(),
    }
}

/// The sixteen ANSI colours.
const ANSI_COLOURS: [(Color, (u8, u8, u8)); 16] = [
    (Color::Black, (0, 0, 0)),
    (Color::Red, (205, 0, 0)),
    (Color::Green, (0, 205, 0)),
    (Color::Yellow, (205, 205, 0)),
    (Color::Blue, (0, 0, 238)),
    (Color::Magenta, (205, 0, 205)),
    (Color::Cyan, (0, 205, 205)),
    (Color::Gray, (229, 229, 229)),
    (Color::DarkGray, (127, 127, 127)),
    (Color::LightRed, (255, 0, 0)),
    (Color::LightGreen, (0, 255, 0)),
    (Color::LightYellow, (255, 255, 0)),
    (Color::LightBlue, (92, 92, 255)),
    (Color::LightMagenta, (255, 0, 255)),
    (Color::LightCyan, (0, 255, 255)),
    (Color::White, (255, 255, 255)),
];

fn ansi_colour(index: u16) -> Color {
    ANSI_COLOURS[usize::from(index) % ANSI_COLOURS.len()].0
}

fn indexed_colour(index: u16) -> Option<Color> {
    match index {
        0..=15 => Some(ansi_colour(index)),
        _ => u8::try_from(index).ok().map(Color::Indexed),
    }
}

/// Parses what follows `38;`: the kind, then its values, each in its own group.
fn colour_of_groups<'a>(groups: &mut impl Iterator<Item = &'a str>) -> Option<Color> {
    match parse_number(groups.next()) {
        5 => indexed_colour(parse_number(groups.next())),
        2 => {
            let mut value = || u8::try_from(parse_number(groups.next())).ok();
            let (red, green, blue) = (value(), value(), value());
            Some(Color::Rgb(red?, green?, blue?))
        }
        _ => None,
    }
}

/// Parses what follows `38:`: as above, but a colour space may precede the three values.
fn colour_of_parts(parts: &[&str]) -> Option<Color> {
    let value = |text: &&str| u8::try_from(parse_number(Some(text))).ok();
    match parts {
        ["5", index, ..] => indexed_colour(parse_number(Some(index))),
        ["2", red, green, blue] | ["2", _, red, green, blue, ..] => {
            Some(Color::Rgb(value(red)?, value(green)?, value(blue)?))
        }
        _ => None,
    }
}

/// Red, green and blue as shown by most terminals.
fn rgb(colour: Color) -> (u8, u8, u8) {
    match colour {
        Color::Rgb(red, green, blue) => (red, green, blue),
        Color::Indexed(index @ 232..) => {
            let grey = 8 + (index - 232) * 10;
            (grey, grey, grey)
        }
        Color::Indexed(index @ 16..) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
            let cube = index - 16;
            (level(cube / 36), level(cube / 6 % 6), level(cube % 6))
        }
        other => ANSI_COLOURS
            .iter()
            .find(|(name, _)| *name == other)
            .map_or((127, 127, 127), |(_, rgb)| *rgb),
    }
}

/// Brightness from 0 to 255.
fn luminance((red, green, blue): (u8, u8, u8)) -> u32 {
    (2126 * u32::from(red) + 7152 * u32::from(green) + 722 * u32::from(blue)) / 10_000
}

fn is_unreadable(foreground: (u8, u8, u8), background: (u8, u8, u8)) -> bool {
    let farthest = foreground
        .0
        .abs_diff(background.0)
        .max(foreground.1.abs_diff(background.1))
        .max(foreground.2.abs_diff(background.2));
    luminance(foreground).abs_diff(luminance(background)) < 32 && farthest < 96
}
