//! What the terminal UI costs a person: the wait for the first prompt, the wait for a letter that was
//! typed while much goes on, memory for a long page, and work while nothing goes on.
//!
//! The whole program is driven in a pseudo terminal, whose end here is read as a terminal reads it.
//! A time is from the write of a key to the end of the frame that has moved the cursor.

mod pty;

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use llm::script::ScriptedReply;
use serde_json::json;
use tempfile::TempDir;
use testkit::{ModelServer, Replies, Settings};

use self::pty::Pty;
use crate::peers::Bench;
use crate::processes;
use crate::report::{Goal, Report, Row};
use crate::samples::Samples;

/// 200 words a second, as far as a timer of milliseconds can.
const PACE: u64 = 4;
/// Prints 50 MB a second, in a hundred pieces.
const PRINTER: &str = "yes 'the quick brown fox jumps over the lazy dog, line after line' | \
                       head -c 500000 >/tmp/piece; while :; do cat /tmp/piece; sleep 0.008; done";
/// What is on the screen once the sandbox is up.
const READY: &str = "network:";
const LINES: usize = 100_000;

pub(crate) fn measure(bench: &Bench, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    report.begin("terminal UI");
    start(bench, rounds, report)?;
    keys(bench, rounds, report)?;
    page(bench, report)?;
    rest(bench, report)
}

/// From nothing to a prompt.
fn start(bench: &Bench, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let (mut floor, mut starts) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut pty = Pty::start(Command::new("echo").arg("ready"))?;
        pty.wait_for("ready")?;
        floor.add_time(begun.elapsed());

        let ui = Ui::prepare(ModelServer::start_with(
            Vec::<ScriptedReply>::new(),
            Settings::fast(),
        ))?;
        let mut command = ui.command(bench);
        let begun = Instant::now();
        let mut pty = Pty::start(&mut command)?;
        pty.wait_until(|screen| screen.contents().contains("\n> "))?;
        starts.add_time(begun.elapsed());
    }
    report.add(Row::times("a bare `echo` to its word", &floor));
    let goals = vec![
        Goal::at_most("ms median", starts.median(), 30.0),
        Goal::at_most("of a bare `echo`", starts.median() / floor.median(), 15.0),
    ];
    report.add(Row::times("cold start to the prompt", &starts).goals(goals));
    Ok(())
}

/// From a key to its letter, in worse and worse company.
fn keys(bench: &Bench, rounds: usize, report: &mut Report) -> anyhow::Result<()> {
    let count = rounds * 10;
    let mut cat = Pty::start(Command::new("cat").arg("-u"))?;
    let floor = cat.echoes(count)?;
    report.add(Row::times("a letter in a bare `cat`", &floor));

    let mut quiet = Ui::prepare(ModelServer::start_with(
        Vec::<ScriptedReply>::new(),
        Settings::fast(),
    ))?
    .open(bench)?;
    report.add(Row::times("a letter, at rest", &quiet.pty.keys(count)?));

    let printing = || {
        let input = json!({"command": PRINTER, "background": true});
        ScriptedReply::call("bash", input)
    };
    let waiting = || ScriptedReply::call("bash", json!({"command": PRINTER, "timeout": 600}));
    let scenes: [(&'static str, Vec<ScriptedReply>); 3] = [
        ("a letter, words stream in", vec![streamed()]),
        ("a letter, 50 MB/s printed", vec![waiting()]),
        ("a letter, both at once", vec![printing(), streamed()]),
    ];
    for (name, replies) in scenes {
        let model = ModelServer::start_with(Replies::list(replies), Settings::fast());
        let mut opened = Ui::prepare(model)?.open(bench)?;
        opened.pty.send("go\r")?;
        opened.pty.wait_for(match name.contains("printed") {
            true => "lazy dog",
            false => "word",
        })?;
        let times = opened.pty.keys(count)?;
        let goals = vec![Goal::at_most("Ms at p99", times.p99(), 8.0)];
        report.add(Row::times(name, &times).goals(goals));
    }
    Ok(())
}

/// More than a measurement takes to read.
fn streamed() -> ScriptedReply {
    let text: String = (0..60_000)
        .map(|number| match number % 12 {
            11 => format!("word{number}.\n\n"),
            _ => format!("word{number} "),
        })
        .collect();
    ScriptedReply {
        pace_ms: PACE,
        ..ScriptedReply::text(text)
    }
}

/// Memory with a long page, and a look at its beginning.
fn page(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    const PIECES: usize = 20;
    let line = "The lines of a long conversation are of all lengths; this one has sixty.\n\n";
    let text = line.repeat(LINES / PIECES / 2);
    let mut replies: Vec<ScriptedReply> = Vec::new();
    for piece in 1..PIECES {
        // The same call again and again would end the turn.
        let input = json!({"command": format!("echo {piece}")});
        replies.push(ScriptedReply {
            text: Some(text.clone()),
            ..ScriptedReply::call("bash", input)
        });
    }
    replies.push(ScriptedReply::text(format!("{text}the very end")));
    let model = ModelServer::start_with(Replies::list(replies), Settings::fast());
    let mut opened = Ui::prepare(model)?.open(bench)?;
    let before = opened.resident()?;
    opened.pty.send("go\r")?;
    opened.pty.wait_for("the very end")?;
    let goals = vec![Goal::at_most(
        "MB resident",
        megabytes(opened.resident()?),
        80.0,
    )];
    report.add(Row::size("resident at the start", before));
    report.add(Row::size("with 100,000 lines", opened.resident()?).goals(goals));

    let mut scrolls = Samples::default();
    for round in 0..40 {
        let key = if round % 2 == 0 {
            "\x1b[1;5H"
        } else {
            "\x1b[1;5F"
        };
        scrolls.add_time(opened.pty.frame_after(key)?);
    }
    for _ in 0..100 {
        scrolls.add_time(opened.pty.frame_after("\x1b[5~")?);
    }
    let goals = vec![Goal::at_most("Ms at p99", scrolls.p99(), 16.0)];
    report.add(Row::times("a scroll of 100,000 lines", &scrolls).goals(goals));
    let goals = vec![Goal::at_most(
        "MB resident",
        megabytes(opened.resident()?),
        80.0,
    )];
    report.add(Row::size("after scrolling in them", opened.resident()?).goals(goals));
    Ok(())
}

fn megabytes(kibibytes: u64) -> f64 {
    kibibytes as f64 * 1024.0 / 1e6
}

/// What is used while nothing happens.
fn rest(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    const IDLE: Duration = Duration::from_secs(10);
    let model = ModelServer::start_with([ScriptedReply::text("the very end")], Settings::fast());
    let mut opened = Ui::prepare(model)?.open(bench)?;
    opened.pty.send("go\r")?;
    opened.pty.wait_for("the very end")?;
    std::thread::sleep(Duration::from_secs(2));
    let pid = opened.pty.pid();
    let before = (run_time(pid)?, switches(pid)?);
    std::thread::sleep(IDLE);
    let after = (run_time(pid)?, switches(pid)?);
    let share = (after.0 - before.0) * 100.0 / IDLE.as_secs_f64();
    let woken = after.1 - before.1;
    let goals = vec![
        Goal::at_most("Percent of a processor", share, 0.02),
        Goal::at_most("Wake-ups in 10 s", woken as f64, 20.0),
    ];
    report.add(Row::load("idle for 10 s", share).goals(goals));
    Ok(())
}

/// Processor time of all threads, in seconds, to the nanosecond.
fn run_time(pid: u32) -> anyhow::Result<f64> {
    let mut total = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let spent: f64 = text
            .split(' ')
            .next()
            .context("schedstat is empty")?
            .parse()?;
        total += spent / 1e9;
    }
    Ok(total)
}

/// How often its threads were put to sleep or aside.
fn switches(pid: u32) -> anyhow::Result<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("status"))?;
        let counts = text.lines().filter(|line| line.contains("ctxt_switches"));
        total += counts
            .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
            .sum::<u64>();
    }
    Ok(total)
}

/// A folder and a model for one UI.
struct Ui {
    folder: TempDir,
    model: ModelServer,
}

/// A UI that is up. The folder and the model go after the program.
struct Opened {
    pty: Pty,
    _ui: Ui,
}

impl Ui {
    fn prepare(model: ModelServer) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("workspace"))?;
        Ok(Self { folder, model })
    }

    fn command(&self, bench: &Bench) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(bench.program());
        command
            .args(["--no-audit", "--base-url"])
            .arg(self.model.base_url())
            .arg("--workspace")
            .arg(folder.join("workspace"))
            .arg("--data")
            .arg(folder.join("data"))
            .current_dir(folder)
            .env("ANTHROPIC_API_KEY", "key")
            .env("XDG_CONFIG_HOME", folder)
            .env("TERM", "xterm-256color");
        command
    }

    fn open(self, bench: &Bench) -> anyhow::Result<Opened> {
        let mut pty = Pty::start(&mut self.command(bench))?;
        pty.wait_for(READY)?;
        Ok(Opened { pty, _ui: self })
    }
}

impl Opened {
    /// Of the program itself; its sandbox is not counted.
    fn resident(&self) -> anyhow::Result<u64> {
        let resident = processes::resident(self.pty.pid());
        let resident = resident.context("`hotcell` has ended")?;
        ensure!(resident > 0, "`hotcell` has no memory");
        Ok(resident)
    }
}
