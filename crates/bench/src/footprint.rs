//! The memory of one idle sandbox: its supervisor and its guest.

use std::time::Duration;

use sandbox::{Command, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::{Bench, PROGRAM};
use crate::processes::{descendants, memory, total};
use crate::report::{Goal, Report, Row};

const SECTION: &str = "memory of an idle sandbox";

/// Goal for resident memory, in MiB.
const ROOM: f64 = 5.0;

pub(crate) fn measure(bench: &Bench, runtime: &Runtime, report: &mut Report) -> anyhow::Result<()> {
    report.begin(SECTION);
    let sandbox = runtime.block_on(Sandbox::start(bench.spec()))?;
    runtime.block_on(sandbox.run(Command::new([PROGRAM])))?;
    std::thread::sleep(Duration::from_millis(300));
    let pids = descendants();
    for pid in &pids {
        if let Some(memory) = memory(*pid) {
            let name = if Some(pid) == pids.first() {
                "supervisor, resident"
            } else {
                "guest, resident"
            };
            report.add(Row::size(name, memory.resident));
        }
    }
    match total(&pids) {
        Some(memory) => {
            let resident = memory.resident as f64 / 1024.0;
            report.add(
                Row::size("both, resident", memory.resident)
                    .goals(vec![Goal::at_most("MiB", resident, ROOM)]),
            );
            report.add(Row::size("both, proportional", memory.proportional));
            report.add(Row::size("both, private", memory.private));
        }
        None => report.add(Row::missing("both", "the kernel does not tell this user")),
    }
    runtime.block_on(sandbox.end());
    Ok(())
}
