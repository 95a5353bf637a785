//! Latency from a key press to its letter, under increasing load. Measured from the write of the
//! key to the end of the frame that moved the cursor.

use std::fs;
use std::process::Command;
use std::time::Instant;

use llm::script::ScriptedReply;
use serde_json::json;

use super::pty::BenchPty;
use super::{RunningUi, UiSetup};
use crate::peers::Bench;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

/// Interval between two words in milliseconds: about 200 words per second, given timer resolution.
const WORD_INTERVAL_MS: u64 = 3;
/// Prints 50 MB per second, and writes the total number of bytes to a file.
const PRINTER_SCRIPT: &str = r#"perl -MTime::HiRes=time,sleep -e '
    my $piece = ("the quick brown fox jumps over the lazy dog, line after line\n" x 4000);
    my ($begun, $sum) = (time, 0);
    while (1) {
        print $piece;
        $sum += length $piece;
        open my $file, ">", "sum.new"; print $file $sum; close $file; rename "sum.new", "sum";
        my $ahead = $sum / 50e6 - (time - $begun);
        sleep $ahead if $ahead > 0;
    }'"#;

pub(super) fn measure(bench: &Bench, count: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    let mut cat = BenchPty::start(Command::new("cat").arg("-u"))?;
    let floor = cat.time_echoes(count)?;
    report.add(ReportRow::times("a letter, a bare terminal", &floor));
    let mut quiet = UiSetup::prepare(Vec::new())?.open(bench)?;
    report.add(ReportRow::times(
        "a letter, at rest",
        &quiet.pty.keys(count)?,
    ));

    let printed = |is_background: bool| {
        let input = json!({"command": PRINTER_SCRIPT, "timeout": 600, "background": is_background});
        ScriptedReply::call("bash", input)
    };
    let scenes: [(&str, Vec<ScriptedReply>, bool, bool); 3] = [
        ("a letter, words come", vec![streamed_reply()], true, false),
        (
            "a letter, a command prints",
            vec![printed(false)],
            false,
            true,
        ),
        (
            "a letter, both at once",
            vec![printed(true), streamed_reply()],
            true,
            true,
        ),
    ];
    for (name, replies, has_words, has_output) in scenes {
        let mut opened = UiSetup::prepare(replies)?.open(bench)?;
        opened.pty.send("go\r")?;
        opened
            .pty
            .wait_for(if has_words { "word" } else { "lazy dog" })?;
        let before = LoadProgress::look(&opened);
        let times = opened.pty.keys(count)?;
        let after = LoadProgress::look(&opened);
        let goals = vec![BenchGoal::at_most("ms at p99", times.p99(), 8.0)];
        report.add(ReportRow::times(name, &times).goals(goals));
        let seconds = (after.at - before.at).as_secs_f64();
        if has_words {
            report.add(ReportRow::rate(
                "  words",
                (after.words - before.words) / seconds,
            ));
        }
        if has_output {
            let mut rate = Samples::default();
            rate.add((after.bytes - before.bytes) / seconds / 1e9);
            report.add(ReportRow::rates("  printed", &rate));
        }
    }
    Ok(())
}

/// More words than are read during a measurement, each with its number.
fn streamed_reply() -> ScriptedReply {
    let text: String = (0..60_000)
        .map(|number| match number % 12 {
            11 => format!("word{number}.\n\n"),
            _ => format!("word{number} "),
        })
        .collect();
    ScriptedReply {
        pace_ms: WORD_INTERVAL_MS,
        ..ScriptedReply::text(text)
    }
}

/// Progress of the programs that generate the load.
struct LoadProgress {
    at: Instant,
    words: f64,
    bytes: f64,
}

impl LoadProgress {
    fn look(opened: &RunningUi) -> Self {
        let text = opened.pty.text();
        let words = text.split_whitespace().filter_map(|word| {
            let number = word.strip_prefix("word")?;
            number.trim_end_matches('.').parse::<u32>().ok()
        });
        let sum = fs::read_to_string(opened.ui.workspace().join("sum"));
        Self {
            at: Instant::now(),
            words: words.max().unwrap_or(0).into(),
            bytes: sum.ok().and_then(|sum| sum.parse().ok()).unwrap_or(0.0),
        }
    }
}
