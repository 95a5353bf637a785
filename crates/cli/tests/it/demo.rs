//! `hotcell demo`: works without any setup, and says that the model is scripted.

use std::fs;

use crate::json_events;
use crate::place::{Place, assert_code, run, stderr, stdout};
use crate::scene::lines;

#[test]
fn it_works_with_an_empty_environment() {
    let place = Place::new();
    let mut command = place.hotcell(["demo"]);
    // Tests use their own home.
    command.env_clear().env("HOME", place.home());
    let output = run(&mut command);
    assert_code(&output, 0);
    let said = stderr(&output);
    assert!(
        said.starts_with(
            "DEMO: the model is a script; the sandbox, the tools and their results are real\n"
        ),
        "{said}"
    );
    assert!(said.contains("  │ Hello, World!\n"), "{said}");
    assert!(said.contains("Network is unreachable"), "{said}");
    assert!(
        stdout(&output).starts_with("Done: `hello.py` prints"),
        "{output:?}"
    );
    let file = fs::read_to_string(place.here("workspace/hello.py")).unwrap();
    assert!(file.contains("print(\"Hello, World!\")"), "{file}");
    // It leaves an ordinary session, marked as scripted.
    let listed = lines(&stdout(&run(&mut place.hotcell(["sessions", "--json"]))));
    assert_eq!(listed.len(), 1);
    let model = listed[0]["model"].as_str().unwrap();
    assert!(model.contains("script"), "{model}");
    let session = listed[0]["session"].as_str().unwrap();
    assert_code(&run(&mut place.hotcell(["replay", session])), 0);
    assert_code(&run(&mut place.hotcell(["undo"])), 0);
    assert!(!place.here("workspace/hello.py").exists());
}

#[test]
fn it_tells_its_events_too() {
    let place = Place::new();
    let output = run(&mut place.hotcell(["demo", "--json"]));
    assert_code(&output, 0);
    let events = lines(&stdout(&output));
    json_events::check(&events, 1);
    assert_eq!(events.last().unwrap()["type"], "checkpoint_made");
}
