//! Calls, from the first piece of their input to their background jobs.

use protocol::{BackgroundJob, CallId, CallKind, CallSummary, Change, EventKind, Outcome};
use serde_json::json;

use super::{bash, call_reply, check, ended, lines, page, printed, started, turn_ended};
use crate::samples::{self, event, start_time};
use crate::transcript::Transcript;

#[test]
fn calls_are_shown_while_their_input_streams() {
    let piece = |json: &str| EventKind::InputDelta {
        call: CallId::from("a"),
        name: "write_file".into(),
        json: json.into(),
    };
    check(&[piece("")], "|○ write_file …");
    check(
        &[
            piece("{\"path\": \"hel"),
            piece("lo.py\", \"content\": \"x"),
        ],
        "|○ write_file hello.py …",
    );
    check(
        &[
            piece("{\"path\": \"a\", \"content\": \""),
            piece(&"x".repeat(3000)),
        ],
        "|○ write_file a · 3.0 kB …",
    );
    // The tool has not said yet what the call is about.
    check(&[bash("a", "make")], "|○ bash make");
    check(
        &[
            bash("a", "make"),
            started("a", "make"),
            printed("a", &lines(9)),
        ],
        "
        |● $ make
        |  │ line 4
        |  │ line 5
        |  │ line 6
        |  │ line 7
        |  │ line 8
        |  │ line 9",
    );
}

#[test]
fn ended_commands() {
    let run = |output: &str, is_error| [bash("a", "make"), ended("a", "bash", output, is_error)];
    check(
        &run("a\nb\nc\nd\nexit code: 0", false),
        "
        |✓ $ make · 2.3 s
        |  │ b
        |  │ c
        |  │ d",
    );
    check(
        &run("exit code: 2", true),
        "|✗ $ make · 2.3 s · exit code 2",
    );
    check(
        &run(
            "x\nkilled by signal 9 (SIGKILL): the sandbox's memory limit was reached",
            true,
        ),
        "
        |✗ $ make · 2.3 s · killed by signal 9 (SIGKILL)
        |  │ x",
    );
    check(
        &run("Not run: cut in the middle", true),
        "
        |✗ $ make · 2.3 s
        |  │ Not run: cut in the middle",
    );
    check(
        &run("interrupted: the command was ended", true),
        "|✗ $ make · 2.3 s · interrupted",
    );
    check(
        &run(
            "running in the background as job 3 for 0 s: `bash_job` polls it",
            false,
        ),
        "|✓ $ make · 2.3 s · goes on as job 3",
    );
    check(
        &[
            bash("a", "make"),
            started("a", "make"),
            turn_ended(1, Outcome::Interrupted),
        ],
        "
        |✗ $ make · cut off
        |! interrupted",
    );
    // The tool reports a killed job as a success, and a failed kill not.
    let kill = |output: &str, is_error| {
        let input = json!({"job": 1, "action": "kill"});
        let ended = ended("a", "bash_job", output, is_error);
        [call_reply("a", "bash_job", input), ended]
    };
    check(
        &kill("killed by signal 15 (SIGTERM)", false),
        "|✓ kill job 1 · 2.3 s · killed by signal 15 (SIGTERM)",
    );
    check(
        &kill("bye\nexit code: 8", false),
        "
        |✓ kill job 1 · 2.3 s · exit code 8
        |  │ bye",
    );
    check(
        &kill("there is no job 1", true),
        "
        |✗ kill job 1 · 2.3 s
        |  │ there is no job 1",
    );
    // A reused id is another call.
    check(
        &[
            bash("a", "one"),
            ended("a", "bash", "exit code: 0", false),
            bash("a", "two"),
            ended("a", "bash", "exit code: 0", false),
        ],
        "
        |✓ $ one · 2.3 s
        |✓ $ two · 2.3 s",
    );
}

#[test]
fn other_ended_calls() {
    check(
        &[
            call_reply("a", "read_file", json!({"path": "a"})),
            ended("a", "read_file", "1 x\n2 y", false),
        ],
        "|✓ read a · 2.3 s",
    );
    check(
        &[
            call_reply("a", "read_file", json!({"path": "a"})),
            ended("a", "read_file", "there is no `a`", true),
        ],
        "
        |✗ read a · 2.3 s
        |  │ there is no `a`",
    );
    check(
        &[
            call_reply(
                "a",
                "edit_file",
                json!({"path": "src/parser.rs", "edits": []}),
            ),
            samples::tool_ended("a", "edit_file", "edited", vec![samples::edit()]),
        ],
        "
        |✓ edit src/parser.rs · +3 −1 · 1.2 s
        |  │ @@ -10,5 +10,6 @@ fn parse(line: &str) {
        |  │      let line = line.trim();
        |  │ -    let (name, rest) = line.split_once(' ').unwrap();
        |  │ +    let Some((name, rest)) = line.split_once(' ') else {
        |  │ +        return Err(ParseError::NoName);
        |  │ +    };
        |  │      read(name, rest)",
    );
    let long = Change {
        path: "a".into(),
        diff: Some((1..=30).map(|number| format!("+{number}\n")).collect()),
    };
    check(
        &[samples::tool_ended(
            "a",
            "write_file",
            "created",
            vec![long],
        )],
        "
        |✓ write_file · +30 · 1.2 s
        |  │ +1
        |  │ +2
        |  │ +3
        |  │ +4
        |  │ +5
        |  │ +6
        |  │ +7
        |  │ +8
        |  │ +9
        |  │ +10
        |  │ +11
        |  │ +12
        |  │ … 18 more lines",
    );
}

#[test]
fn an_unknown_tool_is_shown() {
    let asked = call_reply("a", "oracle", json!({"name": "Delphi", "depth": 2}));
    let summary = CallSummary::new(CallKind::Other, "ask", "the oracle of Delphi");
    let mut turn_ended = ended("a", "oracle", "It depends.\nOn you.", false);
    let EventKind::ToolEnded {
        summary: reply_of, ..
    } = &mut turn_ended
    else {
        unreachable!()
    };
    *reply_of = Some(Box::new(summary.with_detail("2 lines")));
    check(
        &[asked.clone(), turn_ended],
        "
        |✓ ask the oracle of Delphi · 2.3 s · 2 lines
        |  │ It depends.
        |  │ On you.",
    );
    // A session of an older release.
    let mut old = Transcript::default();
    for kind in [asked, ended("a", "oracle", "It depends.", false)] {
        old.apply(&event(kind));
    }
    assert_eq!(page(&mut old), "✓ oracle Delphi · 2.3 s\n  │ It depends.");
}

#[test]
fn the_latest_plan_is_a_list() {
    let plan = |id: &str, first: &str, second: &str| {
        let steps = json!([
            {"title": "Read", "status": first},
            {"title": "Write", "status": second},
        ]);
        [
            call_reply(id, "plan", json!({ "steps": steps })),
            ended(id, "plan", "The person sees the plan.", false),
        ]
    };
    let events = [plan("a", "active", "pending"), plan("b", "done", "active")];
    check(
        &events.concat(),
        "
        |✓ plan 0 of 2 done · 2.3 s
        |✓ plan 1 of 2 done · 2.3 s
        |  │ ✓ Read
        |  │ ● Write",
    );
}

#[test]
fn background_jobs_are_followed() {
    let job = |tail: &str, ending: Option<&str>| BackgroundJob {
        job: 1,
        call: CallId::from("a"),
        command: "serve".into(),
        since: start_time(),
        tail: tail.into(),
        ending: ending.map(str::to_owned),
    };
    let background = |jobs: Vec<BackgroundJob>| EventKind::Background { jobs };
    let started_at = [
        bash("a", "serve"),
        ended(
            "a",
            "bash",
            "running in the background as job 1 for 0 s: x",
            false,
        ),
    ];
    let with = |more: &[EventKind]| [&started_at, more].concat();
    check(
        &with(&[background(vec![job("a\nb\nc\nd\n", None)])]),
        "
        |✓ $ serve · 2.3 s · goes on as job 1
        |  │ b
        |  │ c
        |  │ d",
    );
    let turn_ended = "
        |✓ $ serve · 2.3 s
        |  │ job 1 is over: exit code 0";
    check(
        &with(&[background(vec![job("a", Some("exit code 0"))])]),
        turn_ended,
    );
    check(
        &with(&[background(vec![job("a", None)]), background(Vec::new())]),
        &turn_ended.replace("exit code 0", "ended"),
    );
}
