//! All keys and what they do: one table, of which help is made too. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use self::{Action as A, Place as P};
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

/// In the order in which help shows them.
pub(crate) const BINDINGS: &[Binding] = &[
    bind(
        P::Editor,
        "enter ctrl-m",
        "enter",
        "send; `\\` before it begins a new line",
        A::Send,
    ),
    bind(
        P::Editor,
        "alt-enter shift-enter ctrl-j",
        "alt-enter shift-enter ctrl-j",
        "new line",
        A::Change(Change::NewLine),
    ),
    bind(
        P::Editor,
        "↑ ctrl-p",
        "↑ ↓",
        "a line up or down; what was said before",
        A::Up,
    ),
    same(P::Editor, "↓ ctrl-n", A::Down),
    bind(
        P::Editor,
        "ctrl-r",
        "ctrl-r",
        "look for something said before",
        A::Recall,
    ),
    bind(
        P::Editor,
        "tab",
        "tab",
        "to the page; completes where it can",
        A::Browse,
    ),
    bind(
        P::Editor,
        "ctrl-g",
        "ctrl-g",
        "write in your own editor",
        A::Edit,
    ),
    same(P::Editor, "ctrl-v", A::Clipboard),
    bind(
        P::Editor,
        "esc",
        "esc",
        "interrupt; twice: clear",
        A::Escape,
    ),
    bind(
        P::Editor,
        "ctrl-d",
        "ctrl-d",
        "delete a letter; twice with no text: leave",
        A::DeleteOrLeave,
    ),
    bind(
        P::Editor,
        "home ctrl-a",
        "home ctrl-a",
        "to the start of the line",
        A::Change(Change::LineStart),
    ),
    bind(
        P::Editor,
        "end ctrl-e",
        "end ctrl-e",
        "to its end; opens or closes a pasted block",
        A::Change(Change::LineEnd),
    ),
    bind(
        P::Editor,
        "ctrl-← alt-← alt-b",
        "ctrl-← ctrl-→",
        "by a word",
        A::Change(Change::WordBack),
    ),
    same(
        P::Editor,
        "ctrl-→ alt-→ alt-f",
        A::Change(Change::WordForward),
    ),
    bind(
        P::Editor,
        "ctrl-w alt-backspace ctrl-backspace",
        "ctrl-w alt-d",
        "delete a word",
        A::Change(Change::DeleteWordBack),
    ),
    same(
        P::Editor,
        "alt-d alt-delete ctrl-delete",
        A::Change(Change::DeleteWordForward),
    ),
    bind(
        P::Editor,
        "ctrl-u",
        "ctrl-u ctrl-k",
        "delete to the start or the end of the line",
        A::Change(Change::DeleteToStart),
    ),
    same(P::Editor, "ctrl-k", A::Change(Change::DeleteToEnd)),
    bind(
        P::Editor,
        "ctrl-y",
        "ctrl-y",
        "put back what was deleted so",
        A::Change(Change::Yank),
    ),
    bind(
        P::Editor,
        "ctrl-/ ctrl-_ ctrl-7 ctrl--",
        "ctrl-/ alt-/",
        "undo, redo",
        A::Change(Change::Undo),
    ),
    same(P::Editor, "alt-/ alt-_", A::Change(Change::Redo)),
    same(P::Editor, "← ctrl-b", A::Change(Change::Back)),
    same(P::Editor, "→", A::Change(Change::Forward)),
    same(
        P::Editor,
        "backspace shift-backspace ctrl-h",
        A::Change(Change::DeleteBack),
    ),
    same(P::Editor, "delete", A::Change(Change::DeleteForward)),
    same(P::Editor, "alt-<", A::Change(Change::TextStart)),
    same(P::Editor, "alt->", A::Change(Change::TextEnd)),
    bind(P::Completion, "↑ ctrl-p", "↑ ↓", "choose", A::Choose(-1)),
    same(P::Completion, "↓ ctrl-n", A::Choose(1)),
    bind(P::Completion, "tab", "tab", "take it", A::Accept),
    bind(
        P::Completion,
        "enter",
        "enter",
        "take it; a command is run",
        A::AcceptAndSend,
    ),
    bind(P::Completion, "esc", "esc", "close", A::Close),
    bind(
        P::Anywhere,
        "ctrl-c",
        "ctrl-c",
        "clear; interrupt; twice: leave",
        A::Leave,
    ),
    bind(
        P::Anywhere,
        "page-up",
        "page-up page-down",
        "scroll the page; so does the wheel",
        A::Page(-1),
    ),
    same(P::Anywhere, "page-down", A::Page(1)),
    bind(
        P::Anywhere,
        "ctrl-home",
        "ctrl-home ctrl-end",
        "to the top or the end of the page",
        A::ToTop,
    ),
    same(P::Anywhere, "ctrl-end", A::ToEnd),
    bind(
        P::Anywhere,
        "ctrl-f",
        "ctrl-f",
        "look for words on the page",
        A::Search,
    ),
    bind(
        P::Anywhere,
        "ctrl-t",
        "ctrl-t",
        "open or close all thinking",
        A::ToggleThinking,
    ),
    bind(
        P::Anywhere,
        "ctrl-o",
        "ctrl-o",
        "open or close all tool calls",
        A::ToggleCalls,
    ),
    bind(
        P::Anywhere,
        "ctrl-l",
        "ctrl-l",
        "draw everything anew",
        A::Refresh,
    ),
    bind(
        P::Anywhere,
        "ctrl-z",
        "ctrl-z",
        "to the shell; `fg` comes back",
        A::Suspend,
    ),
    bind(P::Browse, "↑ k", "↑ ↓", "choose", A::Select(-1)),
    same(P::Browse, "↓ j", A::Select(1)),
    bind(
        P::Browse,
        "enter tab space",
        "enter tab space",
        "open or close",
        A::Toggle,
    ),
    bind(P::Browse, "o", "o", "open or close all", A::ToggleCalls),
    bind(P::Browse, "d", "d", "what it changed", A::Diff),
    bind(P::Browse, "y", "y", "copy", A::Copy),
    bind(P::Browse, "/", "/", "look for words", A::Search),
    bind(P::Browse, "n", "n N", "next or previous place", A::Match(1)),
    same(P::Browse, "N", A::Match(-1)),
    bind(
        P::Browse,
        "g home",
        "g G",
        "to the top or the end",
        A::ToTop,
    ),
    same(P::Browse, "G end", A::ToEnd),
    bind(
        P::Browse,
        "esc i q",
        "esc i q",
        "back to the editor; so does any other letter",
        A::Back,
    ),
    bind(
        P::Search,
        "enter tab",
        "enter",
        "look at the places",
        A::Done,
    ),
    bind(
        P::Search,
        "↑ ctrl-p",
        "↑ ↓",
        "previous or next place",
        A::Match(-1),
    ),
    same(P::Search, "↓ ctrl-n", A::Match(1)),
    bind(
        P::Search,
        "esc ctrl-g ctrl-f",
        "esc",
        "back to the editor",
        A::Back,
    ),
    same(P::Search, "backspace ctrl-h", A::EraseLetter),
    same(P::Search, "ctrl-u ctrl-w", A::EraseAll),
    bind(
        P::Recall,
        "ctrl-r ↑ ctrl-p",
        "ctrl-r",
        "an older one",
        A::Match(-1),
    ),
    bind(
        P::Recall,
        "ctrl-s ↓ ctrl-n",
        "ctrl-s",
        "a newer one",
        A::Match(1),
    ),
    bind(
        P::Recall,
        "enter tab → ← end home",
        "enter",
        "take it",
        A::Done,
    ),
    bind(
        P::Recall,
        "esc ctrl-g",
        "esc",
        "back to what was written",
        A::Back,
    ),
    same(P::Recall, "backspace ctrl-h", A::EraseLetter),
    same(P::Recall, "ctrl-u ctrl-w", A::EraseAll),
];

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
