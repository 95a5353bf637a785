//! Sample sessions for tests: events as an agent sends them, at fixed times.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use protocol::{
    Backend, BackgroundJob, Block, CallId, CallKind, CallSummary, Change, EVENT_VERSION, Event,
    EventKind, Outcome, Question, SandboxInfo, SessionId, ShownInput, ShownOutput, Spending, Stop,
    Subject, Usage,
};
use serde_json::{Value, json};

/// Start time of all samples.
pub(crate) const START_TIME: &str = "2026-03-15T12:00:00Z";
pub(crate) const MODEL: &str = "claude-sonnet-4-5";

pub(crate) fn start_time() -> Timestamp {
    START_TIME.parse().unwrap()
}

pub(crate) fn session() -> SessionId {
    "20260315-120000-k3fd".parse().unwrap()
}

/// An event at the start time.
pub(crate) fn event(kind: EventKind) -> Event {
    event_at(0, kind)
}

/// An event some milliseconds after the start time.
pub(crate) fn event_at(millis: i64, kind: EventKind) -> Event {
    Event {
        v: EVENT_VERSION,
        session: session(),
        seq: None,
        time: start_time() + SignedDuration::from_millis(millis),
        kind,
    }
}

const REASON: &str = "the strongest that was proved here";

fn info(backend: &str, walls: Vec<String>) -> SandboxInfo {
    let backend = Backend::named(backend).unwrap();
    SandboxInfo {
        reason: REASON.into(),
        ..SandboxInfo::requested(backend, walls)
    }
}

pub(crate) fn ready(backend: &str, network: &[&str], asks: bool) -> EventKind {
    let walls = match backend {
        "none" => Vec::new(),
        _ => [
            "user, mount, pid, network, ipc, uts and cgroup namespaces",
            "root of its own, host programs read-only",
            "unprivileged user, no capabilities, no new privileges",
            "seccomp allow-list",
            "Landlock",
        ]
        .map(str::to_owned)
        .into(),
    };
    EventKind::Ready {
        model: MODEL.into(),
        window: Some(200_000),
        sandbox: SandboxInfo {
            network: network.iter().map(ToString::to_string).collect(),
            ..info(backend, walls)
        },
        workspace: "/home/ada/parser".into(),
        asks,
    }
}

pub(crate) fn started() -> EventKind {
    EventKind::SessionStarted {
        release: "0.1.0".into(),
        workspace: "/home/ada/parser".into(),
        model: MODEL.into(),
        forked_from: None,
    }
}

pub(crate) fn sandbox_started(backend: &str) -> EventKind {
    EventKind::SandboxStarted {
        sandbox: info(backend, vec!["seccomp allow-list".into()]),
        replaces: None,
    }
}

pub(crate) fn turn(turn: u32, prompt: &str) -> EventKind {
    EventKind::TurnStarted {
        turn,
        prompt: vec![Block::text(prompt)],
    }
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        ..Usage::default()
    }
}

pub(crate) fn replied(content: Vec<Block>, usage: Usage, cost: Option<f64>) -> EventKind {
    let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
    EventKind::Replied {
        turn: 1,
        stop: if content.iter().any(is_call) {
            Stop::ToolUse
        } else {
            Stop::EndTurn
        },
        content,
        broken_calls: BTreeMap::new(),
        usage,
        cost,
        model: MODEL.into(),
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse {
        id: CallId::from(id),
        name: name.into(),
        input,
    }
}

pub(crate) fn tool_started(id: &str, name: &str, input: Value) -> EventKind {
    EventKind::ToolStarted {
        call: CallId::from(id),
        name: name.into(),
        summary: Box::new(summary(name, &input)),
        input,
    }
}

/// What some tools say of their calls.
pub(crate) fn summary(name: &str, input: &Value) -> CallSummary {
    let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
    match name {
        "bash" => {
            let command = text("command");
            let shown = if command.len() <= 60 && !command.contains('\n') {
                ShownInput::Nothing
            } else {
                argument("command", "bash")
            };
            CallSummary::new(CallKind::Command, "$", command)
                .show_input(shown)
                .show_output(ShownOutput::Command)
        }
        "bash_job" => CallSummary::new(
            CallKind::Command,
            text("action"),
            &format!("job {}", input["job"]),
        )
        .show_input(ShownInput::Nothing)
        .show_output(ShownOutput::Command),
        "write_file" if !text("path").is_empty() => {
            CallSummary::new(CallKind::Write, "write", text("path"))
                .show_input(argument("content", text("path")))
                .show_output(ShownOutput::Diff)
        }
        "edit_file" => {
            CallSummary::new(CallKind::Edit, "edit", text("path")).show_output(ShownOutput::Diff)
        }
        "read_file" => CallSummary::new(CallKind::Read, "read", text("path"))
            .show_input(ShownInput::Nothing)
            .show_output(ShownOutput::Nothing),
        "plan" => {
            let steps = input["steps"].as_array().map_or(&[][..], Vec::as_slice);
            let done = steps.iter().filter(|step| step["status"] == "done").count();
            let subject = format!("{done} of {} done", steps.len());
            CallSummary::new(CallKind::Plan, "plan", &subject)
                .show_input(ShownInput::Nothing)
                .show_output(ShownOutput::Plan)
        }
        _ => CallSummary::generic(name, input),
    }
}

fn argument(name: &str, language: &str) -> ShownInput {
    ShownInput::Argument {
        name: name.into(),
        language: language.into(),
    }
}

/// Adds to the ends of calls what their tools say, as the agent does.
#[derive(Debug, Default)]
pub(crate) struct Summarizer {
    inputs: BTreeMap<CallId, Value>,
}

impl Summarizer {
    pub(crate) fn add_summary(&mut self, mut kind: EventKind) -> EventKind {
        match &mut kind {
            EventKind::Replied { content, .. } => {
                for block in content {
                    if let Block::ToolUse { id, input, .. } = block {
                        self.inputs.insert(id.clone(), input.clone());
                    }
                }
            }
            EventKind::ToolStarted { call, input, .. } => {
                self.inputs.insert(call.clone(), input.clone());
            }
            EventKind::ToolEnded {
                call,
                name,
                content,
                summary: ended @ None,
                ..
            } => {
                let input = self.inputs.get(call).unwrap_or(&Value::Null);
                let output: String = content.iter().filter_map(Block::as_text).collect();
                *ended = Some(Box::new(end_summary(summary(name, input), &output)));
            }
            _ => {}
        }
        kind
    }
}

/// With what came of a command, if the last line of its result says so.
fn end_summary(summary: CallSummary, output: &str) -> CallSummary {
    if summary.output != ShownOutput::Command {
        return summary;
    }
    let line = output.trim_end().lines().last().unwrap_or_default();
    if let Some(code) = line.strip_prefix("exit code: ") {
        return match code {
            "0" => summary,
            code => summary.with_detail(&format!("exit code {code}")),
        };
    }
    if let Some(rest) = line.strip_prefix("running in the background as job ") {
        let job: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return CallSummary {
            job: job.parse().ok(),
            ..summary.with_detail(&format!("goes on as job {job}"))
        };
    }
    if line.starts_with("killed by signal ") || line.starts_with("interrupted: ") {
        let (state, _) = line.split_once(':').unwrap_or((line, ""));
        return summary.with_detail(state);
    }
    summary.show_output(ShownOutput::Text)
}

pub(crate) fn tool_ended(id: &str, name: &str, output: &str, changes: Vec<Change>) -> EventKind {
    EventKind::ToolEnded {
        call: CallId::from(id),
        name: name.into(),
        content: vec![Block::text(output)],
        is_error: false,
        kept: None,
        changes,
        millis: 1_200,
        denied: Some(false),
        summary: None,
    }
}

pub(crate) fn spending(cost: f64, max_cost: Option<f64>) -> Spending {
    Spending {
        usage: usage(12_300, 3_200),
        cost: Some(cost),
        requests: 4,
        seconds: 42.0,
        max_cost,
        ..Spending::default()
    }
}

pub(crate) fn ended(turn: u32, spending: Spending) -> EventKind {
    EventKind::TurnEnded {
        turn,
        outcome: Outcome::Done,
        spending,
    }
}

pub(crate) fn question(number: u32, host: &str) -> EventKind {
    EventKind::Asked {
        question: Question {
            number,
            what: format!("connect to {host}:443"),
            why: "the network is off, and no rule names this host".into(),
            subject: Subject::Host { host: host.into() },
        },
    }
}

pub(crate) fn background(command: &str, ending: Option<&str>) -> BackgroundJob {
    BackgroundJob {
        job: 1,
        call: CallId::from("call-1"),
        command: command.into(),
        since: start_time(),
        tail: "listening on 127.0.0.1:8000\n".into(),
        ending: ending.map(str::to_owned),
    }
}

pub(crate) fn edit() -> Change {
    Change {
        path: "src/parser.rs".into(),
        diff: Some(
            "@@ -10,5 +10,6 @@ fn parse(line: &str) {\n     let line = line.trim();\n\
             -    let (name, rest) = line.split_once(' ').unwrap();\n\
             +    let Some((name, rest)) = line.split_once(' ') else {\n\
             +        return Err(ParseError::NoName);\n+    };\n     read(name, rest)\n"
                .into(),
        ),
    }
}

/// A turn in which a file was read, changed and tested.
pub(crate) fn working_turn() -> Vec<EventKind> {
    let edit_input = json!({"path": "src/parser.rs", "old": "a", "new": "b"});
    let test_input = json!({"command": "cargo test"});
    vec![
        ready("native", &[], true),
        started(),
        sandbox_started("native"),
        turn(1, "make the parser refuse a line without a name"),
        EventKind::RequestStarted {
            turn: 1,
            request: 1,
        },
        EventKind::TextDelta {
            text: "I will look at the parser first.".into(),
        },
        replied(
            vec![
                Block::text("I will look at the parser first."),
                call("call-1", "read_file", json!({"path": "src/parser.rs"})),
            ],
            usage(8_000, 120),
            Some(0.03),
        ),
        tool_started("call-1", "read_file", json!({"path": "src/parser.rs"})),
        tool_ended(
            "call-1",
            "read_file",
            "fn parse(line: &str) {\n}\n",
            Vec::new(),
        ),
        replied(
            vec![call("call-2", "edit_file", edit_input.clone())],
            usage(9_000, 300),
            Some(0.04),
        ),
        tool_started("call-2", "edit_file", edit_input),
        tool_ended("call-2", "edit_file", "edited", vec![edit()]),
        replied(
            vec![call("call-3", "bash", test_input.clone())],
            usage(10_000, 80),
            Some(0.04),
        ),
        tool_started("call-3", "bash", test_input),
        EventKind::ToolOutput {
            call: CallId::from("call-3"),
            text: "running 12 tests\n".into(),
            is_error: false,
        },
    ]
}

/// The end of [`working_turn`].
pub(crate) fn working_end() -> Vec<EventKind> {
    let text = "Done: a line without a name is now refused.\n\n\
                 | case | before | after |\n|---|---|---|\n| `x` | panic | `NoName` |\n\n\
                 ```rust\nlet error = parse(\"x\");\n```\n";
    vec![
        tool_ended(
            "call-3",
            "bash",
            "running 12 tests\ntest result: ok. 12 passed\n[exit code 0]",
            Vec::new(),
        ),
        replied(vec![Block::text(text)], usage(12_000, 200), Some(0.05)),
        ended(1, spending(0.16, None)),
    ]
}
