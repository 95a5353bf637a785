//! The grammar of terminal input: where a key, a mouse report or an answer ends, and what it means.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Heard, key};

/// The result of parsing the beginning of some bytes.
#[derive(Debug)]
pub(super) enum Parsed {
    /// More bytes are needed.
    Unfinished,
    /// A sequence of this many bytes, with the input that it means, if any.
    Done(usize, Option<Heard>),
    /// A start of a paste of this many bytes; the pasted text follows.
    Paste(usize),
}

const ESCAPE: u8 = 0x1b;
/// No known sequence is longer.
const LONGEST: usize = 128;

/// Parses the first sequence in `bytes`, which must not be empty.
pub(super) fn parse(bytes: &[u8], is_colour_expected: bool) -> Parsed {
    if bytes[0] != ESCAPE {
        return plain(bytes, KeyModifiers::NONE);
    }
    match bytes.get(1) {
        None => Parsed::Unfinished,
        Some(b'[') => control(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Parsed::Unfinished,
            Some(last) => match key::keypad(*last) {
                Some(key) => done(3, Some(key)),
                None => alt(bytes),
            },
        },
        Some(b']') if is_colour_expected => match colour(&bytes[2..]) {
            Colour::Unfinished => Parsed::Unfinished,
            Colour::Known(length, background) => {
                Parsed::Done(length + 2, background.map(Heard::Background))
            }
            Colour::Other => alt(bytes),
        },
        // Two presses of Esc, not Alt-Esc.
        Some(&ESCAPE) => done(1, Some(KeyCode::Esc.into())),
        Some(_) => alt(bytes),
    }
}

fn done(length: usize, key: Option<KeyEvent>) -> Parsed {
    Parsed::Done(length, key.map(Heard::Key))
}

/// A key with Alt: an escape character before the key.
fn alt(bytes: &[u8]) -> Parsed {
    match plain(&bytes[1..], KeyModifiers::ALT) {
        Parsed::Done(length, heard) => Parsed::Done(length + 1, heard),
        other => other,
    }
}

/// One UTF-8 character.
fn plain(bytes: &[u8], modifiers: KeyModifiers) -> Parsed {
    let length = match bytes[0] {
        0..0x80 => return done(1, Some(key::ascii(bytes[0], modifiers))),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Parsed::Done(1, None),
    };
    let part = &bytes[..bytes.len().min(length)];
    match str::from_utf8(part) {
        Ok(text) => {
            let character = text.chars().next().filter(|char| !char.is_control());
            done(length, character.map(|char| key::letter(char, modifiers)))
        }
        Err(error) if error.error_len().is_none() => Parsed::Unfinished,
        Err(error) => Parsed::Done(error.error_len().unwrap_or(1), None),
    }
}

/// `ESC [`, parameters, a final byte.
fn control(bytes: &[u8]) -> Parsed {
    let body = &bytes[2..];
    match body.first() {
        // Function keys of the Linux console.
        Some(b'[') => {
            return match body.get(1) {
                None => Parsed::Unfinished,
                Some(last @ b'A'..=b'E') => done(4, Some(KeyCode::F(last - b'A' + 1).into())),
                Some(_) => Parsed::Done(3, None),
            };
        }
        // Mouse report in the old encoding.
        Some(b'M') => {
            return match body.get(1..4) {
                None => Parsed::Unfinished,
                Some(report) => {
                    let [buttons, column, row] = [report[0], report[1], report[2]]
                        .map(|byte| u16::from(byte) - 32.min(u16::from(byte)));
                    Parsed::Done(6, mouse(buttons, column, row, true))
                }
            };
        }
        _ => {}
    }
    let is_parameter = |byte: &u8| (0x20..0x40).contains(byte);
    let length = body.iter().take_while(|byte| is_parameter(byte)).count();
    let parameters = str::from_utf8(&body[..length]).unwrap_or_default();
    match body.get(length) {
        None if length > LONGEST => Parsed::Done(2 + length, None),
        None => Parsed::Unfinished,
        Some(last @ 0x40..=0x7e) => meaning(3 + length, parameters, *last),
        // Interrupted by another sequence, which is parsed next.
        Some(_) => Parsed::Done(2 + length, None),
    }
}

fn meaning(length: usize, parameters: &str, last: u8) -> Parsed {
    if let Some(report) = parameters.strip_prefix('<') {
        let numbers: Vec<u16> = report
            .split(';')
            .filter_map(|text| text.parse().ok())
            .collect();
        let heard = match numbers[..] {
            [buttons, column, row] => mouse(buttons, column, row, last == b'M'),
            _ => None,
        };
        return Parsed::Done(length, heard);
    }
    match (parameters, last) {
        ("200", b'~') => Parsed::Paste(length),
        ("0" | "3", b'n') => Parsed::Done(length, Some(Heard::Present)),
        (parameters, b'c') if parameters.starts_with('?') => {
            Parsed::Done(length, Some(Heard::Attributes))
        }
        _ => done(length, key::control(parameters, last)),
    }
}

/// Button presses and the wheel; column and row count from 1.
fn mouse(buttons: u16, column: u16, row: u16, is_press: bool) -> Option<Heard> {
    let is_motion = buttons & 32 != 0;
    let kind = match buttons & !0b1_1100 {
        _ if is_motion || !is_press => return None,
        0 => MouseEventKind::Down(MouseButton::Left),
        1 => MouseEventKind::Down(MouseButton::Middle),
        2 => MouseEventKind::Down(MouseButton::Right),
        64 => MouseEventKind::ScrollUp,
        65 => MouseEventKind::ScrollDown,
        _ => return None,
    };
    let modifiers = [
        (4, KeyModifiers::SHIFT),
        (8, KeyModifiers::ALT),
        (16, KeyModifiers::CONTROL),
    ];
    let modifiers = modifiers
        .into_iter()
        .filter(|(bit, _)| buttons & bit != 0)
        .fold(KeyModifiers::NONE, |all, (_, one)| all | one);
    Some(Heard::Mouse(MouseEvent {
        kind,
        column: column.checked_sub(1)?,
        row: row.checked_sub(1)?,
        modifiers,
    }))
}

enum Colour {
    Unfinished,
    Known(usize, Option<[f32; 3]>),
    Other,
}

/// Parses `11;rgb:RRRR/GGGG/BBBB` with its terminator.
fn colour(body: &[u8]) -> Colour {
    const BEGIN: &[u8] = b"11;";
    let shared = body.len().min(BEGIN.len());
    if body[..shared] != BEGIN[..shared] {
        return Colour::Other;
    }
    let is_inside = |byte: &u8| byte.is_ascii_hexdigit() || b";:/rgba".contains(byte);
    let length = body.iter().take_while(|byte| is_inside(byte)).count();
    let end = match (body.get(length), body.get(length + 1)) {
        (None, _) if length > LONGEST => return Colour::Other,
        (None, _) | (Some(&ESCAPE), None) => return Colour::Unfinished,
        (Some(7), _) => 1,
        (Some(&ESCAPE), Some(b'\\')) => 2,
        _ => return Colour::Other,
    };
    let text = str::from_utf8(&body[BEGIN.len().min(length)..length]).unwrap_or_default();
    Colour::Known(length + end, parts(text))
}

fn parts(text: &str) -> Option<[f32; 3]> {
    let (_, parts) = text.split_once(':')?;
    let mut parts = parts.split('/').map(|part| {
        let most = 16_u32
            .checked_pow(part.len().try_into().ok()?)?
            .checked_sub(1)?;
        let value = u32::from_str_radix(part, 16).ok()?;
        (most > 0).then_some(value as f32 / most as f32)
    });
    Some([parts.next()??, parts.next()??, parts.next()??])
}
