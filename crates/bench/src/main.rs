//! `bench`: measures the speed and size of sandboxes, the agent, the server and the terminal UI,
//! and compares them with other installed programs, in one run.
//!
//! Contenders take turns (A B C A B C …), so that other load on the machine affects all of them
//! alike; only ratios within one run are meaningful. Prints a table, writes the same as JSON, and
//! evaluates the goals. A missed goal is not a failure. Leaves nothing behind.

mod agent;
mod creation;
mod crowd;
mod execution;
mod footprint;
mod http_client;
mod machine;
mod peers;
mod processes;
mod report;
mod samples;
mod server;
mod streaming;
mod tui;
mod walls;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;

use crate::machine::MachineInfo;
use crate::peers::Bench;
use crate::report::BenchReport;

/// Measure sandboxes against bare processes, unshare, bwrap, runc, podman and runsc.
#[derive(Debug, Parser)]
struct BenchArguments {
    /// What to measure [default: everything].
    #[arg(value_enum)]
    parts: Vec<BenchPart>,

    /// Rounds of the creation part. The other parts scale with it.
    #[arg(long, default_value_t = 40)]
    rounds: usize,

    /// Number of sandboxes in the crowd part.
    #[arg(long, default_value_t = 500)]
    crowd: usize,

    /// File for the results.
    #[arg(long, default_value = "bench.json")]
    json: PathBuf,

    /// The `hotcell` binary to measure [default: next to this program].
    #[arg(long, env = "HOTCELL_BIN")]
    hotcell: Option<PathBuf>,

    /// Folder with a root file system for virtual machines. `hotcell image show base` prints that
    /// of `base`.
    #[arg(long, value_name = "FOLDER", env = "HOTCELL_BENCH_IMAGE")]
    image: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BenchPart {
    Creation,
    Execution,
    Streaming,
    Footprint,
    Crowd,
    Walls,
    Agent,
    Server,
    Tui,
}

fn main() -> anyhow::Result<()> {
    let arguments = BenchArguments::parse();
    let wanted = |part| arguments.parts.is_empty() || arguments.parts.contains(&part);
    let rounds = arguments.rounds.max(3);
    let bench = Bench::prepare(arguments.hotcell.clone(), arguments.image.clone())?;
    // Like the `hotcell` program: one worker besides the main thread.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let mut report = BenchReport::new(MachineInfo::look());
    if wanted(BenchPart::Creation) {
        creation::measure(&bench, &runtime, rounds, &mut report)?;
    }
    if wanted(BenchPart::Execution) {
        execution::measure(&bench, &runtime, rounds * 25, &mut report)?;
    }
    if wanted(BenchPart::Streaming) {
        streaming::measure(&bench, &runtime, (rounds / 8).max(2), &mut report)?;
    }
    if wanted(BenchPart::Footprint) {
        footprint::measure(&bench, &runtime, &mut report)?;
    }
    if wanted(BenchPart::Crowd) {
        crowd::measure(&bench, &runtime, arguments.crowd, &mut report)?;
    }
    if wanted(BenchPart::Walls) {
        walls::measure(&bench, &runtime, (rounds / 4).max(3), &mut report)?;
    }
    drop(runtime);
    if wanted(BenchPart::Agent) {
        agent::measure(&bench, rounds / 2, &mut report)?;
    }
    if wanted(BenchPart::Server) {
        server::measure(&bench, rounds / 2, &mut report)?;
    }
    if wanted(BenchPart::Tui) {
        tui::measure(&bench, rounds, &mut report)?;
    }
    report.finish(&arguments.json)
}
