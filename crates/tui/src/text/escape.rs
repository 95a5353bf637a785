//! Finds control sequences. Their content is dropped, except for styles.
//!
//! No sequence extends over the end of a line: an unfinished one hides at most the rest of its
//! line, and every line can be processed alone. Entry type: [`Scanner`].

/// Longer parameters are not taken for a style.
const MOST_PARAMETERS: usize = 64;

/// The meaning of a scanned character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Part of a sequence, or a control character that is dropped.
    Nothing,
    /// A character of the text. The only control characters among them: `
    /// `, `\r`, `\t` and backspace.
    Letter(char),
    /// The end of a sequence that sets a style: see [`Scanner::parameters`].
    Style,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
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
pub(super) struct Scanner {
    state: State,
    parameters: String,
}

impl Scanner {
    pub(super) fn is_in_text(&self) -> bool {
        self.state == State::Text
    }

    /// Parameters of the last style, such as `1;31`.
    pub(super) fn parameters(&self) -> &str {
        &self.parameters
    }

    pub(super) fn take(&mut self, letter: char) -> Seen {
        if letter == '\n' {
            self.state = State::Text;
            return Seen::Letter('\n');
        }
        match self.state {
            State::Text => self.text(letter),
            State::Escape => self.escape(letter),
            State::Between => match letter {
                ' '..='/' => Seen::Nothing,
                '0'..='~' => self.end(),
                other => self.text(other),
            },
            State::Control | State::OtherControl => self.control(letter),
            State::String => match letter {
                '\u{7}' | '\u{18}' | '\u{1a}' | '\u{9c}' => self.end(),
                '\u{1b}' => self.go(State::StringEscape),
                _ => Seen::Nothing,
            },
            State::StringEscape => match letter {
                '\\' => self.end(),
                other => self.escape(other),
            },
        }
    }

    fn text(&mut self, letter: char) -> Seen {
        match letter {
            '\u{1b}' => self.go(State::Escape),
            '\u{9b}' => self.begin_control(),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.go(State::String),
            _ => {
                self.state = State::Text;
                match letter {
                    '\t' | '\r' | '\u{8}' => Seen::Letter(letter),
                    control if control.is_control() => Seen::Nothing,
                    letter => Seen::Letter(letter),
                }
            }
        }
    }

    fn escape(&mut self, letter: char) -> Seen {
        match letter {
            '[' => self.begin_control(),
            ']' | 'P' | 'X' | '^' | '_' => self.go(State::String),
            ' '..='/' => self.go(State::Between),
            '0'..='~' => self.end(),
            other => self.text(other),
        }
    }

    fn control(&mut self, letter: char) -> Seen {
        match letter {
            '0'..='9' | ';' | ':' if self.parameters.len() < MOST_PARAMETERS => {
                self.parameters.push(letter);
                Seen::Nothing
            }
            ' '..='?' => self.go(State::OtherControl),
            '@'..='~' => {
                let is_style = letter == 'm' && self.state == State::Control;
                self.state = State::Text;
                if is_style { Seen::Style } else { Seen::Nothing }
            }
            other => self.text(other),
        }
    }

    fn begin_control(&mut self) -> Seen {
        self.parameters.clear();
        self.go(State::Control)
    }

    fn go(&mut self, state: State) -> Seen {
        self.state = state;
        Seen::Nothing
    }

    fn end(&mut self) -> Seen {
        self.go(State::Text)
    }
}
