//! No meaning is expressed by colour alone, and there are no colours where they are turned off.

use crossterm::event::{KeyCode, KeyModifiers};
use ratatui::style::{Color, Modifier};

use super::scene::UiScene;
use crate::samples::{question, ready, working_end, working_turn};
use crate::theme::ColourScheme;

/// Scenes with all kinds of screens.
fn screens(look: ColourScheme) -> Vec<UiScene> {
    let mut scenes = Vec::new();
    let mut add = |live: &dyn Fn(&mut UiScene)| {
        let mut scene = UiScene::new(look, 100, 30);
        live(&mut scene);
        scenes.push(scene);
    };
    add(&|_| {});
    add(&|scene| scene.hear([ready("none", &[], false)]));
    add(&|scene| scene.hear(working_turn()));
    add(&|scene| {
        scene.hear(working_turn());
        scene.hear([question(1, "pypi.org")]);
        scene.wait(0);
        scene.wait(400);
    });
    for line in ["/help", "/cost", "/sessions", "/models"] {
        add(&|scene| {
            scene.hear(working_turn());
            scene.hear(working_end());
            scene.type_in(line);
            scene.press(KeyCode::Enter, KeyModifiers::NONE);
        });
    }
    add(&|scene| {
        scene.hear(working_turn());
        scene.hear(working_end());
        scene.press(KeyCode::Char('f'), KeyModifiers::CONTROL);
        scene.type_in("parser");
    });
    scenes
}

#[test]
fn a_plain_terminal_gets_no_colours() {
    for mut scene in screens(ColourScheme::Plain) {
        for cell in scene.draw().backend().buffer().content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?}");
        }
    }
}

#[test]
fn colours_are_of_the_persons_own_palette() {
    for look in [ColourScheme::Dark, ColourScheme::Light] {
        for mut scene in screens(look) {
            for cell in scene.draw().backend().buffer().content() {
                for colour in [cell.fg, cell.bg] {
                    let is_own = !matches!(colour, Color::Rgb(..) | Color::Indexed(_));
                    assert!(is_own, "{cell:?}");
                }
                // In some palettes these equal the background.
                let is_lost = match look {
                    ColourScheme::Dark => matches!(cell.fg, Color::Black | Color::DarkGray),
                    _ => matches!(cell.fg, Color::White | Color::Gray | Color::Yellow),
                };
                assert!(!is_lost, "{cell:?}");
            }
        }
    }
}

#[test]
fn a_missing_sandbox_is_bold_in_every_look() {
    for look in [ColourScheme::Dark, ColourScheme::Light, ColourScheme::Plain] {
        let mut scene = UiScene::new(look, 80, 24);
        scene.hear(working_turn());
        scene.hear([ready("none", &[], false)]);
        let terminal = scene.draw();
        let buffer = terminal.backend().buffer();
        let cells = buffer.content();
        let text: Vec<&str> = cells.iter().map(|cell| cell.symbol()).collect();
        let place = text
            .windows(10)
            .position(|cells| cells.concat() == "NO SANDBOX");
        let place = place.expect("the warning is on the screen");
        for cell in &cells[place..place + 10] {
            assert!(cell.modifier.contains(Modifier::BOLD), "{look:?}");
        }
    }
}
