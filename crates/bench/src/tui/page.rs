//! Cost of a long page: memory, and the time to show another part of it.

use llm::script::ScriptedReply;
use serde_json::json;

use super::{RunningUi, UiSetup};
use crate::peers::Bench;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const LINE_COUNT: usize = 100_000;
/// Number of replies that the lines are spread over.
const REPLY_COUNT: usize = 20;
const LINE_TEXT: &str =
    "The lines of a long conversation are of all lengths; this one has seventy.\n\n";

const PAGE_UP: &str = "\x1b[5~";
const CTRL_HOME: &str = "\x1b[1;5H";
const CTRL_END: &str = "\x1b[1;5F";

pub(super) fn measure(bench: &Bench, report: &mut BenchReport) -> anyhow::Result<()> {
    let mut opened = UiSetup::prepare(replies())?.open(bench)?;
    report.add(ReportRow::size("resident at the start", opened.resident()?));
    opened.pty.send("go\r")?;
    opened.pty.wait_for("the very end")?;
    report.add(memory_row("with 100,000 lines", &opened)?);

    let mut jumps = Samples::default();
    for key in [CTRL_HOME, CTRL_END].into_iter().cycle().take(40) {
        jumps.add_time(opened.pty.frame_after(key)?);
    }
    let goals = vec![BenchGoal::at_most("ms at p99", jumps.p99(), 100.0)];
    report.add(ReportRow::times("to the top or the end", &jumps).goals(goals));
    let mut pages = Samples::default();
    for _ in 0..100 {
        pages.add_time(opened.pty.frame_after(PAGE_UP)?);
    }
    let goals = vec![BenchGoal::at_most("ms at p99", pages.p99(), 16.0)];
    report.add(ReportRow::times("a page up", &pages).goals(goals));
    report.add(memory_row("after scrolling in them", &opened)?);
    Ok(())
}

fn memory_row(name: &str, opened: &RunningUi) -> anyhow::Result<ReportRow> {
    let resident = opened.resident()?;
    let megabytes = resident as f64 * 1024.0 / 1e6;
    let goals = vec![BenchGoal::at_most("MB resident", megabytes, 80.0)];
    Ok(ReportRow::size(name, resident).goals(goals))
}

fn replies() -> Vec<ScriptedReply> {
    // Every paragraph is a line and an empty one.
    let text = LINE_TEXT.repeat(LINE_COUNT / REPLY_COUNT / 2);
    let last = ScriptedReply::text(format!("{text}the very end"));
    // Repeating the same call would end the turn.
    let calls = (1..REPLY_COUNT).map(|piece| ScriptedReply {
        text: Some(text.clone()),
        ..ScriptedReply::call("bash", json!({"command": format!("echo {piece}")}))
    });
    calls.chain([last]).collect()
}
