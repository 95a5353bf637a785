//! How a run ends, by its exit code: done, failed, budget, provider.

use llm::script::ScriptedReply;
use protocol::Usage;
use testkit::{Replies, ScriptedAnswer};

use crate::place::{assert_code, run, stderr, stdout};
use crate::scene::{Scene, bash, lines, say, write};

/// Runs a task that ends with this code and this last line, and leaves a session with this outcome.
#[track_caller]
fn check(replies: impl Into<Replies>, flags: &[&str], code: i32, last_words: &str, outcome: &str) {
    let scene = Scene::new(replies);
    let output = scene.run(&[&["run", "Do it"], flags].concat());
    assert_code(&output, code);
    let said = stderr(&output);
    let last = said.lines().last().unwrap();
    assert!(last.contains(last_words), "no `{last_words}` in:\n{said}");
    assert_eq!(scene.latest()["outcome"], outcome);
}

#[test]
fn a_task_that_failed_is_1() {
    let mut refused = say("I will not do that.");
    refused.stop = Some("refusal".into());
    check(
        refused,
        &[],
        1,
        "hotcell: failed: the model refused",
        "failed",
    );

    let circles = Replies::decide(|_| bash("cat same"));
    let words = "failed: the model called `bash` 8 times";
    check(circles, &[], 1, words, "failed");

    let mut full = say("…");
    full.stop = Some("model_context_window_exceeded".into());
    let words = "failed: the conversation exceeds the model's context window";
    check(full, &[], 1, words, "failed");
}

#[test]
fn a_sandbox_that_cannot_start_is_1() {
    let scene = Scene::new([say("never said")]);
    // Walls that fail: an image without the folders that they require.
    std::fs::create_dir(scene.place.here("image")).unwrap();
    std::fs::write(scene.place.here("image/proc"), "").unwrap();
    let flags = ["run", "--rootfs", "image", "Do it"];
    let output = scene.run(&flags);
    assert_code(&output, 1);
    assert_eq!(stdout(&output), "");
    let said = stderr(&output);
    assert!(
        said.contains("hotcell: cannot put up the native walls: "),
        "{said}"
    );
    assert_eq!(scene.server.request_count(), 0);
    // All events of the session are printed.
    let output = scene.run(&[&flags[..3], &["--json", "Do it"]].concat());
    assert_code(&output, 1);
    let kinds: Vec<String> = lines(&stdout(&output))
        .iter()
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["session_started", "turn_started"]);
}

#[test]
fn folders_that_cannot_be_made_are_1() {
    let scene = Scene::new([say("never said")]);
    std::fs::write(scene.place.home().join(".local"), "no folder").unwrap();
    for arguments in [
        &["run", "Do it"][..],
        &["run", "--no-audit", "Do it"],
        &["demo"],
        &["sessions"],
    ] {
        let output = scene.run(arguments);
        assert_code(&output, 1);
        let said = stderr(&output);
        assert!(said.starts_with("hotcell: cannot "), "{said}");
        assert!(said.contains("\nhint: choose "), "{said}");
    }
}

/// A reply that uses a thousand tokens of each kind.
fn costly() -> ScriptedReply {
    ScriptedReply {
        usage: Some(Usage {
            input_tokens: 1000,
            output_tokens: 1000,
            ..Usage::default()
        }),
        ..bash("date +%N")
    }
}

#[test]
fn a_budget_that_is_used_up_is_3() {
    let replies = || Replies::decide(|_| costly());
    for (flags, words) in [
        (
            ["--max-turns", "2"],
            "the budget is used up: 2 requests made",
        ),
        (
            ["--max-tokens-total", "3000"],
            "the budget is used up: 4000 of 3000 tokens used",
        ),
        // 3 dollars for a million tokens in, 15 for a million out: 0.018 a request.
        (
            ["--max-cost", "0.02"],
            "the budget is used up: $0.0360 of $0.0200 spent",
        ),
    ] {
        check(replies(), &flags, 3, words, "budget");
    }
    // The time limit ends a running command.
    let words = "the budget is used up: the time limit of 1s was reached";
    check(
        [bash("sleep 1000")],
        &["--max-time", "1s"],
        3,
        words,
        "budget",
    );
}

#[test]
fn the_file_sets_budgets_too_and_they_are_shown() {
    let scene = Scene::new(Replies::decide(|_| costly()));
    let file = scene.place.here("config.toml");
    std::fs::write(&file, "[budget]\nturns = 1\ncost = 5.0\n").unwrap();
    let task = ["run", "--config", "config.toml", "Do it"];
    let output = scene.run(&task);
    assert_code(&output, 3);
    let said = stderr(&output);
    assert!(
        said.contains("1 request of 1 · 2.0k tokens · $0.0180 of $5.00"),
        "{said}"
    );
    // A flag overrides the file.
    let output = scene.run(&[&task[..3], &["--max-turns", "2", "Do it"]].concat());
    assert_code(&output, 3);
    assert!(stderr(&output).contains("2 requests of 2"), "{output:?}");
}

#[test]
fn a_provider_that_fails_is_4() {
    let error = |status, kind| ScriptedReply::error(status, kind, "so it is");
    let refused = |status, kind| check(error(status, kind), &[], 4, "so it is", "provider");
    refused(401, "authentication_error");
    refused(400, "invalid_request_error");
    refused(403, "permission_error");
    refused(404, "not_found_error");
    let overloaded = Replies::decide(move |_| {
        ScriptedAnswer::reply(error(529, "overloaded_error")).with_header("retry-after-ms", "1")
    });
    check(
        overloaded,
        &[],
        4,
        "[request req_0006]; tried 6 times",
        "provider",
    );
    let words = "the provider asks to wait 3600 s";
    let patient =
        ScriptedAnswer::reply(error(429, "rate_limit_error")).with_header("retry-after", "3600");
    check(patient, &[], 4, words, "provider");
}

#[test]
fn an_error_that_passes_is_told_of_and_no_end() {
    let busy = ScriptedReply::error(529, "overloaded_error", "busy");
    let busy = ScriptedAnswer::reply(busy).with_header("retry-after-ms", "1");
    let scene = Scene::new([busy, say("after all").into()]);
    let output = scene.run(&["run", "Do it"]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "after all\n");
    assert!(
        stderr(&output).contains("trying again in 0.0 s"),
        "{output:?}"
    );
}

#[test]
fn a_provider_that_is_not_there_is_4_and_the_session_goes_on_later() {
    let scene = Scene::new([
        write("a", "1\n"),
        ScriptedReply::error(401, "authentication_error", "wrong key"),
        say("at last"),
    ]);
    assert_code(&scene.run(&["run", "Do it"]), 4);
    assert_eq!(scene.done(&["resume"]), "at last\n");
    assert_eq!(scene.read("a"), "1\n");
    // The turn was continued: the task was sent once, the file written once.
    let last = scene.server.requests().last().unwrap().json();
    assert_eq!(last.to_string().matches("Do it").count(), 1);
}

#[test]
fn a_key_that_the_provider_does_not_take_is_4() {
    let scene = Scene::new([say("never said")]);
    let settings = testkit::ModelServerSettings {
        key: Some("another".into()),
        ..Default::default()
    };
    let server = testkit::ModelServer::start_with([say("never said")], settings);
    let mut command = scene.hotcell(["run", "Do it", "--base-url", &server.base_url()]);
    let output = run(&mut command);
    assert_code(&output, 4);
    assert!(stderr(&output).contains("invalid x-api-key"), "{output:?}");
}
