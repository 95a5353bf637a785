//! Many sandboxes at once: does the last start as fast as the first, and how much memory do they
//! hold?

use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use sandbox::{Command, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, PROGRAM};
use crate::processes::{descendants, memory, ticks, total};
use crate::report::{Goal, Report, Row};
use crate::samples::Samples;

const SECTION: &str = "many at once";

/// How many sandboxes are compared at each end.
const ENDS: usize = 10;

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    count: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    // Each sandbox holds a few file descriptors of this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let before = memory(std::process::id()).unwrap_or_default();
    let mut times = Samples::default();
    let crowd = gather(bench, runtime, count, &mut times)?;
    let after = memory(std::process::id()).unwrap_or_default();
    let pids = descendants();
    let held = total(&pids);
    let idle = load(&pids)?;
    let began = Instant::now();
    disperse(runtime, crowd);
    let mut ending = Samples::default();
    ending.add_time(began.elapsed() / times.len().max(1) as u32);

    // Repeats the first ones, because the machine may be busier or idler than before.
    let (mut first, last) = (times.first(ENDS), times.last(ENDS));
    disperse(
        runtime,
        gather(bench, runtime, ENDS.min(count), &mut first)?,
    );
    let ratio = last.median() / first.median();
    report.add(Row::times(format!("first {ENDS} starts"), &first));
    report.add(
        Row::times(format!("last {ENDS} of {count}"), &last).goals(vec![Goal::at_most(
            "of the first",
            ratio,
            2.0,
        )]),
    );
    report.add(Row::times("ending one of them", &ending));
    report.add(Row::load("all, doing nothing", idle));
    let each = |size: u64| size / count.max(1) as u64;
    if let Some(held) = held {
        report.add(Row::size("each, proportional", each(held.proportional)));
        report.add(Row::size("each, private", each(held.private)));
    }
    let grown = after.resident.saturating_sub(before.resident);
    report.add(Row::size("each, in this process", each(grown)));
    Ok(())
}

/// Starts this many sandboxes, one after the other, each with a first command, and keeps them all
/// running.
fn gather(
    bench: &Bench,
    runtime: &Runtime,
    count: usize,
    times: &mut Samples,
) -> anyhow::Result<Vec<Sandbox>> {
    let mut crowd = Vec::with_capacity(count);
    for number in 1..=count {
        let began = Instant::now();
        let sandbox = runtime
            .block_on(Sandbox::start(bench.spec()))
            .with_context(|| format!("cannot start sandbox number {number}"))?;
        runtime.block_on(sandbox.run(Command::new([PROGRAM])))?;
        times.add_time(began.elapsed());
        crowd.push(sandbox);
    }
    Ok(crowd)
}

/// CPU usage of these processes while idle, in percent of one processor.
fn load(pids: &[u32]) -> anyhow::Result<f64> {
    let per_second = sysconf(SysconfVar::CLK_TCK)?.context("the kernel does not report its tick rate")?;
    let (before, began) = (ticks(pids), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks(pids).saturating_sub(before) as f64 / per_second as f64;
    Ok(used / began.elapsed().as_secs_f64() * 100.0)
}

fn disperse(runtime: &Runtime, crowd: Vec<Sandbox>) {
    for sandbox in crowd {
        runtime.block_on(sandbox.end());
    }
}
