//! `hotcell audit verify`: an intact log, and every way to damage one.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use insta::assert_snapshot;

use crate::place::{Place, assert_code, run, stdout};

/// A log of one run: start, exec, end of the exec, end.
fn recorded() -> (Place, PathBuf) {
    let place = Place::with_workspace();
    let output = place.exec(&["--audit", "log.jsonl"], "exit 3");
    assert_code(&output, 3);
    let log = place.here("log.jsonl");
    (place, log)
}

fn verify(place: &Place) -> Output {
    run(&mut place.hotcell(["audit", "verify", "log.jsonl"]))
}

#[test]
fn a_whole_log() {
    let (place, log) = recorded();
    let output = verify(&place);
    assert_code(&output, 0);
    assert_snapshot!(stdout(&output), @"4 lines, all intact and in order");
    // A further run continues it.
    assert_code(&place.exec(&["--audit", "log.jsonl"], "true"), 0);
    assert_code(&verify(&place), 0);
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 8);
    // By variable, by default in the user's state folder, or not at all.
    let mut command = place.hotcell(["exec", "--", "true"]);
    assert_code(&run(command.env("HOTCELL_AUDIT", "other.jsonl")), 0);
    assert!(place.here("other.jsonl").exists());
    assert!(!place.home().join(".local").exists());
    assert_code(&place.exec(&["--no-audit"], "true"), 0);
    assert!(!place.home().join(".local").exists());
    assert_code(&place.exec(&[], "true"), 0);
    assert!(
        place
            .home()
            .join(".local/state/hotcell/audit.jsonl")
            .exists()
    );
}

#[test]
fn every_change_is_found() {
    let check = |change: &dyn Fn(&str) -> String| {
        let (place, log) = recorded();
        let before = fs::read_to_string(&log).unwrap();
        fs::write(&log, change(&before)).unwrap();
        let output = verify(&place);
        assert_code(&output, 1);
        stdout(&output)
    };
    let without = |text: &str, number: usize| -> String {
        let lines = text.lines().enumerate();
        let kept = lines.filter(|(index, _)| *index != number);
        kept.map(|(_, line)| format!("{line}\n")).collect()
    };
    // A changed line.
    assert_snapshot!(check(&|text| text.replace("exit 3", "exit 0")), @r"
        line 3: hash of the line before does not match: line 2 or 3 was changed, removed or moved
        4 lines, 1 finding
    ");
    // Removed lines: the first, one in the middle, the last.
    assert_snapshot!(check(&|text| without(text, 0)), @r"
        line 1: is not the beginning of a log: lines before it were removed
        3 lines, 1 finding
    ");
    assert_snapshot!(check(&|text| without(text, 1)), @r"
        line 2: hash of the line before does not match: line 1 or 2 was changed, removed or moved
        3 lines, 1 finding
    ");
    assert_snapshot!(check(&|text| without(text, 3)), @r"
        line 4: 1 record was removed at the end
        3 lines, 1 finding
    ");
    // Two lines that changed places.
    let swapped = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.swap(1, 2);
        lines.join("\n") + "\n"
    };
    assert_snapshot!(check(&swapped), @r"
        line 2: hash of the line before does not match: line 1 or 2 was changed, removed or moved
        line 3: hash of the line before does not match: line 2 or 3 was changed, removed or moved
        line 4: hash of the line before does not match: line 3 or 4 was changed, removed or moved
        4 lines, 3 findings
    ");
    // Cut off in the middle of a line, and empty.
    assert_snapshot!(check(&|text| text[..text.len() - 20].to_owned()), @r"
        line 4: ends without a newline: the last write was cut off, or bytes were removed
        line 4: is not a record: it was changed, cut off or inserted
        line 5: 1 record was removed at the end
        4 lines, 3 findings
    ");
    assert_snapshot!(check(&|_| String::new()), @r"
        line 1: 4 records were removed at the end
        0 lines, 1 finding
    ");
}
