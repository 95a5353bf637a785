//! A key is sent to the provider and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use llm::script::ScriptedReply;

use crate::place::{Place, assert_code, eventually, run, stderr, stdout};
use crate::scene::{KEY, Scene, bash, say};

#[track_caller]
fn check_silent(output: &Output, key: &str) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        assert!(!text.contains(key), "{text}");
    }
}

/// Asserts that no file contains the key, except those that may.
#[track_caller]
fn check_files(place: &Place, key: &str, but: &[&str]) {
    for (path, content) in place.everything() {
        let content = content.unwrap_or_default();
        let is_found = content
            .windows(key.len())
            .any(|bytes| bytes == key.as_bytes());
        let may = but.iter().any(|name| path.ends_with(name));
        assert!(!is_found || may, "the key is in {}", path.display());
    }
}

#[test]
fn it_is_found_nowhere_after_a_session() {
    // Everything that a command can read; the command itself does not contain the key.
    let (first, second) = KEY.split_at(12);
    let search = format!(
        "env | sort; key() {{ printf '%s%s\\n' {first} {second}; }}; \
         key | grep -alsf - /proc/*/environ /proc/*/cmdline && echo FOUND; \
         key | grep -rlsf - /etc /workspace /tmp /home && echo FOUND; echo looked"
    );
    let scene = Scene::new([
        bash(&search),
        ScriptedReply::error(401, "authentication_error", "no"),
        say("done"),
    ]);
    let mut command = scene.hotcell(["run", "Look for the key"]);
    let output = run(command.env("HOTCELL_LOG", "trace"));
    assert_code(&output, 4);
    check_silent(&output, KEY);
    assert!(stderr(&output).contains("TRACE"), "nothing was traced");
    let output = run(scene
        .hotcell(["resume", "--json"])
        .env("HOTCELL_LOG", "trace"));
    assert_code(&output, 0);
    check_silent(&output, KEY);
    let requests = scene.server.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.header("x-api-key") == Some(KEY))
    );
    let results = scene.results();
    assert!(results[0].contains("looked"), "{results:?}");
    assert!(!results[0].contains("FOUND"), "{results:?}");
    assert!(!results[0].contains("ANTHROPIC"), "{results:?}");
    let session = scene.session();
    for arguments in [
        &["sessions", "export", &session, "-o", "-"][..],
        &["sessions", "show", &session],
        &["replay", &session],
        &["undo"],
        &["config"],
        &["config", "--json"],
    ] {
        let mut command = scene.hotcell(arguments.iter().copied());
        check_silent(&run(command.env("HOTCELL_LOG", "trace")), KEY);
    }
    let log = scene.place.home().join(".local/state/hotcell/audit.jsonl");
    eventually("the audit log is there", || log.exists());
    check_files(&scene.place, KEY, &[]);
}

#[test]
fn it_is_masked_where_settings_are_shown() {
    let place = Place::new();
    let folder = place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    let proxy = "http://person:pass-word-of-a-proxy@proxy.example:3128";
    fs::write(
        &file,
        format!(
            "proxy = \"{proxy}\"\n[anthropic]\napi_key = \"{KEY}\"\n[openai]\napi_key = \"short\"\n"
        ),
    )
    .unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    for arguments in [&["config"][..], &["config", "--json"]] {
        let output = run(&mut place.hotcell(arguments.iter().copied()));
        assert_code(&output, 0);
        check_silent(&output, KEY);
        check_silent(&output, "short");
        check_silent(&output, "pass-word");
        // Enough to tell two keys apart.
        assert!(stdout(&output).contains("********cret"), "{output:?}");
        let shown = file.display();
        let warning =
            format!("hotcell: others can read the key in `{shown}`\nhint: `chmod 600 {shown}`\n");
        assert_eq!(stderr(&output), warning);
    }
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(stderr(&run(&mut place.hotcell(["config"]))), "");
}

#[test]
fn it_is_not_in_complaints_about_the_file_that_has_it() {
    for (name, text) in [
        (".env", format!("ANTHROPIC_API_KEY={KEY} and more\n")),
        (".env", format!("ANTHROPIC_API_KEY='{KEY}\n")),
        ("config.toml", format!("[anthropic]\napi_key = \"{KEY}\n")),
        ("config.toml", format!("[anthropic]\napi_key = {KEY}\n")),
        (
            "config.toml",
            format!("[anthropic]\napi_key = [\"{KEY}\"]\n"),
        ),
        ("config.toml", format!("[anthropic\napi_key = \"{KEY}\"\n")),
    ] {
        let place = Place::new();
        fs::write(place.here(name), &text).unwrap();
        let mut command = place.hotcell(["run", "Answer"]);
        if name != ".env" {
            command.args(["--config", name]);
        }
        let output = run(&mut command);
        assert_code(&output, 2);
        check_silent(&output, KEY);
        assert!(stderr(&output).lines().count() <= 3, "{output:?}");
    }
    // Errors about the proxy do not contain its password.
    let place = Place::new();
    let mut command = place.hotcell(["run", "Answer"]);
    command.env("ANTHROPIC_API_KEY", KEY);
    command.env("HTTPS_PROXY", "no address with pass-word");
    let output = run(&mut command);
    assert_code(&output, 2);
    check_silent(&output, "pass-word");
}
