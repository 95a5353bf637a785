//! No meaning is expressed by colour alone, and there are no colours where they are turned off.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::test_screen::TestScreen;
use crate::samples::{question, ready, working_end, working_turn};
use crate::theme::ColourScheme;

/// Scenes with all kinds of screens.
fn screens(scheme: ColourScheme) -> Vec<TestScreen> {
    let mut scenes = Vec::new();
    let mut add = |live: &dyn Fn(&mut TestScreen)| {
        let mut screen = TestScreen::new(scheme, 100, 30);
        live(&mut screen);
        scenes.push(screen);
    };
    add(&|_| {});
    add(&|screen| screen.receive([ready("none", &[], false)]));
    add(&|screen| screen.receive(working_turn()));
    add(&|screen| {
        screen.receive(working_turn());
        screen.receive([question(1, "pypi.org")]);
        screen.wait(0);
        screen.wait(400);
    });
    for line in ["/help", "/cost", "/sessions", "/models"] {
        add(&|screen| {
            screen.receive(working_turn());
            screen.receive(working_end());
            screen.type_in(line);
            screen.press(KeyCode::Enter, KeyModifiers::NONE);
        });
    }
    add(&|screen| {
        screen.receive(working_turn());
        screen.receive(working_end());
        screen.press(KeyCode::Char('f'), KeyModifiers::CONTROL);
        screen.type_in("parser");
    });
    scenes
}

#[test]
fn a_terminal_without_colours_gets_none() {
    for mut screen in screens(ColourScheme::Plain) {
        for cell in screen.draw().backend().buffer().content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?}");
        }
    }
}

#[test]
fn colours_are_from_the_terminal_palette() {
    for scheme in [ColourScheme::Dark, ColourScheme::Light] {
        for mut screen in screens(scheme) {
            for cell in screen.draw().backend().buffer().content() {
                for colour in [cell.fg, cell.bg] {
                    let is_own = !matches!(colour, Color::Rgb(..) | Color::Indexed(_));
                    assert!(is_own, "{cell:?}");
                }
                // In some palettes these equal the background.
                let is_lost = match scheme {
                    ColourScheme::Dark => matches!(cell.fg, Color::Black | Color::DarkGray),
                    _ => matches!(cell.fg, Color::White | Color::Gray | Color::Yellow),
                };
                assert!(!is_lost, "{cell:?}");
            }
        }
    }
}

#[test]
fn a_missing_sandbox_is_bold_in_every_scheme() {
    for scheme in [ColourScheme::Dark, ColourScheme::Light, ColourScheme::Plain] {
        let mut screen = TestScreen::new(scheme, 80, 24);
        screen.receive(working_turn());
        screen.receive([ready("none", &[], false)]);
        let terminal = screen.draw();
        let buffer = terminal.backend().buffer();
        let cells = buffer.content();
        let text: Vec<&str> = cells.iter().map(|cell| cell.symbol()).collect();
        let index = text
            .windows(10)
            .position(|cells| cells.concat() == "NO SANDBOX");
        let index = index.expect("the warning is on the screen");
        for cell in &cells[index..index + 10] {
            assert!(cell.modifier.contains(Modifier::BOLD), "{scheme:?}");
        }
    }
}
