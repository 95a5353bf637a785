//! Requests of pickers and viewers, and how they handle the answers.

#![allow(clippy::unwrap_used)]

use crossterm::event::{KeyCode, KeyModifiers};
use protocol::{AgentCommand, SessionId};
use ratatui::text::Line;

use super::*;
use crate::port::{SessionPreview, SessionRow, UiRequest};
use crate::samples;
use crate::theme::ColourScheme;

fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn row(session: &str) -> SessionRow {
    SessionRow {
        session: session.parse().unwrap(),
        changed: samples::start_time(),
        title: "a\u{1b}[2Jb\nc".into(),
        workspace: String::new(),
        model: String::new(),
        turns: 1,
        cost: None,
        outcome: None,
        excerpt: None,
    }
}

const FIRST_SESSION: &str = "20260315-120000-aaaa";
const SECOND_SESSION: &str = "20260315-120000-bbbb";

fn send_effect(request: UiRequest) -> Vec<AppEffect> {
    vec![AppEffect::Ask(request)]
}

fn search_effect(words: &str) -> Vec<AppEffect> {
    send_effect(UiRequest::Sessions {
        words: words.into(),
    })
}

fn preview_effect(session: &str) -> Vec<AppEffect> {
    send_effect(UiRequest::Preview(session.parse::<SessionId>().unwrap()))
}

fn sessions(words: &str, rows: &[&str]) -> UiNotice {
    UiNotice::Sessions {
        words: words.into(),
        rows: rows.iter().map(|session| row(session)).collect(),
    }
}

#[test]
fn sessions_are_searched_as_the_query_is_typed() {
    let (mut overlay, effects) = Overlay::sessions();
    assert_eq!(effects, search_effect(""));
    assert_eq!(
        overlay.receive(&sessions("", &[FIRST_SESSION, SECOND_SESSION])),
        preview_effect(FIRST_SESSION)
    );
    assert_eq!(
        overlay.key(key(KeyCode::Char('x'))),
        OverlayAction::Stay(search_effect("x"))
    );
    // The answer to an older query arrives late.
    assert_eq!(overlay.receive(&sessions("", &[SECOND_SESSION])), vec![]);
    let Overlay::Sessions(inner) = &overlay else {
        panic!("it is the picker of sessions");
    };
    assert_eq!(inner.picker.counts(), (2, 2));
    assert_eq!(inner.picker.selected().unwrap().title, "ab c", "cleaned");
    overlay.receive(&sessions("x", &[SECOND_SESSION]));
    let load = send_effect(UiRequest::Load(SECOND_SESSION.into()));
    assert_eq!(overlay.key(key(KeyCode::Enter)), OverlayAction::Close(load));
}

#[test]
fn one_preview_is_requested_at_a_time() {
    let (mut overlay, _) = Overlay::sessions();
    assert_eq!(
        overlay.receive(&sessions("", &[FIRST_SESSION, SECOND_SESSION])),
        preview_effect(FIRST_SESSION)
    );
    assert_eq!(overlay.key(key(KeyCode::Down)), OverlayAction::Stay(vec![]));
    let came = |session: &str| {
        UiNotice::Preview(SessionPreview {
            session: session.parse().unwrap(),
            text: "the end".into(),
        })
    };
    assert_eq!(
        overlay.receive(&came(FIRST_SESSION)),
        preview_effect(SECOND_SESSION),
        "the chosen one is next"
    );
    assert_eq!(overlay.receive(&came(SECOND_SESSION)), vec![]);
    assert_eq!(
        overlay.key(key(KeyCode::Up)),
        OverlayAction::Stay(vec![]),
        "it is here already"
    );
}

#[test]
fn a_model_can_be_selected_or_typed() {
    #[track_caller]
    fn check(typed: &str, steps: &[KeyCode], expect: &str) {
        let (mut overlay, effects) = Overlay::models("two");
        assert_eq!(effects, send_effect(UiRequest::Models));
        let names = ["one", "two", "three"];
        overlay.receive(&UiNotice::Models(names.map(str::to_owned).into()));
        for character in typed.chars() {
            overlay.key(key(KeyCode::Char(character)));
        }
        for step in steps {
            overlay.key(key(*step));
        }
        let name = expect.to_owned();
        let effects = send_effect(UiRequest::Agent(AgentCommand::UseModel { name }));
        assert_eq!(
            overlay.key(key(KeyCode::Enter)),
            OverlayAction::Close(effects)
        );
    }
    check("", &[], "two");
    check("", &[KeyCode::Down], "three");
    check("one", &[], "one");
    check("four", &[], "four");
}

fn lines(viewer: &Viewer) -> Vec<String> {
    viewer
        .visible()
        .map(|(_, line)| Line::to_string(line))
        .collect()
}

fn viewer(content: ViewerContent, height: usize) -> Viewer {
    let mut viewer = Viewer::new(content);
    viewer.arrange(60, height, &Theme::new(ColourScheme::Plain));
    viewer
}

fn files(count: usize) -> ViewerContent {
    ViewerContent::Files {
        paths: (0..count)
            .map(|number| format!("File{number:03}"))
            .collect(),
        is_cut: false,
    }
}

#[test]
fn a_text_scrolls_and_stops_at_its_ends() {
    #[track_caller]
    fn check(keys: &[KeyCode], first: &str) {
        let mut viewer = viewer(files(100), 10);
        for code in keys {
            assert!(matches!(viewer.key(key(*code)), OverlayAction::Stay(_)));
        }
        assert_eq!(lines(&viewer).first().unwrap(), first);
    }
    check(&[KeyCode::Up], "File000");
    check(&[KeyCode::Down, KeyCode::Char('j')], "File002");
    check(&[KeyCode::PageDown], "File009");
    check(&[KeyCode::End, KeyCode::Down], "File090");
    check(&[KeyCode::End, KeyCode::Char('g')], "File000");
}

#[test]
fn the_viewer_finds_matches() {
    let mut viewer = viewer(files(100), 10);
    for character in "/e05".chars() {
        viewer.key(key(KeyCode::Char(character)));
    }
    assert_eq!(viewer.search().position(), Some((1, 10)));
    assert!(lines(&viewer).contains(&"File050".to_owned()));
    viewer.key(key(KeyCode::Enter));
    viewer.key(key(KeyCode::Char('N')));
    assert_eq!(viewer.search().position(), Some((10, 10)), "around the end");
    viewer.key(key(KeyCode::Char('n')));
    assert_eq!(viewer.search().position(), Some((1, 10)));
    assert_eq!(
        viewer.key(key(KeyCode::Esc)),
        OverlayAction::Stay(vec![]),
        "ends the search first"
    );
    assert_eq!(viewer.search().position(), None);
    assert_eq!(viewer.key(key(KeyCode::Esc)), OverlayAction::Close(vec![]));
}

#[test]
fn case_matters_if_the_query_has_uppercase() {
    #[track_caller]
    fn check(words: &str, found: usize) {
        let mut viewer = viewer(files(3), 10);
        viewer.key(key(KeyCode::Char('/')));
        viewer.paste(words);
        assert_eq!(viewer.search().position().unwrap().1, found, "{words}");
    }
    check("file", 3);
    check("File", 3);
    check("FILE", 0);
}

#[test]
fn tab_goes_from_file_to_file() {
    let change = |name: &str| Change {
        path: name.into(),
        diff: Some("@@ -1 +1 @@\n-a\n+b\n".repeat(10)),
    };
    let changes = vec![change("one"), change("two"), change("three")];
    let mut viewer = viewer(
        ViewerContent::Changes {
            changes,
            left_out: 0,
        },
        10,
    );
    let mut seen = Vec::new();
    for code in [KeyCode::Tab, KeyCode::Tab, KeyCode::Tab, KeyCode::BackTab] {
        viewer.key(key(code));
        seen.push(lines(&viewer)[0].clone());
    }
    let names = ["one", "two", "three", "two"];
    for (line, name) in seen.iter().zip(names) {
        assert!(line.contains(name), "{seen:?}");
    }
}

#[test]
fn the_whole_diff_is_counted_and_copied() {
    let change = Change {
        path: "a".into(),
        diff: Some("--- a\n+++ a\n@@ -1,2 +1,2 @@\n-x\n+y\n+-- z\n".into()),
    };
    let content = ViewerContent::Changes {
        changes: vec![change, samples::edit()],
        left_out: 1,
    };
    assert_eq!(content.summary(), "3 files  +5 −2");
    let mut viewer = viewer(content, 10);
    let OverlayAction::Stay(effects) = viewer.key(key(KeyCode::Char('y'))) else {
        panic!("copying closes nothing");
    };
    let [AppEffect::Copy(text)] = effects.as_slice() else {
        panic!("one thing is copied: {effects:?}");
    };
    assert!(text.starts_with("--- a\n+++ a\n@@"), "{text}");
    assert!(
        text.contains("--- src/parser.rs\n+++ src/parser.rs\n@@"),
        "{text}"
    );
}

#[test]
fn help_has_every_key_and_command() {
    for width in [40, 80, 160] {
        let mut viewer = Viewer::new(ViewerContent::Help);
        viewer.arrange(width, 500, &Theme::new(ColourScheme::Plain));
        let text = lines(&viewer).join("\n");
        for slash in crate::command::SLASH_COMMANDS {
            assert!(text.contains(&format!("/{}", slash.name)), "{}", slash.name);
        }
        for binding in crate::app::KEY_BINDINGS
            .iter()
            .filter(|one| !one.about.is_empty())
        {
            let key = binding.keys();
            let first = key.split(", ").next().unwrap();
            assert!(text.contains(first), "{key} at {width}");
        }
    }
}
