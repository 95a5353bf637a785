//! Many sandboxes at once: does the last start as fast as the first, and how much memory do they
//! hold?

use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use sandbox::{ExecCommand, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, TEST_PROGRAM};
use crate::processes::{cpu_ticks, descendants, memory, total_memory};
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const SECTION: &str = "many at once";

/// How many sandboxes are compared at each end.
const COMPARED_STARTS: usize = 10;

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    count: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    // Each sandbox holds a few file descriptors of this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let before = memory(std::process::id()).unwrap_or_default();
    let mut times = Samples::default();
    let crowd = start_sandboxes(bench, runtime, count, &mut times)?;
    let after = memory(std::process::id()).unwrap_or_default();
    let pids = descendants();
    let held = total_memory(&pids);
    let idle = measure_idle_cpu(&pids)?;
    let began = Instant::now();
    end_sandboxes(runtime, crowd);
    let mut ending = Samples::default();
    ending.add_time(began.elapsed() / times.len().max(1) as u32);

    // Repeats the first ones, because the machine may be busier or idler than before.
    let (mut first, last) = (times.first(COMPARED_STARTS), times.last(COMPARED_STARTS));
    end_sandboxes(
        runtime,
        start_sandboxes(bench, runtime, COMPARED_STARTS.min(count), &mut first)?,
    );
    let ratio = last.median() / first.median();
    report.add(ReportRow::times(
        format!("first {COMPARED_STARTS} starts"),
        &first,
    ));
    report.add(
        ReportRow::times(format!("last {COMPARED_STARTS} of {count}"), &last)
            .goals(vec![BenchGoal::at_most("of the first", ratio, 2.0)]),
    );
    report.add(ReportRow::times("ending one of them", &ending));
    report.add(ReportRow::load("all, doing nothing", idle));
    let each = |size: u64| size / count.max(1) as u64;
    if let Some(held) = held {
        report.add(ReportRow::size(
            "each, proportional",
            each(held.proportional),
        ));
        report.add(ReportRow::size("each, private", each(held.private)));
    }
    let grown = after.resident.saturating_sub(before.resident);
    report.add(ReportRow::size("each, in this process", each(grown)));
    Ok(())
}

/// Starts this many sandboxes, one after the other, each with a first command, and keeps them all
/// running.
fn start_sandboxes(
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
        runtime.block_on(sandbox.run(ExecCommand::new([TEST_PROGRAM])))?;
        times.add_time(began.elapsed());
        crowd.push(sandbox);
    }
    Ok(crowd)
}

/// CPU usage of these processes while idle, in percent of one processor.
fn measure_idle_cpu(pids: &[u32]) -> anyhow::Result<f64> {
    let per_second =
        sysconf(SysconfVar::CLK_TCK)?.context("the kernel does not report its tick rate")?;
    let (before, began) = (cpu_ticks(pids), Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let used = cpu_ticks(pids).saturating_sub(before) as f64 / per_second as f64;
    Ok(used / began.elapsed().as_secs_f64() * 100.0)
}

fn end_sandboxes(runtime: &Runtime, crowd: Vec<Sandbox>) {
    for sandbox in crowd {
        runtime.block_on(sandbox.end());
    }
}
