//! The agent's own cost: a scripted model that replies immediately, a sandboxed `true` in every
//! turn, and the whole program as users start it.
//!
//! Times are taken when requests arrive, so they include everything: the reply's processing in the
//! client, the store, the sandbox, the sending of the next request, and the model server's own
//! work.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use llm::script::ScriptedReply;
use serde_json::json;
use testkit::{ModelServer, ModelServerSettings, Replies};

use crate::peers::Bench;
use crate::processes;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const SHORT_TURNS: usize = 100;
const LONG_TURNS: usize = 1000;
/// Turns that are compared at either end of the long conversation.
const COMPARED_TURNS: usize = 50;

pub(crate) fn measure(
    bench: &Bench,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin("agent");
    let mut starts = Samples::default();
    for _ in 0..rounds {
        let model = TimedModel::with_calls(0);
        let begun = Instant::now();
        run(bench, &model)?;
        starts.add_time(model.arrivals()[0] - begun);
    }
    let goals = vec![BenchGoal::at_most("ms median", starts.median(), 50.0)];
    report.add(ReportRow::times("start to first request", &starts).goals(goals));

    let shell = bare_shell()?;
    report.add(ReportRow::times("a bare `bash -c true`", &shell));
    let short = TimedModel::with_calls(SHORT_TURNS);
    run(bench, &short)?;
    let turns = intervals(&short.arrivals());
    let goals = vec![
        BenchGoal::at_most("ms median", turns.median(), 5.0),
        BenchGoal::at_most("of a bare shell", turns.median() / shell.median(), 4.0),
    ];
    report.add(ReportRow::times("a turn with `true`, of 100", &turns).goals(goals));

    let watched = TimedModel::with_calls(SHORT_TURNS);
    let peak = measure_peak_memory(bench, &watched)?;
    let goals = vec![BenchGoal::at_most(
        "MB of all processes",
        peak as f64 * 1024.0 / 1e6,
        40.0,
    )];
    report.add(ReportRow::size("peak memory, 100 turns", peak).goals(goals));

    measure_growth(bench, report)?;
    let interrupts = measure_interrupt(bench, rounds)?;
    let goals = vec![BenchGoal::at_most("ms median", interrupts.median(), 200.0)];
    report.add(ReportRow::times("Ctrl-C in a command to end", &interrupts).goals(goals));
    Ok(())
}

/// Time from the signal to the program's exit while a command runs that would never end. The model,
/// the command and the sandbox are stopped, and the session is stored.
fn measure_interrupt(bench: &Bench, rounds: usize) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let replies = Replies::decide(|_| {
            ScriptedReply::call("bash", json!({"command": "trap '' INT; sleep 1000"}))
        });
        let model = TimedModel {
            server: ModelServer::start_with(replies, ModelServerSettings::fast()),
            arrivals: Arc::default(),
        };
        let folder = tempfile::tempdir()?;
        let mut child = start_run(bench, &model, folder.path(), Stdio::piped())?;
        let output = child.stdout.take().context("it has no output")?;
        let mut lines = BufReader::new(output).lines();
        while !lines
            .next()
            .context("it ended early")??
            .contains("tool_started")
        {}
        let begun = Instant::now();
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(i32::try_from(child.id())?),
            nix::sys::signal::Signal::SIGINT,
        )?;
        let status = child.wait()?;
        samples.add_time(begun.elapsed());
        ensure!(
            status.code() == Some(130),
            "`hotcell run` ended with {status}"
        );
    }
    Ok(samples)
}

/// A turn must not cost more because of earlier turns, except for sending them.
fn measure_growth(bench: &Bench, report: &mut BenchReport) -> anyhow::Result<()> {
    let long = TimedModel::with_calls(LONG_TURNS);
    run(bench, &long)?;
    let turns = intervals(&long.arrivals());
    let early = turns.first(10 + COMPARED_TURNS).last(COMPARED_TURNS);
    let late = turns.last(COMPARED_TURNS);
    let body = long
        .server
        .requests()
        .pop()
        .context("no request was kept")?
        .body;
    let sending = long.send(&body)?;
    report.add(ReportRow::times("turns 10 to 60", &early));
    report.add(ReportRow::times("sending request 1000 alone", &sending));
    let rest = late.median() - sending.median();
    let goals = vec![BenchGoal::at_most(
        "of an early turn, sending apart",
        rest / early.median(),
        1.25,
    )];
    report.add(ReportRow::times("turns 950 to 1000", &late).goals(goals));
    Ok(())
}

/// The baseline of a turn that runs a command: a shell without sandbox, store or model.
fn bare_shell() -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..SHORT_TURNS {
        let begun = Instant::now();
        let status = Command::new("bash").args(["-c", "true"]).status()?;
        ensure!(status.success(), "`bash -c true` ended with {status}");
        samples.add_time(begun.elapsed());
    }
    Ok(samples)
}

fn intervals(arrivals: &[Instant]) -> Samples {
    let mut samples = Samples::default();
    for pair in arrivals.windows(2) {
        samples.add_time(pair[1] - pair[0]);
    }
    samples
}

/// A model server that records when requests arrive.
struct TimedModel {
    server: ModelServer,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

impl TimedModel {
    /// Calls `true` this many times, each time with a different command line, and then ends the
    /// turn.
    fn with_calls(calls: usize) -> Self {
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&arrivals);
        let replies = Replies::decide(move |_| {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push(Instant::now());
            match seen.len() {
                number if number <= calls => {
                    let command = format!("true # {number}");
                    ScriptedReply::call("bash", json!({"command": command}))
                }
                _ => ScriptedReply::text("Done."),
            }
        });
        Self {
            server: ModelServer::start_with(replies, ModelServerSettings::fast()),
            arrivals,
        }
    }

    fn arrivals(&self) -> Vec<Instant> {
        let arrivals = self.arrivals.lock();
        arrivals.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The minimum cost of sending a request: one connection, one write, and the server.
    fn send(&self, body: &[u8]) -> anyhow::Result<Samples> {
        let url = self.server.base_url();
        let address = url.strip_prefix("http://").unwrap_or(&url);
        let mut samples = Samples::default();
        for _ in 0..20 {
            let mut connection = TcpStream::connect(address)?;
            let head = format!(
                "POST /v1/messages HTTP/1.1\r\nhost: {address}\r\nx-api-key: k\r\n\
                 anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let begun = Instant::now();
            connection.write_all(head.as_bytes())?;
            connection.write_all(body)?;
            connection.read_to_end(&mut Vec::new())?;
            let arrived = self.arrivals().pop().context("nothing arrived")?;
            samples.add_time(arrived.saturating_duration_since(begun));
        }
        Ok(samples)
    }
}

fn start_run(
    bench: &Bench,
    model: &TimedModel,
    folder: &Path,
    output: Stdio,
) -> anyhow::Result<Child> {
    let workspace = folder.join("workspace");
    std::fs::create_dir(&workspace)?;
    Command::new(bench.program())
        .args(["run", "--json", "--no-audit", "--base-url"])
        .arg(model.server.base_url())
        .arg("--workspace")
        .arg(workspace)
        .arg("--data")
        .arg(folder.join("data"))
        .arg("go")
        .current_dir(folder)
        .env("ANTHROPIC_API_KEY", "key")
        .env("XDG_CONFIG_HOME", folder)
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()
        .context("cannot start hotcell")
}

fn run(bench: &Bench, model: &TimedModel) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let status = start_run(bench, model, folder.path(), Stdio::null())?.wait()?;
    ensure!(status.success(), "`hotcell run` ended with {status}");
    Ok(())
}

/// Peak memory of all processes of a run together, in KiB.
fn measure_peak_memory(bench: &Bench, model: &TimedModel) -> anyhow::Result<u64> {
    let folder = tempfile::tempdir()?;
    let mut child = start_run(bench, model, folder.path(), Stdio::null())?;
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let resident = processes::descendants()
            .into_iter()
            .filter_map(processes::resident);
        peak = peak.max(resident.sum());
        std::thread::sleep(Duration::from_millis(2));
    };
    ensure!(status.success(), "`hotcell run` ended with {status}");
    Ok(peak)
}
