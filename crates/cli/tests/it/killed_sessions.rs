//! SIGKILL between any two events of a session: `resume` reaches the same end.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use testkit::{RecordedRequest, Replies};

use crate::json_events;
use crate::killed::orphans;
use crate::place::{assert_code, eventually, finish, processes_with, run, stdout};
use crate::scene::{Scene, bash, lines, listen, results, say, send, write};

/// A model that decides from the request alone, as real ones do: what was cut off is done again.
fn steps(marker: &str) -> Replies {
    let marker = marker.to_owned();
    Replies::decide(move |request| {
        let done = done(request);
        let is_done = |what: &str| done.iter().any(|result| result.contains(what));
        if !is_done("`one`") {
            let mut both = write("one", "1\n");
            both.text = Some("Two files.".into());
            both.calls.extend(write("two", "2\n").calls);
            return both;
        }
        if !is_done("`two`") {
            return write("two", "2\n");
        }
        if !is_done("three is made") {
            // A process that would outlive its session if it could.
            return bash(&format!(
                "sleep {marker} & cat one two > three; echo three is made"
            ));
        }
        if !is_done("`four`") {
            return write("four", "4\n");
        }
        say("All four are there.")
    })
}

/// The successful results in a request.
fn done(request: &RecordedRequest) -> Vec<String> {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.filter_map(|message| message["content"].as_array());
    blocks
        .flatten()
        .filter(|block| block["type"] == "tool_result" && block["is_error"] != true)
        .map(|block| block["content"].to_string())
        .collect()
}

#[test]
fn between_any_two_events() {
    // Orphans become children of this process, where they can be found.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    let marker = format!("1006.{}", std::process::id());
    // The number of lines of an undisturbed session.
    let scene = Scene::new(steps(&marker));
    let told = lines(&scene.done(&["run", "--json", "Make four files"]));
    json_events::check(&told, 1);
    let lasting = told.iter().filter(|event| event["seq"].is_u64()).count();
    assert!(lasting >= 12, "{lasting} lasting events");
    // Kills at every lasting event, at the first event of each other kind, and at the start.
    let mut seen = HashSet::new();
    let places: Vec<usize> = (0..told.len())
        .filter(|place| {
            let event = &told[*place];
            event["seq"].is_u64() || seen.insert(event["type"].to_string())
        })
        .collect();
    let places = Arc::new(Mutex::new(places));
    // Two at a time, for two processors.
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (places, marker) = (places.clone(), format!("{marker}{worker}"));
            scope.spawn(move || {
                loop {
                    let Some(place) = places.lock().unwrap().pop() else {
                        break;
                    };
                    kill_after(place + 1, &format!("{marker}{place:03}"));
                }
            });
        }
    });
    eventually("no guest and no supervisor is left", || {
        orphans().is_empty()
    });
}

fn kill_after(count: usize, marker: &str) {
    let scene = Scene::new(steps(marker));
    let (child, mut next) = listen(&mut scene.hotcell(["run", "--json", "Make four files"]));
    let told: Vec<_> = (0..count).map_while(|_| next()).collect();
    send(&child, Signal::SIGKILL);
    // Reads to the end of the output: events before the kill count too.
    while next().is_some() {}
    finish(child);
    eventually("no process is left", || processes_with(marker).is_empty());
    // Everything that was printed is stored.
    let seq = told.iter().filter_map(|event| event["seq"].as_u64()).max();
    let session = scene.sessions().remove(0);
    assert!(
        session["events"].as_u64() >= seq,
        "after {count}: {session}"
    );
    let is_over = session["outcome"] == "done";
    let output = run(&mut scene.hotcell(["resume", "--json"]));
    match is_over {
        // The turn was complete, or only its final checkpoint was missing.
        true => assert_code(&output, 2),
        false if seq.is_some_and(|seq| seq >= 2) => assert_code(&output, 0),
        // The task itself may not have been stored yet.
        false => {
            if output.status.code() == Some(2) {
                let task = ["resume", "--json", "--prompt", "Make four files"];
                assert_code(&run(&mut scene.hotcell(task)), 0);
            }
        }
    }
    if !is_over {
        json_events::check(
            &lines(&stdout(&output)),
            session["events"].as_u64().unwrap() + 1,
        );
    }
    for (name, content) in [
        ("one", "1\n"),
        ("two", "2\n"),
        ("three", "1\n2\n"),
        ("four", "4\n"),
    ] {
        assert_eq!(scene.read(name), content, "after {count}");
    }
    assert_eq!(scene.latest()["outcome"], "done", "after {count}");
    eventually("no process is left", || processes_with(marker).is_empty());
    // It is one turn, from before the kill to its end, and can be undone as one.
    assert_code(&scene.run(&["undo"]), 0);
    let left = std::fs::read_dir(scene.file("")).unwrap().count();
    assert_eq!(left, 0, "after {count}");
    // A call that was cut off has exactly one result; the server checks that.
    let requests = scene.server.requests();
    assert!(requests.iter().all(|request| results(request).len() <= 2));
}
