//! Cost of a long page: memory, and the time to show another part of it.

use llm::script::ScriptedReply;
use serde_json::json;

use super::{Opened, Ui};
use crate::peers::Bench;
use crate::report::{Goal, Report, Row};
use crate::samples::Samples;

const LINES: usize = 100_000;
/// Number of replies that the lines are spread over.
const PIECES: usize = 20;
const LINE: &str = "The lines of a long conversation are of all lengths; this one has seventy.\n\n";

const PAGE_UP: &str = "\x1b[5~";
const TOP: &str = "\x1b[1;5H";
const END: &str = "\x1b[1;5F";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let mut opened = Ui::prepare(replies())?.open(bench)?;
    report.add(Row::size("resident at the start", opened.resident()?));
    opened.pty.send("go\r")?;
    opened.pty.wait_for("the very end")?;
    report.add(row("with 100,000 lines", &opened)?);

    let mut jumps = Samples::default();
    for key in [TOP, END].into_iter().cycle().take(40) {
        jumps.add_time(opened.pty.frame_after(key)?);
    }
    let goals = vec![Goal::at_most("ms at p99", jumps.p99(), 100.0)];
    report.add(Row::times("to the top or the end", &jumps).goals(goals));
    let mut pages = Samples::default();
    for _ in 0..100 {
        pages.add_time(opened.pty.frame_after(PAGE_UP)?);
    }
    let goals = vec![Goal::at_most("ms at p99", pages.p99(), 16.0)];
    report.add(Row::times("a page up", &pages).goals(goals));
    report.add(row("after scrolling in them", &opened)?);
    Ok(())
}

fn row(name: &str, opened: &Opened) -> anyhow::Result<Row> {
    let resident = opened.resident()?;
    let megabytes = resident as f64 * 1024.0 / 1e6;
    let goals = vec![Goal::at_most("MB resident", megabytes, 80.0)];
    Ok(Row::size(name, resident).goals(goals))
}

fn replies() -> Vec<ScriptedReply> {
    // Every paragraph is a line and an empty one.
    let text = LINE.repeat(LINES / PIECES / 2);
    let last = ScriptedReply::text(format!("{text}the very end"));
    // Repeating the same call would end the turn.
    let calls = (1..PIECES).map(|piece| ScriptedReply {
        text: Some(text.clone()),
        ..ScriptedReply::call("bash", json!({"command": format!("echo {piece}")}))
    });
    calls.chain([last]).collect()
}
