//! Many sandboxes alive at once: does the last start as fast as the first, and what do they hold?

use std::time::Instant;

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sandbox::{Command, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, PROGRAM};
use crate::processes::{descendants, memory, total};
use crate::report::{Goal, Report, Row};
use crate::samples::Samples;

const SECTION: &str = "many at once";

/// How many at each end are compared.
const ENDS: usize = 10;

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    count: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    // Each sandbox holds a few descriptors of this process.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let before = memory(std::process::id()).unwrap_or_default();
    let mut times = Samples::default();
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
    let after = memory(std::process::id()).unwrap_or_default();
    let held = total(&descendants());

    let began = Instant::now();
    for sandbox in crowd {
        runtime.block_on(sandbox.end());
    }
    let mut ending = Samples::default();
    ending.add_time(began.elapsed() / times.len().max(1) as u32);

    let (first, last) = (times.first(ENDS), times.last(ENDS));
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
    let each = |size: u64| size / count.max(1) as u64;
    if let Some(held) = held {
        report.add(Row::size("each, proportional", each(held.proportional)));
        report.add(Row::size("each, private", each(held.private)));
    }
    let grown = after.resident.saturating_sub(before.resident);
    report.add(Row::size("each, in this process", each(grown)));
    Ok(())
}
