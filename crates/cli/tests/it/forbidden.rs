//! A machine that forbids user namespaces: the responsible setting is named, and nothing runs.

use crate::place::{Place, assert_code, hotcell, run, stderr, stdout};

/// A shell line in a user namespace that allows none below it; `$H` is the program.
fn run_without_namespaces(place: &Place, line: &str) -> std::process::Output {
    let mut command = place.program("/usr/bin/unshare");
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; ";
    command.args([
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        &format!("{forbid}{line}"),
    ]);
    run(command.env("H", hotcell()))
}

#[test]
fn nothing_runs_and_the_setting_is_named() {
    let place = Place::with_workspace();
    let output = run_without_namespaces(&place, "exec \"$H\" exec -- sh -c 'echo ran; touch ran'");
    assert_code(&output, 125);
    assert_eq!(stdout(&output), "");
    assert!(!place.here("workspace/ran").exists());
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].starts_with("hotcell: cannot put up the native walls: "),
        "{said}"
    );
    let hint = "hint: user namespaces are used up or switched off: \
                `sysctl -w user.max_user_namespaces=15000` allows them";
    assert_eq!(lines[1], hint);
    // Running without walls is never chosen automatically.
    for flags in ["--backend auto", "--backend native"] {
        let line = format!("exec \"$H\" exec {flags} -- sh -c 'echo ran'");
        let output = run_without_namespaces(&place, &line);
        assert_code(&output, 125);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn the_doctor_says_the_same() {
    let place = Place::with_workspace();
    let output = run_without_namespaces(&place, "exec \"$H\" doctor");
    assert_code(&output, 1);
    let said = stdout(&output);
    assert!(said.starts_with("native  does not work\n"), "{said}");
    assert!(said.contains("user.max_user_namespaces"), "{said}");
    let output = run_without_namespaces(&place, "exec \"$H\" doctor --json");
    assert_code(&output, 1);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["auto"], serde_json::Value::Null);
    assert_eq!(report["backends"][0]["works"], false);
}
