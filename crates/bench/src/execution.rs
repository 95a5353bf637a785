//! Another command in a running sandbox, compared with a bare start of the same program.

use std::process::Stdio;
use std::time::Instant;

use anyhow::ensure;
use sandbox::{ExecCommand, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, TEST_PROGRAM};
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const SECTION: &str = "a further command";

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    let (mut bare, mut captured, mut inside) =
        (Samples::default(), Samples::default(), Samples::default());
    let sandbox = runtime.block_on(Sandbox::start(bench.spec()))?;
    runtime.block_on(sandbox.run(ExecCommand::new([TEST_PROGRAM])))?;
    for _ in 0..rounds {
        let mut command = std::process::Command::new(TEST_PROGRAM);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let began = Instant::now();
        let status = command.stderr(Stdio::null()).status()?;
        bare.add_time(began.elapsed());
        ensure!(status.success(), "`{TEST_PROGRAM}` failed");

        let mut command = std::process::Command::new(TEST_PROGRAM);
        let began = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        captured.add_time(began.elapsed());
        ensure!(output.status.success(), "`{TEST_PROGRAM}` failed");

        let began = Instant::now();
        let ran = runtime.block_on(sandbox.run(ExecCommand::new([TEST_PROGRAM])))?;
        inside.add_time(began.elapsed());
        ensure!(
            ran.verdict.success(),
            "`{TEST_PROGRAM}` failed in the sandbox"
        );
    }
    runtime.block_on(sandbox.end());
    let own = inside.median();
    report.add(ReportRow::times("bare fork + exec", &bare));
    report.add(ReportRow::times("bare, output captured", &captured));
    report.add(ReportRow::times("Sandbox::run", &inside).goals(vec![
        BenchGoal::at_most("of bare", own / bare.median(), 2.0),
        BenchGoal::at_most("ms median", own, 1.0),
    ]));
    Ok(())
}
