//! The terminal UI's cost for a user: time to the first prompt, latency of a typed letter under
//! load, memory for a long page, and CPU usage while idle.
//!
//! Drives the whole program in a pseudo terminal and reads its output as a terminal does.

mod idle;
mod keys;
mod page;
mod pty;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use llm::script::ScriptedReply;
use tempfile::TempDir;
use testkit::{ModelServer, ModelServerSettings, Replies};

use self::pty::BenchPty;
use crate::peers::Bench;
use crate::processes;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

/// Text on the screen once the sandbox is running.
const READY_TEXT: &str = "network:";

pub(crate) fn measure(
    bench: &Bench,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin("terminal UI");
    measure_start(bench, rounds, report)?;
    keys::measure(bench, rounds * 10, report)?;
    page::measure(bench, report)?;
    idle::measure(bench, report)
}

/// Time from start to a prompt.
fn measure_start(bench: &Bench, rounds: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    let (mut floor, mut starts) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        let begun = Instant::now();
        let mut pty = BenchPty::start(Command::new("echo").arg("ready"))?;
        pty.wait_for("ready")?;
        floor.add_time(begun.elapsed());

        let ui = UiSetup::prepare(Vec::new())?;
        let mut command = ui.command(bench);
        let begun = Instant::now();
        let mut pty = BenchPty::start(&mut command)?;
        pty.wait_for("\n> ")?;
        starts.add_time(begun.elapsed());
    }
    report.add(ReportRow::times("a bare `echo` to its word", &floor));
    let goals = vec![
        BenchGoal::at_most("ms median", starts.median(), 30.0),
        BenchGoal::at_most("of a bare `echo`", starts.median() / floor.median(), 15.0),
    ];
    report.add(ReportRow::times("cold start to the prompt", &starts).goals(goals));
    Ok(())
}

/// A folder and a model for one UI.
struct UiSetup {
    folder: TempDir,
    model: ModelServer,
}

/// A running UI. The folder and the model are dropped after the program.
struct RunningUi {
    pty: BenchPty,
    ui: UiSetup,
}

impl UiSetup {
    fn prepare(replies: Vec<ScriptedReply>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::create_dir(folder.path().join("workspace"))?;
        let model = ModelServer::start_with(Replies::list(replies), ModelServerSettings::fast());
        Ok(Self { folder, model })
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    fn command(&self, bench: &Bench) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new(bench.program());
        command
            .args(["--no-audit", "--max-output", "100G", "--base-url"])
            .arg(self.model.base_url())
            .arg("--workspace")
            .arg(self.workspace())
            .arg("--data")
            .arg(folder.join("data"))
            .current_dir(folder)
            .env("ANTHROPIC_API_KEY", "key")
            .env("XDG_CONFIG_HOME", folder)
            .env("TERM", "xterm-256color");
        command
    }

    fn open(self, bench: &Bench) -> anyhow::Result<RunningUi> {
        let mut pty = BenchPty::start(&mut self.command(bench))?;
        pty.wait_for(READY_TEXT)?;
        Ok(RunningUi { pty, ui: self })
    }
}

impl RunningUi {
    /// Memory in KiB of the program itself, without its sandbox.
    fn resident(&self) -> anyhow::Result<u64> {
        processes::resident(self.pty.pid()).context("`hotcell` has ended")
    }
}
