//! Where settings come from and which one wins, checked with requests and `config`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, assert_code, run, stderr, stdout};
use crate::scene::{KEY, Scene, say};

/// The settings in effect, from `config --json`.
#[track_caller]
fn config(command: &mut Command) -> Value {
    let output = run(command.arg("--json"));
    assert_code(&output, 0);
    serde_json::from_str(&stdout(&output)).unwrap()
}

/// Writes a settings file in its default place.
fn write_file(place: &Place, text: &str) {
    let folder = place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    fs::write(&file, text).unwrap();
    fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn each_source_counts_for_more_than_the_one_before() {
    let scene = Scene::new(["1", "2", "3", "4", "5"].map(say));
    let place = &scene.place;
    let url = scene.server.base_url();
    let check =
        |variables: &[(&str, &str)], flags: &[&str], expect: (&str, u64, &str), from: &str| {
            let mut command = place.hotcell(["run", "Answer"]);
            command.args(flags).envs(variables.iter().copied());
            command.env("ANTHROPIC_BASE_URL", &url);
            let output = run(&mut command);
            assert_code(&output, 0);
            assert_eq!(stderr(&output).matches("hotcell:").count(), 0, "{output:?}");
            let request = scene.server.requests().pop().unwrap();
            let body = request.json();
            assert_eq!(body["model"], expect.0);
            assert_eq!(body["max_tokens"], expect.1);
            assert_eq!(request.header("x-api-key"), Some(expect.2));
            let mut command = place.hotcell(["config"]);
            let shown = config(command.envs(variables.iter().copied()).args(flags));
            let model = &shown["model"];
            assert_eq!(
                (&model["value"], &model["from"]),
                (&expect.0.into(), &from.into())
            );
            assert_eq!(shown["max_tokens"]["value"], expect.1.to_string());
        };
    let dotenv = "MODEL=claude-dotenv\nMAX_TOKENS=1001\nANTHROPIC_API_KEY=key-dotenv\n";
    fs::write(place.here(".env"), dotenv).unwrap();
    assert_code(&run(&mut place.hotcell(["env", "allow"])), 0);
    let from = "MODEL in `.env`";
    check(&[], &[], ("claude-dotenv", 1001, "key-dotenv"), from);
    let variables = [
        ("MODEL", "claude-variable"),
        ("MAX_TOKENS", "1002"),
        ("ANTHROPIC_API_KEY", "key-variable"),
    ];
    let from = "MODEL in environment";
    check(
        &variables,
        &[],
        ("claude-variable", 1002, "key-variable"),
        from,
    );
    // An empty variable counts as not set.
    let nothing = [("MODEL", ""), ("MAX_TOKENS", ""), ("ANTHROPIC_API_KEY", "")];
    check(
        &nothing,
        &[],
        ("claude-dotenv", 1001, "key-dotenv"),
        "MODEL in `.env`",
    );
    let file = "model = \"claude-file\"\nmax_tokens = 1003\n[anthropic]\napi_key = \"key-file\"\n";
    write_file(place, file);
    let from = format!(
        "`{}`",
        place.home().join(".config/hotcell/config.toml").display()
    );
    check(&variables, &[], ("claude-file", 1003, "key-file"), &from);
    let flags = ["--model", "claude-flag", "--max-tokens", "1004"];
    check(
        &variables,
        &flags,
        ("claude-flag", 1004, "key-file"),
        "flag",
    );
}

#[test]
fn an_address_in_a_flag_wins_over_the_file() {
    let scene = Scene::new([say("1")]);
    write_file(
        &scene.place,
        "model = \"claude-file\"\nbase_url = \"http://127.0.0.1:1\"\n",
    );
    let url = scene.server.base_url();
    let flags = [
        "--model",
        "claude-flag",
        "--max-tokens",
        "1004",
        "--base-url",
        &url,
    ];
    let mut command = scene.place.hotcell(["run", "Answer"]);
    assert_code(&run(command.args(flags).env("ANTHROPIC_API_KEY", KEY)), 0);
    let body = scene.server.requests()[0].json();
    assert_eq!(
        (&body["model"], &body["max_tokens"]),
        (&"claude-flag".into(), &1004.into())
    );
}

#[test]
fn the_defaults() {
    let place = Place::new();
    let shown = config(&mut place.hotcell(["config"]));
    for (name, value) in [
        ("model", "claude-sonnet-4-5-20250929"),
        ("max_tokens", "8096"),
        ("workspace", "./workspace"),
        ("sandbox", "true"),
        ("anthropic.base_url", "https://api.anthropic.com"),
    ] {
        assert_eq!(shown[name]["value"], value);
        assert_eq!(shown[name]["from"], "default");
    }
    assert_eq!(shown["anthropic.api_key"]["from"], "not set");
    let output = run(&mut place.hotcell(["config"]));
    assert!(stdout(&output).contains(".config/hotcell/config.toml (not found)\n"));
}

/// The error of `hotcell run`, with the home replaced.
#[track_caller]
fn complaint(place: &Place, command: &mut Command) -> String {
    let output = run(command);
    assert_code(&output, 2);
    assert_eq!(stdout(&output), "");
    let said = stderr(&output).replace(place.home().to_str().unwrap(), "HOME");
    assert!(said.lines().count() <= 2, "{said}");
    said
}

#[test]
fn a_file_that_is_wrong() {
    let mut all = String::new();
    for text in [
        "flavour = \"red\"\n",
        "[anthropic]\nkey = \"x\"\n",
        "model = \"open\n[anthropic]\n",
        "model = [\"a\", \"b\"]\n",
        "max_tokens = \"many\"\n",
        "max_tokens = 0.5\n",
        "max_tokens = 99999999999\n",
        "thinking = 10\n",
        "base_url = \"localhost:8080\"\n",
        "sandbox = \"perhaps\"\n",
        "prices = 3\n",
        "[prices.\"x\"]\ninput = \"a lot\"\n",
        "[budget]\ntime = \"soon\"\n",
        "[budget]\ncost = -1\n",
    ] {
        let place = Place::new();
        write_file(&place, text);
        let mut command = place.hotcell(["run", "Answer"]);
        let said = complaint(&place, command.env("ANTHROPIC_API_KEY", KEY));
        all.push_str(&format!(
            "{}\n{said}\n",
            text.trim_end().replace('\n', " ⏎ ")
        ));
        assert!(!place.here("workspace").exists(), "{text}");
    }
    insta::assert_snapshot!(all, @r#"
        flavour = "red"
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: there is no setting `flavour`
        hint: there are model, max_tokens, thinking, base_url, proxy, anthropic.api_key, anthropic.base_url, openai.api_key, openai.base_url, workspace, sandbox, backend, require, image, backends.cache, backends.podman, backends.podman_runtime, backends.docker_socket, backends.runsc, backends.gvisor_platform, backends.qemu, backends.firecracker, backends.jailer, backends.microsandbox, backends.kernel, backends.modules, backends.machines_waiting, budget.cost, budget.tokens, budget.turns, budget.time, server.url, server.api_key, colour

        [anthropic] ⏎ key = "x"
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: there is no setting `anthropic.key`
        hint: there are model, max_tokens, thinking, base_url, proxy, anthropic.api_key, anthropic.base_url, openai.api_key, openai.base_url, workspace, sandbox, backend, require, image, backends.cache, backends.podman, backends.podman_runtime, backends.docker_socket, backends.runsc, backends.gvisor_platform, backends.qemu, backends.firecracker, backends.jailer, backends.microsandbox, backends.kernel, backends.modules, backends.machines_waiting, budget.cost, budget.tokens, budget.turns, budget.time, server.url, server.api_key, colour

        model = "open ⏎ [anthropic]
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: line 1: invalid basic string, expected `"`

        model = ["a", "b"]
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: `model` must be text, a number or a boolean

        max_tokens = "many"
        hotcell: `max_tokens` from `HOME/.config/hotcell/config.toml` is `many`: it must be a whole number from 1 on
        hint: `hotcell config` shows all settings and where they come from

        max_tokens = 0.5
        hotcell: `max_tokens` from `HOME/.config/hotcell/config.toml` is `0.5`: it must be a whole number from 1 on
        hint: `hotcell config` shows all settings and where they come from

        max_tokens = 99999999999
        hotcell: `max_tokens` from `HOME/.config/hotcell/config.toml` is `99999999999`: this number is too large
        hint: `hotcell config` shows all settings and where they come from

        thinking = 10
        hotcell: `thinking` must be from 1024 to below `max_tokens` (8096)
        hint: choose another `--thinking`, or raise `--max-tokens`

        base_url = "localhost:8080"
        hotcell: the provider's address from `HOME/.config/hotcell/config.toml` is `localhost:8080`
        hint: write it as `https://HOST` or `http://HOST:PORT`

        sandbox = "perhaps"
        hotcell: `sandbox` from `HOME/.config/hotcell/config.toml` is `perhaps`: it must be true or false
        hint: `hotcell config` shows all settings and where they come from

        prices = 3
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: `prices` is not a table

        [prices."x"] ⏎ input = "a lot"
        hotcell: cannot understand the list of prices
        hint: write `[prices."NAME"]` with `input` and `output` in US dollars per million tokens

        [budget] ⏎ time = "soon"
        hotcell: `budget.time` from `HOME/.config/hotcell/config.toml` is `soon`: a time is a whole number with ms, s, m, h or d, such as `30s`
        hint: `hotcell config` shows all settings and where they come from

        [budget] ⏎ cost = -1
        hotcell: `budget.cost` from `HOME/.config/hotcell/config.toml` is `-1`: a cost is a number of US dollars above 0, such as `0.50`
        hint: `hotcell config` shows all settings and where they come from
    "#);
    let place = Place::new();
    let mut command = place.hotcell(["config", "--config", "missing.toml"]);
    insta::assert_snapshot!(complaint(&place, &mut command), @r"hotcell: cannot read the settings `missing.toml`: No such file or directory (os error 2)");
}

#[test]
fn no_key_at_all() {
    let place = Place::new();
    let said = complaint(&place, &mut place.hotcell(["run", "Answer"]));
    insta::assert_snapshot!(said, @r#"
        hotcell: ANTHROPIC_API_KEY is not set
        hint: set it in the environment (`export ANTHROPIC_API_KEY=…`), in `.env` in this folder, or in `HOME/.config/hotcell/config.toml` (`[anthropic]`, `api_key = "…"`); `hotcell demo` needs none
    "#);
    let said = complaint(
        &place,
        &mut place.hotcell(["run", "--model", "openai/x", "Answer"]),
    );
    insta::assert_snapshot!(said, @r"
        hotcell: an `openai/…` model requires a base URL
        hint: set it, such as `--base-url http://127.0.0.1:11434`
    ");
}

#[test]
fn prices() {
    let scene = Scene::new([say("1")]);
    let task = [
        "run",
        "--model",
        "claude-unheard-of",
        "--max-cost",
        "1",
        "Answer",
    ];
    let said = complaint(&scene.place, &mut scene.hotcell(task));
    insta::assert_snapshot!(said, @r"
        hotcell: the price of `claude-unheard-of` is unknown, so `--max-cost` cannot be enforced
        hint: use `--max-tokens-total`, or name its price in the settings file under `prices`
    ");
    assert_eq!(scene.server.request_count(), 0);
    write_file(
        &scene.place,
        "[prices.\"claude-unheard-of\"]\ninput = 1000.0\noutput = 1000.0\n",
    );
    let output = scene.run(&task);
    assert_code(&output, 0);
    let cost = scene.sessions()[0]["cost"].as_f64().unwrap();
    assert!(cost > 0.0, "{cost}");
    // A built-in model is still known.
    let shown = scene.done(&["config"]);
    assert!(shown.contains("claude-sonnet-4-5-20250929"), "{shown}");
}

#[test]
fn a_file_inside_the_workspace_is_not_read() {
    let scene = Scene::new(["1", "2", "3", "4"].map(say));
    let place = &scene.place;
    let notice = "hotcell: `.env` is not read: it lies inside the workspace";
    fs::create_dir(scene.file("")).unwrap();
    fs::write(scene.file(".env"), "MODEL=claude-planted\n").unwrap();
    let workspace = scene.file("").canonicalize().unwrap();
    let check = |command: &mut Command| {
        let output = run(command.current_dir(&workspace));
        assert_code(&output, 0);
        assert!(stderr(&output).starts_with(notice), "{output:?}");
        let body = scene.server.requests().pop().unwrap().json();
        assert_eq!(body["model"], "claude-sonnet-4-5-20250929");
    };
    check(&mut scene.hotcell(["run", "--workspace", ".", "Answer"]));
    check(scene.hotcell(["run", "Answer"]).env("SAFEDIR", "."));
    // The workspace of a session counts, whatever else is set.
    let session = scene.session();
    check(&mut scene.hotcell(["resume", &session, "-p", "Answer"]));
    write_file(place, &format!("workspace = \"{}\"\n", workspace.display()));
    check(&mut scene.hotcell(["run", "Answer"]));
}
