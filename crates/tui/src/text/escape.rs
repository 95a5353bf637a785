//! Finds control sequences. Their content is dropped, except for styles.
//!
//! No sequence extends over the end of a line: an unfinished one hides at most the rest of its
//! line, and every line can be processed alone. Entry type: [`EscapeScanner`].

/// Longer parameters are not taken for a style.
const MAX_PARAMETER_BYTES: usize = 64;

/// The meaning of a scanned character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScannedChar {
    /// Part of a sequence, or a control character that is dropped.
    Nothing,
    /// A character of the text. The only control characters among them: `
    /// `, `\r`, `\t` and backspace.
    Letter(char),
    /// The end of a sequence that sets a style: see [`EscapeScanner::parameters`].
    Style,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScannerState {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// Between ESC and the final byte of a sequence such as the choice of a character set.
    Between,
    /// After ESC `[`.
    Control,
    /// After ESC `[`, in a sequence that is not a style.
    OtherControl,
    /// In a control string: a title, an image, a link.
    String,
    /// After an ESC in a control string, which may be its end.
    StringEscape,
}

/// Reads character by character, so that it does not matter where a text was cut into pieces.
#[derive(Debug, Clone, Default)]
pub(super) struct EscapeScanner {
    state: ScannerState,
    parameters: String,
}

impl EscapeScanner {
    pub(super) fn is_in_text(&self) -> bool {
        self.state == ScannerState::Text
    }

    /// Parameters of the last style, such as `1;31`.
    pub(super) fn parameters(&self) -> &str {
        &self.parameters
    }

    pub(super) fn take(&mut self, character: char) -> ScannedChar {
        if character == '\n' {
            self.state = ScannerState::Text;
            return ScannedChar::Letter('\n');
        }
        match self.state {
            ScannerState::Text => self.text(character),
            ScannerState::Escape => self.escape(character),
            ScannerState::Between => match character {
                ' '..='/' => ScannedChar::Nothing,
                '0'..='~' => self.end(),
                other => self.text(other),
            },
            ScannerState::Control | ScannerState::OtherControl => self.control(character),
            ScannerState::String => match character {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.end(),
                '\u{1b}' => self.enter(ScannerState::StringEscape),
                _ => ScannedChar::Nothing,
            },
            ScannerState::StringEscape => match character {
                '\\' => self.end(),
                other => self.escape(other),
            },
        }
    }

    fn text(&mut self, character: char) -> ScannedChar {
        match character {
            '\u{1b}' => self.enter(ScannerState::Escape),
            '\u{9b}' => self.begin_csi(),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => {
                self.enter(ScannerState::String)
            }
            _ => {
                self.state = ScannerState::Text;
                match character {
                    '\t' | '\r' | '\u{8}' => ScannedChar::Letter(character),
                    control if control.is_control() => ScannedChar::Nothing,
                    character => ScannedChar::Letter(character),
                }
            }
        }
    }

    fn escape(&mut self, character: char) -> ScannedChar {
        match character {
            '[' => self.begin_csi(),
            ']' | 'P' | 'X' | '^' | '_' => self.enter(ScannerState::String),
            ' '..='/' => self.enter(ScannerState::Between),
            '0'..='~' => self.end(),
            other => self.text(other),
        }
    }

    fn control(&mut self, character: char) -> ScannedChar {
        match character {
            '0'..='9' | ';' | ':' if self.parameters.len() < MAX_PARAMETER_BYTES => {
                self.parameters.push(character);
                ScannedChar::Nothing
            }
            ' '..='?' => self.enter(ScannerState::OtherControl),
            '@'..='~' => {
                let is_style = character == 'm' && self.state == ScannerState::Control;
                self.state = ScannerState::Text;
                if is_style {
                    ScannedChar::Style
                } else {
                    ScannedChar::Nothing
                }
            }
            other => self.text(other),
        }
    }

    fn begin_csi(&mut self) -> ScannedChar {
        self.parameters.clear();
        self.enter(ScannerState::Control)
    }

    fn enter(&mut self, state: ScannerState) -> ScannedChar {
        self.state = state;
        ScannedChar::Nothing
    }

    fn end(&mut self) -> ScannedChar {
        self.enter(ScannerState::Text)
    }
}
