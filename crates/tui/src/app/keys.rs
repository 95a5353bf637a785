//! All key bindings in one table, from which the help is made too. Pure. Entry points:
//! [`KEY_BINDINGS`], [`find`].

mod table;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) use self::table::KEY_BINDINGS;
use crate::editor::EditCommand;

/// The part of the UI in which a binding applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyContext {
    /// In the editor and on the page alike.
    Anywhere,
    Editor,
    /// While completions are shown.
    Completion,
    Browse,
    /// While a search query is being typed.
    Search,
    /// While a query for the message history is being typed.
    HistorySearch,
}

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAction {
    Send,
    Change(EditCommand),
    Up,
    Down,
    /// Searches the message history.
    HistorySearch,
    /// Moves the focus to the page.
    Browse,
    /// Opens the message in the user's external editor.
    Edit,
    Escape,
    /// Clears the editor; if it is empty, interrupts the turn; the second time, quits.
    Leave,
    /// Deletes a character; quits if the editor is empty and the key is pressed twice.
    DeleteOrLeave,
    /// Shows how to paste: an image in the clipboard cannot be read through the terminal.
    Clipboard,
    Refresh,
    Suspend,
    ToggleThinking,
    ToggleCalls,
    Search,
    Page(i32),
    ToTop,
    ToEnd,
    /// Inserts the selected completion.
    Accept,
    /// Inserts the selected completion, and sends the message if that completes a command.
    AcceptAndSend,
    Choose(i32),
    Close,
    Select(i32),
    Toggle,
    Copy,
    Match(i32),
    Diff,
    /// Moves the focus to the editor.
    Back,
    /// Ends the typing of a search query.
    Done,
    EraseChar,
    EraseAll,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBinding {
    pub(crate) context: KeyContext,
    /// Key names, separated by spaces.
    keys: &'static str,
    /// The keys that the help shows. May include those of a neighbouring row where the two belong
    /// together. Empty if the help leaves the row out.
    shown: &'static str,
    pub(crate) about: &'static str,
    action: KeyAction,
}

impl KeyBinding {
    /// The keys that the help shows: `alt-enter, ctrl-j`.
    pub(crate) fn keys(&self) -> String {
        self.shown.replace(' ', ", ")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.split(' ')
    }
}

const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn bind(
    context: KeyContext,
    keys: &'static str,
    shown: &'static str,
    about: &'static str,
    action: KeyAction,
) -> KeyBinding {
    KeyBinding {
        context,
        keys,
        shown,
        about,
        action,
    }
}

/// A row that the help leaves out or shows as part of another row.
const fn bind_hidden(context: KeyContext, keys: &'static str, action: KeyAction) -> KeyBinding {
    bind(context, keys, "", "", action)
}

/// The action bound to a key in a context.
pub(super) fn find(context: KeyContext, key: KeyEvent) -> Option<KeyAction> {
    let name = name(key)?;
    let mut here = KEY_BINDINGS
        .iter()
        .filter(|binding| binding.context == context);
    let binding = here.find(|binding| binding.names().any(|key| key == name))?;
    Some(binding.action)
}

/// The character that a key types.
pub(super) fn typed(key: KeyEvent) -> Option<char> {
    match (key.code, key.modifiers) {
        (KeyCode::Char(character), held) if !held.contains(CTRL) && !held.contains(ALT) => {
            Some(character)
        }
        // Esc followed quickly by a letter sends the same bytes as Alt with the letter: keep the
        // letter.
        (KeyCode::Char(character), ALT) => Some(character),
        _ => None,
    }
}

/// The name of a key as used in the table.
fn name(key: KeyEvent) -> Option<String> {
    let mut held = key.modifiers & (CTRL | ALT | SHIFT);
    let key = match key.code {
        KeyCode::Char(character) => {
            let is_small = held.contains(CTRL) && !held.contains(SHIFT);
            if !held.contains(CTRL) {
                held -= SHIFT;
            }
            match character {
                ' ' => "space".to_owned(),
                character if is_small => character.to_lowercase().collect(),
                character => character.to_string(),
            }
        }
        KeyCode::Esc => {
            held = KeyModifiers::NONE;
            "esc".to_owned()
        }
        code => {
            let (_, name) = KEY_NAMES.iter().find(|(known, _)| *known == code)?;
            (*name).to_owned()
        }
    };
    let held_down = [(CTRL, "ctrl-"), (ALT, "alt-"), (SHIFT, "shift-")];
    let held_down = held_down.iter().filter(|(one, _)| held.contains(*one));
    Some(held_down.map(|(_, name)| *name).collect::<String>() + &key)
}

const KEY_NAMES: [(KeyCode, &str); 12] = [
    (KeyCode::Enter, "enter"),
    (KeyCode::Tab, "tab"),
    (KeyCode::Backspace, "backspace"),
    (KeyCode::Delete, "delete"),
    (KeyCode::Up, "↑"),
    (KeyCode::Down, "↓"),
    (KeyCode::Left, "←"),
    (KeyCode::Right, "→"),
    (KeyCode::Home, "home"),
    (KeyCode::End, "end"),
    (KeyCode::PageUp, "page-up"),
    (KeyCode::PageDown, "page-down"),
];

/// The key for a name.
#[cfg(test)]
pub(crate) fn parse_key_name(name: &str) -> Option<KeyEvent> {
    let mut rest = name;
    let mut held = KeyModifiers::NONE;
    for (one, prefix) in [(CTRL, "ctrl-"), (ALT, "alt-"), (SHIFT, "shift-")] {
        if let Some(after) = rest.strip_prefix(prefix) {
            (rest, held) = (after, held | one);
        }
    }
    let mut characters = rest.chars();
    let known = KEY_NAMES.iter().find(|(_, name)| *name == rest);
    let code = match (known, rest, characters.next(), characters.next()) {
        (Some((code, _)), ..) => *code,
        (_, "esc", ..) => KeyCode::Esc,
        (_, "space", ..) => KeyCode::Char(' '),
        (_, _, Some(character), None) => KeyCode::Char(character),
        _ => return None,
    };
    Some(KeyEvent::new(code, held))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_has_one_binding_per_context() {
        for (index, one) in KEY_BINDINGS.iter().enumerate() {
            for other in &KEY_BINDINGS[index + 1..] {
                let mut others = other.names();
                let both = others.any(|key| one.names().any(|one| one == key));
                assert!(!(both && one.context == other.context), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn every_key_name_in_the_table_finds_its_action() {
        for binding in KEY_BINDINGS {
            for name in binding.names() {
                let found = find(binding.context, parse_key_name(name).unwrap());
                assert_eq!(found, Some(binding.action), "{name}");
            }
            for name in binding.shown.split_whitespace() {
                let found = find(binding.context, parse_key_name(name).unwrap());
                assert!(found.is_some(), "{name}");
            }
            assert_eq!(
                binding.about.is_empty(),
                binding.shown.is_empty(),
                "{binding:?}"
            );
        }
    }
}
