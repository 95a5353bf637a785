//! The memory of one idle sandbox: its supervisor and its guest.

use std::time::Duration;

use sandbox::{ExecCommand, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, TEST_PROGRAM};
use crate::processes::{descendants, memory, total_memory};
use crate::report::{BenchGoal, BenchReport, ReportRow};

const SECTION: &str = "memory of an idle sandbox";

/// Goal for resident memory, in MiB.
const MAX_RESIDENT_MIB: f64 = 5.0;

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    let sandbox = runtime.block_on(Sandbox::start(bench.spec()))?;
    runtime.block_on(sandbox.run(ExecCommand::new([TEST_PROGRAM])))?;
    std::thread::sleep(Duration::from_millis(300));
    let pids = descendants();
    for pid in &pids {
        if let Some(memory) = memory(*pid) {
            let name = if Some(pid) == pids.first() {
                "supervisor, resident"
            } else {
                "guest, resident"
            };
            report.add(ReportRow::size(name, memory.resident));
        }
    }
    match total_memory(&pids) {
        Some(memory) => {
            let resident = memory.resident as f64 / 1024.0;
            report.add(
                ReportRow::size("both, resident", memory.resident).goals(vec![BenchGoal::at_most(
                    "MiB",
                    resident,
                    MAX_RESIDENT_MIB,
                )]),
            );
            report.add(ReportRow::size("both, proportional", memory.proportional));
            report.add(ReportRow::size("both, private", memory.private));
        }
        None => report.add(ReportRow::missing(
            "both",
            "the kernel does not tell this user",
        )),
    }
    runtime.block_on(sandbox.end());
    Ok(())
}
