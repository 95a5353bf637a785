//! `hotcell sessions`: lists, shows, searches, exports and deletes.

use std::fs;
use std::process::Stdio;

use insta::assert_snapshot;
use jiff::Timestamp;
use serde_json::Value;
use testkit::Replies;

use crate::place::{assert_code, eventually, finish, start, stderr};
use crate::scene::{Scene, bash, lines, say, write};

#[test]
fn none_yet() {
    let scene = Scene::new([say("a")]);
    for list in [&["sessions"][..], &["sessions", "list"]] {
        assert_eq!(
            scene.done(list),
            "no sessions yet: `hotcell run \"…\"` starts one\n"
        );
    }
    assert_eq!(scene.done(&["sessions", "--json"]), "");
    let found = scene.done(&["sessions", "search", "word"]);
    assert_eq!(found, "no session matches\n");
    assert_eq!(scene.done(&["sessions", "search", "word", "--json"]), "");
}

/// Session names sort by age in seconds.
fn another_second() {
    let second = || Timestamp::now().as_second();
    let before = second();
    eventually("another second", || second() > before);
}

#[test]
fn the_newest_comes_first() {
    let scene = Scene::new(["a", "b", "c", "d"].map(say));
    fs::create_dir(scene.place.here("other")).unwrap();
    let titles = |flags: &[&str]| -> Vec<String> {
        let list = scene.done(&[&["sessions", "list", "--json"], flags].concat());
        let title = |session: &Value| session["title"].as_str().unwrap().to_owned();
        lines(&list).iter().map(title).collect()
    };
    scene.done(&["run", "first task"]);
    another_second();
    scene.done(&["run", "--workspace", "other", "second task"]);
    another_second();
    scene.done(&["run", "third task\nof two lines"]);
    assert_eq!(titles(&[]), ["third task", "second task", "first task"]);
    assert_eq!(titles(&["-n", "1"]).len(), 1);
    assert_eq!(titles(&["--workspace", "other"]), ["second task"]);
    assert_eq!(titles(&["--workspace", "missing"]), [""; 0]);
    let first = scene.sessions().pop().unwrap();
    for (name, value) in [("outcome", "done"), ("model", "claude-sonnet-4-5-20250929")] {
        assert_eq!(first[name], value);
    }
    assert_eq!((&first["turns"], &first["events"]), (&1.into(), &5.into()));
    // As text too, one line each.
    let list = scene.done(&["sessions"]);
    let list: Vec<&str> = list.lines().collect();
    assert_eq!(list.len(), 3);
    assert!(list[0].ends_with("third task"), "{list:?}");
    assert!(
        list[2].contains("done") && list[2].contains("1 turns"),
        "{list:?}"
    );
    assert!(list[2].ends_with("first task"), "{list:?}");
    // A resumed session keeps its place, but its line changes.
    let first = first["session"].as_str().unwrap();
    scene.done(&["resume", first, "-p", "more"]);
    assert_eq!(titles(&[]).len(), 3);
}

/// Replaces what differs from run to run.
fn redacted(text: &str, scene: &Scene) -> String {
    let text = text.replace(&scene.session(), "SESSION");
    let folder = scene.file("").canonicalize().unwrap();
    let text = text.replace(folder.to_str().unwrap(), "WORKSPACE");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Some(first) = lines.first_mut()
        && let [name, _, place] = first.split(" · ").collect::<Vec<_>>()[..]
    {
        *first = format!("{name} · TIME · {place}");
    }
    lines.join("\n")
}

#[test]
fn shown_for_people_to_read() {
    let mut first = write("a", "1\n");
    first.text = Some("I write it.".into());
    let replies = [
        first,
        bash("seq 20; exit 3"),
        say("Done."),
        say("You're welcome."),
    ];
    let scene = Scene::new(replies.map(|mut reply| {
        reply.usage = Some(protocol::Usage {
            input_tokens: 1000,
            output_tokens: 100,
            ..Default::default()
        });
        reply
    }));
    scene.done(&["run", "Write a file"]);
    scene.done(&["resume", "-p", "Thank you"]);
    let shown = scene.done(&["sessions", "show", &scene.session()]);
    assert_snapshot!(redacted(&shown, &scene), @r#"
        SESSION · TIME · WORKSPACE
        claude-sonnet-4-5-20250929 · 2 turns · 4.4k tokens · $0.0180

        ## 1. user

        Write a file

        I write it.

        ● write a

          │ created `a`: 1 line, 2 bytes

        ● $ seq 20; exit 3

          │ 1
          │ 2
          │ 3
          │ 4
          │ 5
          │ 6
          │ 7
          │ 8
          │ 9
          │ 10
          │ 11
          │ 12
          │ … 9 more lines

        Done.

        ## 2. user

        Thank you

        You're welcome.
    "#);
}

#[test]
fn found_by_words() {
    let scene = Scene::new([
        say("It is about walruses."),
        say("And this about pelicans."),
    ]);
    scene.done(&["run", "first"]);
    scene.done(&["run", "second"]);
    let titles = |words: &[&str]| -> Vec<String> {
        let found = scene.done(&[&["sessions", "search", "--json"], words].concat());
        let title = |session: &Value| session["title"].as_str().unwrap().to_owned();
        lines(&found).iter().map(title).collect()
    };
    assert_eq!(titles(&["walruses"]), ["first"]);
    assert_eq!(titles(&["pelicans"]), ["second"]);
    assert_eq!(titles(&["nowhere"]), [""; 0]);
    // Database query syntax has no meaning here.
    for odd in ["\"", "AND", "a*", "NEAR(", "-", "'; DROP TABLE sessions"] {
        scene.done(&["sessions", "search", "--", odd]);
    }
    let found = scene.done(&["sessions", "search", "about", "walruses"]);
    assert!(found.contains("walruses"), "{found}");
}

#[test]
fn exported_to_a_file_named_after_its_beginning() {
    let scene = Scene::new([write("a", "1\n"), say("a")]);
    scene.done(&["run", "Write a file"]);
    let session = scene.session();
    let name = format!("{}.json", &session[..15]);
    let said = scene.done(&["sessions", "export", &session]);
    assert_eq!(said, format!("./{name}\n"));
    let text = fs::read_to_string(scene.place.here(&name)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(text, serde_json::to_string_pretty(&value).unwrap() + "\n");
    assert_eq!(value["session"], session.as_str());
    assert_eq!(value["version"], 1);
    let events = value["events"].as_array().unwrap();
    assert!(events.iter().all(|event| event["time"].is_string()));
    assert_eq!(
        scene.done(&["sessions", "export", &session, "-o", "-"]),
        text
    );
    // It is not overwritten, unless requested.
    fs::write(scene.place.here(&name), "mine").unwrap();
    let output = scene.run(&["sessions", "export", &session]);
    assert_code(&output, 2);
    let refused = format!(
        "hotcell: `./{name}` already exists\n\
         hint: choose another with `--output`, or replace it with `--force`\n"
    );
    assert_eq!(stderr(&output), refused);
    assert_eq!(fs::read_to_string(scene.place.here(&name)).unwrap(), "mine");
    scene.done(&["sessions", "export", &session, "--force"]);
    assert_eq!(fs::read_to_string(scene.place.here(&name)).unwrap(), text);
    let chosen = ["sessions", "export", &session, "-o", "chosen.json"];
    assert_eq!(scene.done(&chosen), "chosen.json\n");
    assert_code(
        &scene.run(&["sessions", "export", &session, "-o", "no/such"]),
        1,
    );
    fs::create_dir(scene.place.here("folder")).unwrap();
    let said = scene.done(&["sessions", "export", &session, "-o", "folder"]);
    assert_eq!(said, format!("folder/{name}\n"));
    assert_eq!(
        fs::read_to_string(scene.place.here("chosen.json")).unwrap(),
        text
    );
}

#[test]
fn deleted_with_all_that_was_kept() {
    let scene = Scene::new([
        say("a"),
        write("a", "unmistakable words"),
        say("b"),
        say("c"),
    ]);
    scene.done(&["run", "first"]);
    let first = scene.session();
    scene.done(&["run", "second"]);
    let second = scene.session();
    let output = scene.run(&["sessions", "delete", &first, "unknown"]);
    assert_code(&output, 2);
    let said = "hotcell: there is no session `unknown`\n\
                hint: `hotcell sessions` lists sessions\n";
    assert_eq!(stderr(&output), said);
    let output = scene.run(&["sessions", "delete", "20"]);
    assert_code(&output, 2);
    let said = "hotcell: `20` begins the names of 2 sessions\nhint: use a longer prefix\n";
    assert_eq!(stderr(&output), said);
    assert_eq!(scene.sessions().len(), 2, "nothing was deleted");
    let said = scene.done(&["sessions", "delete", &second]);
    assert_eq!(said, format!("deleted {second}\n"));
    assert_eq!(scene.session(), first);
    assert_eq!(
        scene.done(&["sessions", "search", "unmistakable", "--json"]),
        ""
    );
    for command in ["show", "export"] {
        assert_code(&scene.run(&["sessions", command, &second]), 2);
    }
    assert_code(&scene.run(&["resume", &second, "-p", "go on"]), 2);
    assert_code(&scene.run(&["replay", &second]), 2);
    // The files in the workspace stay.
    assert_eq!(scene.read("a"), "unmistakable words");
}

#[test]
fn many_at_once_share_one_store() {
    const COUNT: usize = 4;
    let scene = Scene::new(Replies::decide(|_| say("done")));
    // Concurrently from the start, when there is no store yet.
    let started: Vec<_> = (0..COUNT)
        .map(|number| {
            let folder = format!("workspace-{number}");
            fs::create_dir(scene.place.here(&folder)).unwrap();
            start(&mut scene.hotcell(["run", "--workspace", &folder, "Answer"]))
        })
        .collect();
    for child in started {
        assert_code(&finish(child), 0);
    }
    let outcomes = scene
        .sessions()
        .into_iter()
        .map(|mut session| session["outcome"].take());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["done"; COUNT]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scene = Scene::new([say("a")]);
    scene.done(&["run", "first"]);
    let session = scene.session();
    for arguments in [
        &["sessions", "--json"][..],
        &["sessions"],
        &["sessions", "show", &session],
        &["sessions", "export", &session, "-o", "-"],
        &["config"],
        &["completions", "bash"],
        &["man"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = scene.hotcell(arguments.iter().copied());
        command.stdout(writer).stderr(Stdio::piped());
        let output = finish(command.spawn().unwrap());
        assert_code(&output, 141);
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}
