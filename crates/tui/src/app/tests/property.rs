//! Property tests: no sequence of inputs panics or loses a typed character.

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use proptest::prelude::*;

use super::*;
use crate::app::AppFocus;
use crate::app::keys::{KEY_BINDINGS, KeyContext, find};

fn key() -> impl Strategy<Value = AppInput> {
    let characters = "aynNqkj/@\\ .ä漢e\u{301}\u{1f469}\u{200d}\u{f0001}\u{10f000}";
    let characters: Vec<String> = characters
        .chars()
        .map(|character| character.to_string())
        .collect();
    let names: Vec<String> = KEY_BINDINGS
        .iter()
        .flat_map(|binding| binding.names())
        .map(str::to_owned)
        .collect();
    let name = prop_oneof![
        6 => prop::sample::select(characters),
        4 => prop::sample::select(names),
    ];
    name.prop_map(|name| AppInput::Key(key_named(&name)))
}

fn key_named(name: &str) -> KeyEvent {
    match name {
        " " => parse_key_name("space").unwrap(),
        name => parse_key_name(name).unwrap(),
    }
}

fn paste() -> impl Strategy<Value = AppInput> {
    let texts = vec![
        "word".to_owned(),
        "two\r\nlines\r".to_owned(),
        "line\n".repeat(30),
        "long ".repeat(200),
        "/tmp/a.png".to_owned(),
        "'/tmp/a b.png' ./c.gif".to_owned(),
        "\u{1b}[31mred\u{1b}]52;c;AA==\u{7}".to_owned(),
        "\u{10f000}\u{10f001}\u{202e}".to_owned(),
        String::new(),
        "y\n".to_owned(),
    ];
    prop::sample::select(texts).prop_map(AppInput::Paste)
}

fn notice() -> impl Strategy<Value = AppInput> {
    let question = |number| protocol::Question {
        number,
        what: "connect".to_owned(),
        why: "no rule".to_owned(),
        subject: protocol::Subject::Host {
            host: "pypi.org".to_owned(),
        },
    };
    let event = |kind| UiNotice::Event(super::event(kind));
    let text = |text: &str| EventKind::TextDelta {
        text: text.to_owned(),
    };
    let notices = vec![
        event(started(1, "said before")),
        event(ended(1, Outcome::Done)),
        event(ended(1, Outcome::Interrupted)),
        event(text("words ")),
        event(EventKind::Files {
            paths: vec![
                "a/y.rs".to_owned(),
                "n.png".to_owned(),
                "\u{1b}x".to_owned(),
            ],
            is_cut: false,
        }),
        event(EventKind::Differs {
            changes: Vec::new(),
            left_out: 2,
        }),
        event(EventKind::CommandRefused {
            reason: "no".to_owned(),
        }),
        event(EventKind::Asked {
            question: question(1),
        }),
        event(EventKind::Decided {
            question: question(1),
            decision: None,
        }),
        attached("/tmp/a.png"),
        attached("elsewhere.png"),
        failed("cannot do it"),
        UiNotice::Said("done".to_owned()),
        UiNotice::Models(vec!["model".to_owned()]),
        UiNotice::Jobs(Vec::new()),
        UiNotice::Sessions {
            words: String::new(),
            rows: Vec::new(),
        },
        UiNotice::Lost {
            what: "gone".to_owned(),
            hint: None,
        },
        opened_local(vec![started(1, "older words"), ended(1, Outcome::Done)]),
        opened_local(Vec::new()),
    ];
    prop::sample::select(notices).prop_map(AppInput::Notice)
}

fn other() -> impl Strategy<Value = AppInput> {
    let size = (0..50_u16, 0..20_u16);
    let mouse = (
        prop::sample::select(vec![
            MouseEventKind::ScrollUp,
            MouseEventKind::ScrollDown,
            MouseEventKind::Down(MouseButton::Left),
        ]),
        0..30_u16,
    );
    prop_oneof![
        size.prop_map(|(width, height)| AppInput::Resized { width, height }),
        mouse.prop_map(|(kind, row)| AppInput::Mouse(MouseEvent {
            kind,
            column: 0,
            row,
            modifiers: KeyModifiers::NONE,
        })),
        Just(AppInput::Shown),
        Just(AppInput::Time),
        Just(AppInput::Scheme(ColourScheme::Light)),
        Just(AppInput::Edited("edited words".to_owned())),
    ]
}

/// Characters other than whitespace and `/`, sorted.
fn characters(text: &str) -> Vec<char> {
    let mut characters: Vec<char> = text
        .chars()
        .filter(|character| !character.is_whitespace() && *character != '/')
        .collect();
    characters.sort_unstable();
    characters
}

/// All text that was typed and not yet answered.
fn unsent_text(app: &TuiApp) -> String {
    let waits: String = app.queue.iter().map(|draft| draft.full()).collect();
    app.editor.text() + &waits
}

fn prompts(effects: &[AppEffect]) -> String {
    let mut sent = String::new();
    for effect in effects {
        if let AppEffect::Ask(UiRequest::Agent(AgentCommand::Prompt { content })) = effect {
            sent.extend(content.iter().filter_map(Block::as_text));
        }
    }
    sent
}

fn has_all(more: &[char], some: &[char]) -> bool {
    let mut more = more.iter();
    some.iter()
        .all(|character| more.any(|other| other == character))
}

/// A character without modifiers.
fn is_plain_char(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char(_)) && (key.modifiers - KeyModifiers::SHIFT).is_empty()
}

/// Where a typed character goes.
#[derive(Debug, PartialEq)]
enum CharTarget {
    /// Into the editor.
    Typed,
    /// Into a search query, or it is a command key there.
    Elsewhere,
}

fn char_target(app: &TuiApp, key: KeyEvent) -> CharTarget {
    let is_bound = app.focus == AppFocus::Browse && find(KeyContext::Browse, key).is_some();
    let is_looking = matches!(
        app.focus,
        AppFocus::Search { .. } | AppFocus::HistorySearch { .. }
    );
    if app.overlay.is_some() || !app.questions.is_empty() || is_bound || is_looking {
        CharTarget::Elsewhere
    } else {
        CharTarget::Typed
    }
}

fn run(inputs: &[(AppInput, u64)]) {
    let mut app = TuiApp::new(ColourScheme::Dark, 40, 12);
    let mut now = Duration::ZERO;
    for (input, wait) in inputs {
        now += Duration::from_millis(*wait);
        app.arrange();
        let before = characters(&unsent_text(&app));
        let is_writing = app.focus == AppFocus::Editor && !app.editor.history.is_open();
        let expect = match input {
            AppInput::Key(key) if is_plain_char(*key) => Some(char_target(&app, *key)),
            _ => None,
        };
        let effects = app.update(now, input.clone());
        app.arrange();
        let after = characters(&(unsent_text(&app) + &prompts(&effects)));
        match input {
            AppInput::Key(key) if expect == Some(CharTarget::Typed) => {
                let character = match key.code {
                    KeyCode::Char('\u{10f000}') => "\u{fffd}".to_owned(),
                    KeyCode::Char(character) => character.to_string(),
                    _ => String::new(),
                };
                let mut with = before.clone();
                with.extend(characters(&character));
                with.sort_unstable();
                assert!(after == with, "{input:?} is typed");
                assert_eq!(app.focus, AppFocus::Editor);
            }
            // Keys may delete text or show something else; these inputs replace text.
            AppInput::Key(_)
            | AppInput::Edited(_)
            | AppInput::Notice(UiNotice::Attached(_) | UiNotice::Opened(_)) => {}
            _ if is_writing => assert!(has_all(&after, &before), "{input:?} loses nothing"),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn any_inputs_keep_all_typed_characters(
        inputs in prop::collection::vec(
            (
                prop_oneof![8 => key(), 1 => paste(), 3 => notice(), 1 => other()],
                prop_oneof![8 => Just(30_u64), 1 => Just(500), 1 => Just(3_000)],
            ),
            0..80,
        )
    ) {
        run(&inputs);
    }
}
