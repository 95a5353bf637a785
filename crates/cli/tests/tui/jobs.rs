//! Jobs of a real server on the screen: listed, followed while they run, and talked to.

use serde_json::json;
use testkit::{Replies, ScriptedAnswer, StreamGate};

use crate::hosted::Hosted;
use crate::prompts::last_prompts;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn a_running_job_is_followed_and_talked_to() {
    let gate = StreamGate::new();
    let scene = Scene::new(Replies::list([
        bash("echo from $((40 + 2)) inside").into(),
        ScriptedAnswer::reply(say("The job says one.")).hold(0, &gate),
        say("The job says two.").into(),
    ]));
    let server = Hosted::start(&scene, &[]);
    let id = server.schedule(json!({"task": "Count for me", "interactive": true}));
    gate.wait_reached();
    // Its own store, as on another machine.
    let arguments = ["--server", &server.url, "--data", "own"];
    let screen = TmuxScreen::ready(&scene, 100, 30, &arguments);
    screen.say("/jobs");
    screen.wait_for("running");
    screen.wait_for("Count for me");
    screen.press(&["Enter"]);
    screen.wait_for("> Count for me");
    screen.wait_for("  │ from 42 inside");
    screen.wait_for(&format!("job {}", &id[..8]));
    screen.wait_for("esc interrupts");
    gate.open();
    screen.wait_for("The job says one.");
    server.wait_until(&id, "waiting");
    screen.say("And then?");
    screen.wait_for("The job says two.");
    assert_eq!(last_prompts(&scene), ["Count for me", "And then?"]);
    screen.say("/quit");
    screen.assert_left(0);
    // Leaving did not end it.
    server.wait_until(&id, "waiting");

    let screen = TmuxScreen::ready(&scene, 100, 30, &arguments);
    screen.say(&format!("/attach {}", &id[..13]));
    for past in [
        "> Count for me",
        "The job says one.",
        "> And then?",
        "The job says two.",
    ] {
        screen.wait_for(past);
    }
    // Back to a local agent.
    screen.say("/clear");
    screen.wait_for("what do you want done?");
    screen.wait_gone("The job says two.");
}

#[test]
fn a_server_that_is_not_there() {
    let scene = Scene::new([say("Here all the same.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &["--server", "http://127.0.0.1:1"]);
    screen.say("/jobs");
    screen.wait_for("cannot reach the server `http://127.0.0.1:1`");
    screen.press(&["Escape"]);
    screen.wait_gone("look for");
    screen.say("Hello");
    screen.wait_for("Here all the same.");
}
