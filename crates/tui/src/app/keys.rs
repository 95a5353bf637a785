//! All keys and what they do: one table, of which help is made too. Pure. Entry points:
//! [`BINDINGS`], [`find`].

mod table;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

pub(crate) use self::table::BINDINGS;
use crate::editor::Change;

/// Where a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// While writing and while looking at the page.
    Anywhere,
    Editor,
    /// While something can be completed.
    Completion,
    Browse,
    /// While words to look for are written.
    Search,
    /// While words to look for in the history are written.
    Recall,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Send,
    Change(Change),
    Up,
    Down,
    /// Looks in what was said before.
    Recall,
    /// To the page.
    Browse,
    /// To an editor of the person's own.
    Edit,
    Escape,
    /// Clears, interrupts, leaves: in this order.
    Leave,
    /// Deletes a letter, or leaves.
    DeleteOrLeave,
    /// A picture cannot come this way.
    Clipboard,
    Refresh,
    Suspend,
    ToggleThinking,
    ToggleCalls,
    Search,
    Page(i32),
    ToTop,
    ToEnd,
    /// Puts what is chosen into the text.
    Accept,
    /// The same, and sends where that is all there is to say.
    AcceptAndSend,
    Choose(i32),
    Close,
    Select(i32),
    Toggle,
    Copy,
    Match(i32),
    Diff,
    /// To the editor.
    Back,
    /// Ends the writing of words to look for.
    Done,
    EraseLetter,
    EraseAll,
}

/// A line of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) place: Place,
    /// By their names, with a space between two.
    keys: &'static str,
    /// Those that help shows, with those of a neighbour where the two belong together; none when
    /// help leaves the line out.
    shown: &'static str,
    pub(crate) about: &'static str,
    action: Action,
}

impl Binding {
    /// The keys that help shows: `alt-enter, ctrl-j`.
    pub(crate) fn keys(&self) -> String {
        self.shown.replace(' ', ", ")
    }

    /// The names of all its keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.split(' ')
    }
}

const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;

const fn bind(
    place: Place,
    keys: &'static str,
    shown: &'static str,
    about: &'static str,
    action: Action,
) -> Binding {
    Binding {
        place,
        keys,
        shown,
        about,
        action,
    }
}

/// A line that help shows together with another, or need not show.
const fn same(place: Place, keys: &'static str, action: Action) -> Binding {
    bind(place, keys, "", "", action)
}

/// What a key does in a place.
pub(super) fn find(place: Place, key: KeyEvent) -> Option<Action> {
    let name = name(key)?;
    let mut here = BINDINGS.iter().filter(|binding| binding.place == place);
    let binding = here.find(|binding| binding.names().any(|key| key == name))?;
    Some(binding.action)
}

/// The letter that a key types.
pub(super) fn typed(key: KeyEvent) -> Option<char> {
    match (key.code, key.modifiers) {
        (KeyCode::Char(letter), held) if !held.contains(CTRL) && !held.contains(ALT) => {
            Some(letter)
        }
        // Esc and a letter right after it look the same as Alt with the letter: it is not lost.
        (KeyCode::Char(letter), ALT) => Some(letter),
        _ => None,
    }
}

/// As the table writes it.
fn name(key: KeyEvent) -> Option<String> {
    let mut held = key.modifiers & (CTRL | ALT | SHIFT);
    let key = match key.code {
        KeyCode::Char(letter) => {
            let is_small = held.contains(CTRL) && !held.contains(SHIFT);
            if !held.contains(CTRL) {
                held -= SHIFT;
            }
            match letter {
                ' ' => "space".to_owned(),
                letter if is_small => letter.to_lowercase().collect(),
                letter => letter.to_string(),
            }
        }
        KeyCode::Esc => {
            held = KeyModifiers::NONE;
            "esc".to_owned()
        }
        code => {
            let (_, name) = NAMES.iter().find(|(known, _)| *known == code)?;
            (*name).to_owned()
        }
    };
    let held_down = [(CTRL, "ctrl-"), (ALT, "alt-"), (SHIFT, "shift-")];
    let held_down = held_down.iter().filter(|(one, _)| held.contains(*one));
    Some(held_down.map(|(_, name)| *name).collect::<String>() + &key)
}

const NAMES: [(KeyCode, &str); 12] = [
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

/// The key of a name.
#[cfg(test)]
pub(crate) fn named(name: &str) -> Option<KeyEvent> {
    let mut rest = name;
    let mut held = KeyModifiers::NONE;
    for (one, prefix) in [(CTRL, "ctrl-"), (ALT, "alt-"), (SHIFT, "shift-")] {
        if let Some(after) = rest.strip_prefix(prefix) {
            (rest, held) = (after, held | one);
        }
    }
    let mut letters = rest.chars();
    let known = NAMES.iter().find(|(_, name)| *name == rest);
    let code = match (known, rest, letters.next(), letters.next()) {
        (Some((code, _)), ..) => *code,
        (_, "esc", ..) => KeyCode::Esc,
        (_, "space", ..) => KeyCode::Char(' '),
        (_, _, Some(letter), None) => KeyCode::Char(letter),
        _ => return None,
    };
    Some(KeyEvent::new(code, held))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_key_means_one_thing_in_a_place() {
        for (place, one) in BINDINGS.iter().enumerate() {
            for other in &BINDINGS[place + 1..] {
                let mut others = other.names();
                let both = others.any(|key| one.names().any(|one| one == key));
                assert!(!(both && one.place == other.place), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn every_key_of_the_table_does_what_it_says() {
        for binding in BINDINGS {
            for name in binding.names() {
                let found = find(binding.place, named(name).unwrap());
                assert_eq!(found, Some(binding.action), "{name}");
            }
            for name in binding.shown.split_whitespace() {
                let found = find(binding.place, named(name).unwrap());
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
