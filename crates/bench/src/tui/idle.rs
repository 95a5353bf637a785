//! CPU usage while idle.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::Context;
use llm::script::ScriptedReply;

use super::UiSetup;
use crate::peers::Bench;
use crate::report::{BenchGoal, BenchReport, ReportRow};

const IDLE_DURATION: Duration = Duration::from_secs(10);
/// Time for the last turn's work to finish.
const SETTLE_DELAY: Duration = Duration::from_secs(2);

pub(super) fn measure(bench: &Bench, report: &mut BenchReport) -> anyhow::Result<()> {
    let mut opened = UiSetup::prepare(vec![ScriptedReply::text("the very end")])?.open(bench)?;
    opened.pty.send("go\r")?;
    opened.pty.wait_for("the very end")?;
    opened.pty.pause(SETTLE_DELAY)?;
    let before = work(opened.pty.pid())?;
    opened.pty.pause(IDLE_DURATION)?;
    let after = work(opened.pty.pid())?;
    // A thread that has ended meanwhile is ignored.
    let spent = after.iter().map(|(thread, now)| {
        let then = before.get(thread).copied().unwrap_or_default();
        (now.seconds - then.seconds, now.rests - then.rests)
    });
    let (seconds, rests) = spent.fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let goals = vec![
        BenchGoal::at_most("ms of a processor", seconds * 1e3, 1.0),
        BenchGoal::at_most("rests of its threads", rests as f64, 10.0),
    ];
    let percent = seconds * 100.0 / IDLE_DURATION.as_secs_f64();
    report.add(ReportRow::load("at rest for 10 s", percent).goals(goals));
    Ok(())
}

/// A thread's usage so far.
#[derive(Debug, Clone, Copy, Default)]
struct ThreadUsage {
    /// Processor time.
    seconds: f64,
    /// Voluntary and involuntary context switches.
    rests: u64,
}

fn work(pid: u32) -> anyhow::Result<BTreeMap<String, ThreadUsage>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?;
        let spent = fs::read_to_string(task.path().join("schedstat"))?;
        let nanoseconds: f64 = spent.split(' ').next().context("it is empty")?.parse()?;
        let status = fs::read_to_string(task.path().join("status"))?;
        let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
        let work = ThreadUsage {
            seconds: nanoseconds / 1e9,
            rests: counts
                .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
                .sum(),
        };
        all.insert(task.file_name().to_string_lossy().into_owned(), work);
    }
    Ok(all)
}
