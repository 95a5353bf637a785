//! Time from no sandbox to the end of the first command, with a fresh sandbox each time.

use std::time::Instant;

use anyhow::ensure;
use sandbox::{ExecCommand, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, PeerProgram, TEST_PROGRAM, peers};
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const SECTION: &str = "create + first command";

/// Times of the parts of a sandbox's life, in process.
#[derive(Default)]
struct LifetimeSamples {
    whole: Samples,
    start: Samples,
    first: Samples,
    end: Samples,
}

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    let mut peers = peers(bench)?;
    let mut life = LifetimeSamples::default();
    runtime.block_on(run_sandbox(bench, &mut LifetimeSamples::default()))?;
    for _ in 0..rounds {
        for peer in peers.iter_mut().filter(|peer| peer.missing.is_none()) {
            let began = Instant::now();
            peer.run()?;
            peer.times.add_time(began.elapsed());
        }
        runtime.block_on(run_sandbox(bench, &mut life))?;
    }
    let median = |name: &str| {
        let peer = peers.iter().find(|peer| peer.name == name);
        peer.map_or(f64::NAN, |peer| peer.times.median())
    };
    let goals = |own: f64| {
        vec![
            BenchGoal::at_most("of bwrap", own / median("bwrap"), 1.0),
            BenchGoal::at_least("faster than podman", median("podman") / own, 10.0),
        ]
    };
    for peer in &peers {
        report.add(match &peer.missing {
            Some(why) => ReportRow::missing(peer.name, why),
            None if peer.name == "hotcell exec" => {
                ReportRow::times(peer.name, &peer.times).goals(goals(peer.times.median()))
            }
            None => ReportRow::times(peer.name, &peer.times),
        });
    }
    report.add(
        ReportRow::times("Sandbox, in process", &life.whole).goals(goals(life.whole.median())),
    );
    for (name, samples) in [
        ("  of which start", &life.start),
        ("  of which the command", &life.first),
        ("  of which end", &life.end),
    ] {
        report.add(ReportRow::times(name, samples));
    }
    remove_podman_cgroups(&peers);
    Ok(())
}

async fn run_sandbox(bench: &Bench, life: &mut LifetimeSamples) -> anyhow::Result<()> {
    let began = Instant::now();
    let sandbox = Sandbox::start(bench.spec()).await?;
    let started = Instant::now();
    let ran = sandbox.run(ExecCommand::new([TEST_PROGRAM])).await?;
    let finished = Instant::now();
    sandbox.end().await;
    life.whole.add_time(began.elapsed());
    life.start.add_time(started - began);
    life.first.add_time(finished - started);
    life.end.add_time(finished.elapsed());
    ensure!(
        ran.verdict.success(),
        "`{TEST_PROGRAM}` failed in the sandbox"
    );
    Ok(())
}

/// Removes the cgroups that podman leaves for all of its containers, if they are empty.
fn remove_podman_cgroups(peers: &[PeerProgram]) {
    if !peers
        .iter()
        .any(|peer| peer.name == "podman" && peer.missing.is_none())
    {
        return;
    }
    let Ok(folders) = std::fs::read_dir("/sys/fs/cgroup") else {
        return;
    };
    for folder in folders.flatten() {
        for left in ["libpod_parent/conmon", "libpod_parent"] {
            // Fails, as intended, if another container is running.
            let _ = std::fs::remove_dir(folder.path().join(left));
        }
    }
}
