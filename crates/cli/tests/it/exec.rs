//! `hotcell exec`: streams, exit codes, and files in the workspace.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::place::{
    Place, assert_code, eventually, feed, finish, processes_with, run, start, stderr, stdout,
};

#[test]
fn the_first_command_of_the_manual_works() {
    let place = Place::new();
    let output = place.exec(&[], "id -u; pwd; echo hi > /workspace/x");
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "1000\n/workspace\n");
    assert_eq!(stderr(&output), "");
    assert_eq!(fs::read(place.here("workspace/x")).unwrap(), b"hi\n");
}

#[test]
fn bytes_pass_through_unchanged() {
    let place = Place::with_workspace();
    let mut state = 88172645463325252u64;
    let mut noise: Vec<u8> = (0..=255).collect();
    while noise.len() < 5_000_001 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise.extend_from_slice(&state.to_le_bytes());
    }
    for input in [&b""[..], b"no newline", b"\xff\xfe\0\r\n\x1a", &noise] {
        let output = feed(&mut place.hotcell(["exec", "--", "cat"]), input);
        assert_code(&output, 0);
        assert!(
            output.stdout == input,
            "{} bytes came back",
            output.stdout.len()
        );
        assert_eq!(output.stderr, b"");
        let script = "cat >&2; printf out";
        let output = feed(
            &mut place.hotcell(["exec", "--", "sh", "-c", script]),
            input,
        );
        assert!(
            output.stderr == input,
            "{} bytes came back",
            output.stderr.len()
        );
        assert_eq!(output.stdout, b"out");
    }
}

#[test]
fn the_exit_code_is_the_commands() {
    let place = Place::with_workspace();
    for code in [
        0, 1, 2, 3, 42, 77, 100, 124, 125, 126, 127, 128, 137, 200, 254, 255,
    ] {
        let output = place.exec(&["--no-audit"], &format!("exit {code}"));
        assert_code(&output, code);
        assert_eq!(stderr(&output), "");
    }
    for (signal, code) in [
        ("HUP", 129),
        ("INT", 130),
        ("KILL", 137),
        ("TERM", 143),
        ("40", 168),
    ] {
        let output = place.exec(&["--no-audit"], &format!("kill -{signal} $$"));
        assert_code(&output, code);
        assert_eq!(stderr(&output), "", "no limit did this");
    }
}

#[test]
fn a_command_that_cannot_be_started_is_told_of_as_shells_do() {
    let place = Place::with_workspace();
    fs::write(place.here("workspace/data"), "").unwrap();
    let check = |command: &str, code, says: &str| {
        let output = run(&mut place.hotcell(["exec", "--", command]));
        assert_code(&output, code);
        assert_eq!(stderr(&output), format!("hotcell: {says}\n"));
    };
    check(
        "no-such-thing",
        127,
        "cannot start `no-such-thing`: No such file or directory",
    );
    check(
        "./nothing",
        127,
        "cannot start `./nothing`: No such file or directory",
    );
    check("./data", 126, "cannot start `./data`: Permission denied");
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let place = Place::with_workspace();
    let marker = format!("y-{}-reader", std::process::id());
    let mut child = start(&mut place.hotcell(["exec", "--", "yes", &marker]));
    let mut first = [0; 8];
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut first).unwrap();
    drop(out);
    assert_code(&finish(child), 141);
    eventually("the command is gone", || processes_with(&marker).is_empty());
    // A closed standard error stops nothing.
    let mut command = place.hotcell(["exec", "--", "sh", "-c", "echo err >&2; echo out"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let output = finish(child);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "out\n");
}

#[test]
fn input_that_nobody_reads_keeps_nobody() {
    let place = Place::with_workspace();
    let mut child = start(place.hotcell(["exec", "--", "true"]).stdin(Stdio::piped()));
    // Held open until the program has ended by itself.
    let stdin = child.stdin.take();
    assert_code(&finish(child), 0);
    drop(stdin);
    // Without any standard streams there is still an exit code.
    let script = "exec \"$0\" exec -- sh -c 'cat; echo out; exit 5' <&- >&- 2>&-";
    let mut command = place.program("/bin/sh");
    command.args(["-c", script]).arg(crate::place::hotcell());
    assert_code(&run(&mut command), 5);
}

#[test]
fn variables_are_given_not_inherited() {
    let place = Place::with_workspace();
    let mut command = place.hotcell([
        "exec", "--env", "A=1", "--env", "B=x=y", "--env", "EMPTY=", "--", "env",
    ]);
    command.env("SECRET_OF_THE_HOST", "1").env("LD_PRELOAD", "");
    let output = run(&mut command);
    let shown = stdout(&output);
    let lines: Vec<&str> = shown.lines().collect();
    for expect in ["A=1", "B=x=y", "EMPTY=", "HOME=/home/hotcell"] {
        assert!(lines.contains(&expect), "{shown}");
    }
    assert!(
        !shown.contains("SECRET") && !shown.contains("LD_PRELOAD"),
        "{shown}"
    );
    // The audit log has their names but not their values.
    let log = fs::read_to_string(place.home().join(".local/state/hotcell/audit.jsonl")).unwrap();
    assert!(!log.contains("x=y"), "{log}");
}

#[test]
fn the_workspace_is_found_by_flag_variable_file_and_default() {
    let check = |prepare: &dyn Fn(&Place), flags: &[&str], safedir: Option<&str>, expect: &str| {
        let place = Place::new();
        prepare(&place);
        let arguments = ["exec"]
            .iter()
            .chain(flags)
            .chain(&["--", "touch", "made"])
            .copied();
        let mut command = place.hotcell(arguments);
        command.envs(safedir.map(|folder| ("SAFEDIR", folder)));
        let output = run(&mut command);
        assert_code(&output, 0);
        assert!(
            place.here(expect).join("made").exists(),
            "{expect}: {:?}",
            place.everything()
        );
    };
    let nothing = |_: &Place| {};
    let folder = |place: &Place| fs::create_dir(place.here("mine")).unwrap();
    let file = |place: &Place| {
        fs::create_dir(place.here("mine")).unwrap();
        let settings = place.home().join(".config/hotcell");
        fs::create_dir_all(&settings).unwrap();
        fs::write(settings.join("config.toml"), "workspace = \"from-file\"\n").unwrap();
    };
    check(&nothing, &[], None, "workspace");
    check(&nothing, &[], Some("deep/safe"), "deep/safe");
    check(&nothing, &[], Some(""), "workspace");
    check(&file, &[], None, "from-file");
    check(&file, &[], Some("from-variable"), "from-file");
    check(&folder, &["--workspace", "mine"], Some("other"), "mine");
    check(&file, &["--workspace", "mine"], None, "mine");
}

#[test]
fn a_root_of_ones_own_is_used() {
    let place = Place::with_workspace();
    fs::create_dir(place.here("image")).unwrap();
    let output = run(&mut place.hotcell(["exec", "--rootfs", "image", "--", "/bin/sh"]));
    assert_code(&output, 127);
    assert_eq!(
        stderr(&output),
        "hotcell: cannot start `/bin/sh`: No such file or directory\n"
    );
    assert_eq!(fs::read_dir(place.here("image")).unwrap().count(), 0);
}
