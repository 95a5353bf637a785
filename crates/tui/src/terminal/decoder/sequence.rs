//! The grammar of terminal input: where a key, a mouse report or an answer ends, and what it means.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{TerminalInput, key};

/// The result of parsing the beginning of some bytes.
#[derive(Debug)]
pub(super) enum ParsedSequence {
    /// More bytes are needed.
    Unfinished,
    /// A sequence of this many bytes, with the input that it means, if any.
    Done(usize, Option<TerminalInput>),
    /// A start of a paste of this many bytes; the pasted text follows.
    Paste(usize),
}

const ESCAPE: u8 = 0x1b;
/// No known sequence is longer.
const MAX_SEQUENCE_BYTES: usize = 128;

/// Parses the first sequence in `bytes`, which must not be empty.
pub(super) fn parse(bytes: &[u8], is_colour_expected: bool) -> ParsedSequence {
    if bytes[0] != ESCAPE {
        return parse_char(bytes, KeyModifiers::NONE);
    }
    match bytes.get(1) {
        None => ParsedSequence::Unfinished,
        Some(b'[') => parse_csi(bytes),
        Some(b'O') => match bytes.get(2) {
            None => ParsedSequence::Unfinished,
            Some(last) => match key::ss3_key(*last) {
                Some(key) => parsed_key(3, Some(key)),
                None => parse_alt(bytes),
            },
        },
        Some(b']') if is_colour_expected => match parse_colour_answer(&bytes[2..]) {
            ColourAnswer::Unfinished => ParsedSequence::Unfinished,
            ColourAnswer::Known(length, background) => {
                ParsedSequence::Done(length + 2, background.map(TerminalInput::Background))
            }
            ColourAnswer::Other => parse_alt(bytes),
        },
        // Two presses of Esc, not Alt-Esc.
        Some(&ESCAPE) => parsed_key(1, Some(KeyCode::Esc.into())),
        Some(_) => parse_alt(bytes),
    }
}

fn parsed_key(length: usize, key: Option<KeyEvent>) -> ParsedSequence {
    ParsedSequence::Done(length, key.map(TerminalInput::Key))
}

/// A key with Alt: an escape character before the key.
fn parse_alt(bytes: &[u8]) -> ParsedSequence {
    match parse_char(&bytes[1..], KeyModifiers::ALT) {
        ParsedSequence::Done(length, received) => ParsedSequence::Done(length + 1, received),
        other => other,
    }
}

/// One UTF-8 character.
fn parse_char(bytes: &[u8], modifiers: KeyModifiers) -> ParsedSequence {
    let length = match bytes[0] {
        0..0x80 => return parsed_key(1, Some(key::ascii_key(bytes[0], modifiers))),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return ParsedSequence::Done(1, None),
    };
    let part = &bytes[..bytes.len().min(length)];
    match str::from_utf8(part) {
        Ok(text) => {
            let character = text.chars().next().filter(|char| !char.is_control());
            parsed_key(length, character.map(|char| key::char_key(char, modifiers)))
        }
        Err(error) if error.error_len().is_none() => ParsedSequence::Unfinished,
        Err(error) => ParsedSequence::Done(error.error_len().unwrap_or(1), None),
    }
}

/// `ESC [`, parameters, a final byte.
fn parse_csi(bytes: &[u8]) -> ParsedSequence {
    let body = &bytes[2..];
    match body.first() {
        // Function keys of the Linux console.
        Some(b'[') => {
            return match body.get(1) {
                None => ParsedSequence::Unfinished,
                Some(last @ b'A'..=b'E') => parsed_key(4, Some(KeyCode::F(last - b'A' + 1).into())),
                Some(_) => ParsedSequence::Done(3, None),
            };
        }
        // Mouse report in the old encoding.
        Some(b'M') => {
            return match body.get(1..4) {
                None => ParsedSequence::Unfinished,
                Some(report) => {
                    let [buttons, column, row] = [report[0], report[1], report[2]]
                        .map(|byte| u16::from(byte) - 32.min(u16::from(byte)));
                    ParsedSequence::Done(6, mouse_event(buttons, column, row, true))
                }
            };
        }
        _ => {}
    }
    let is_parameter = |byte: &u8| (0x20..0x40).contains(byte);
    let length = count_while(body, is_parameter);
    let parameters = str::from_utf8(&body[..length]).unwrap_or_default();
    match body.get(length) {
        _ if length > MAX_SEQUENCE_BYTES => ParsedSequence::Done(2 + length, None),
        None => ParsedSequence::Unfinished,
        Some(last @ 0x40..=0x7e) => interpret_csi(3 + length, parameters, *last),
        // Interrupted by another sequence, which is parsed next.
        Some(_) => ParsedSequence::Done(2 + length, None),
    }
}

/// Counts the first bytes that belong to a sequence. Stops one byte above [`MAX_SEQUENCE_BYTES`], so
/// that a longer sequence ends at the same byte however many have arrived.
fn count_while(bytes: &[u8], is_inside: impl Fn(&u8) -> bool) -> usize {
    let bounded = bytes.iter().take(MAX_SEQUENCE_BYTES + 1);
    bounded.take_while(|byte| is_inside(byte)).count()
}

fn interpret_csi(length: usize, parameters: &str, last: u8) -> ParsedSequence {
    if let Some(report) = parameters.strip_prefix('<') {
        let numbers: Vec<u16> = report
            .split(';')
            .filter_map(|text| text.parse().ok())
            .collect();
        let received = match numbers[..] {
            [buttons, column, row] => mouse_event(buttons, column, row, last == b'M'),
            _ => None,
        };
        return ParsedSequence::Done(length, received);
    }
    match (parameters, last) {
        ("200", b'~') => ParsedSequence::Paste(length),
        ("0" | "3", b'n') => ParsedSequence::Done(length, Some(TerminalInput::Present)),
        (parameters, b'c') if parameters.starts_with('?') => {
            ParsedSequence::Done(length, Some(TerminalInput::Attributes))
        }
        _ => parsed_key(length, key::control(parameters, last)),
    }
}

/// Button presses and the wheel; column and row count from 1.
fn mouse_event(buttons: u16, column: u16, row: u16, is_press: bool) -> Option<TerminalInput> {
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
    Some(TerminalInput::Mouse(MouseEvent {
        kind,
        column: column.checked_sub(1)?,
        row: row.checked_sub(1)?,
        modifiers,
    }))
}

enum ColourAnswer {
    Unfinished,
    Known(usize, Option<[f32; 3]>),
    Other,
}

/// Parses `11;rgb:RRRR/GGGG/BBBB` with its terminator.
fn parse_colour_answer(body: &[u8]) -> ColourAnswer {
    const BEGIN: &[u8] = b"11;";
    let shared = body.len().min(BEGIN.len());
    if body[..shared] != BEGIN[..shared] {
        return ColourAnswer::Other;
    }
    let is_inside = |byte: &u8| byte.is_ascii_hexdigit() || b";:/rgba".contains(byte);
    let length = count_while(body, is_inside);
    let end = match (body.get(length), body.get(length + 1)) {
        _ if length > MAX_SEQUENCE_BYTES => return ColourAnswer::Other,
        (None, _) | (Some(&ESCAPE), None) => return ColourAnswer::Unfinished,
        (Some(7), _) => 1,
        (Some(&ESCAPE), Some(b'\\')) => 2,
        _ => return ColourAnswer::Other,
    };
    let text = str::from_utf8(&body[BEGIN.len().min(length)..length]).unwrap_or_default();
    ColourAnswer::Known(length + end, parts(text))
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
