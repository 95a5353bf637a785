//! Decodes keys: legacy codes, xterm's and kitty's. The result is the same as that of `crossterm`.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The key for a typed character.
pub(super) fn char_key(character: char, modifiers: KeyModifiers) -> KeyEvent {
    let shift = if character.is_uppercase() {
        KeyModifiers::SHIFT
    } else {
        KeyModifiers::NONE
    };
    KeyEvent::new(KeyCode::Char(character), modifiers | shift)
}

/// The key for a byte below 0x80, including the escape character.
pub(super) fn ascii_key(byte: u8, modifiers: KeyModifiers) -> KeyEvent {
    let control = |character: u8| {
        KeyEvent::new(
            KeyCode::Char(character.into()),
            modifiers | KeyModifiers::CONTROL,
        )
    };
    match byte {
        b'\r' => KeyEvent::new(KeyCode::Enter, modifiers),
        b'\t' => KeyEvent::new(KeyCode::Tab, modifiers),
        0x7f => KeyEvent::new(KeyCode::Backspace, modifiers),
        0x1b => KeyEvent::new(KeyCode::Esc, modifiers),
        0 => control(b' '),
        0x01..=0x1a => control(byte - 1 + b'a'),
        0x1c..=0x1f => control(byte - 0x1c + b'4'),
        _ => char_key(byte.into(), modifiers),
    }
}

/// The key for `ESC O` and a final byte.
pub(super) fn ss3_key(last: u8) -> Option<KeyEvent> {
    let code = match last {
        b'M' => KeyCode::Enter,
        b'j'..=b'y' => KeyCode::Char((last - b'j' + b'*').into()),
        _ => final_byte_key(last)?,
    };
    Some(code.into())
}

/// The key for `ESC [`, parameters and a final byte.
pub(super) fn control(parameters: &str, last: u8) -> Option<KeyEvent> {
    let mut fields = parameters.split(';');
    let first = number(fields.next());
    let second = fields.next();
    // The event type follows the modifiers: 3 is a release.
    if second.and_then(|field| field.split(':').nth(1)) == Some("3") {
        return None;
    }
    let modifiers = modifiers(number(second));
    let code = match last {
        b'Z' => {
            return Some(KeyEvent::new(
                KeyCode::BackTab,
                modifiers | KeyModifiers::SHIFT,
            ));
        }
        b'u' => return key_by_code(first?, modifiers),
        b'~' => match first? {
            27 => return key_by_code(number(fields.next())?, modifiers),
            1 | 7 => KeyCode::Home,
            2 => KeyCode::Insert,
            3 => KeyCode::Delete,
            4 | 8 => KeyCode::End,
            5 => KeyCode::PageUp,
            6 => KeyCode::PageDown,
            code @ 11..=15 => function_key(code - 10),
            code @ 17..=21 => function_key(code - 11),
            code @ 23..=24 => function_key(code - 12),
            57_427 => KeyCode::KeypadBegin,
            _ => return None,
        },
        _ => final_byte_key(last)?,
    };
    Some(KeyEvent::new(code, modifiers))
}

/// The number in the first part of a field.
fn number(field: Option<&str>) -> Option<u32> {
    field?.split(':').next()?.parse().ok()
}

fn function_key(number: u32) -> KeyCode {
    KeyCode::F(u8::try_from(number).unwrap_or(u8::MAX))
}

fn final_byte_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'E' => KeyCode::KeypadBegin,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P'..=b'S' => KeyCode::F(last - b'P' + 1),
        _ => return None,
    })
}

/// Decodes modifiers: a bit mask plus 1. Caps Lock and Num Lock are ignored.
fn modifiers(value: Option<u32>) -> KeyModifiers {
    let bits = value.unwrap_or(1).saturating_sub(1);
    let all = [
        KeyModifiers::SHIFT,
        KeyModifiers::ALT,
        KeyModifiers::CONTROL,
        KeyModifiers::SUPER,
        KeyModifiers::HYPER,
        KeyModifiers::META,
    ];
    let pressed = all.into_iter().enumerate();
    pressed
        .filter(|(bit, _)| bits & (1 << bit) != 0)
        .fold(KeyModifiers::NONE, |all, (_, one)| all | one)
}

/// The key for a Unicode code point, or for one of kitty's numbers for keys without a character.
fn key_by_code(code: u32, modifiers: KeyModifiers) -> Option<KeyEvent> {
    const KEYPAD: &str = "0123456789./*-+";
    let code = match code {
        9 if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        9 => KeyCode::Tab,
        13 | 57_414 => KeyCode::Enter,
        27 => KeyCode::Esc,
        127 => KeyCode::Backspace,
        57_399..=57_413 => {
            let index = usize::try_from(code - 57_399).ok()?;
            KeyCode::Char(KEYPAD.chars().nth(index)?)
        }
        57_415 => KeyCode::Char('='),
        57_416 => KeyCode::Char(','),
        57_417 => KeyCode::Left,
        57_418 => KeyCode::Right,
        57_419 => KeyCode::Up,
        57_420 => KeyCode::Down,
        57_421 => KeyCode::PageUp,
        57_422 => KeyCode::PageDown,
        57_423 => KeyCode::Home,
        57_424 => KeyCode::End,
        57_425 => KeyCode::Insert,
        57_426 => KeyCode::Delete,
        57_427 => KeyCode::KeypadBegin,
        // Other kitty keys, such as media keys.
        0xe000..0xf900 => return None,
        _ => {
            let typed = char::from_u32(code).filter(|char| !char.is_control())?;
            // The character as it would be sent with Shift alone.
            let is_shifted = modifiers.contains(KeyModifiers::SHIFT) && typed.is_lowercase();
            let mut upper = typed.to_uppercase();
            let typed = match (is_shifted, upper.next(), upper.next()) {
                (true, Some(upper), None) => upper,
                _ => typed,
            };
            KeyCode::Char(typed)
        }
    };
    Some(KeyEvent::new(code, modifiers))
}
