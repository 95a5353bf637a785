//! The other backends, each compared with the bare program that it uses: creation with a first
//! command, a further command, and for virtual machines the memory of an additional one.

use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};
use sandbox::{Backend, ExecCommand, Sandbox, SandboxError, SandboxSpec};
use tokio::runtime::Runtime;

use crate::peers::{Bench, BenchContainer, PeerProgram, TEST_PROGRAM, bare_podman, bare_runsc};
use crate::processes::{descendants, total_memory};
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

/// Further commands in each round, to measure a sandbox in use rather than a new one. In the first
/// second gVisor calibrates its clock, and an emulated kernel is still being translated.
const COMMANDS_PER_ROUND: usize = 40;

/// Number of virtual machines that run while their memory is measured.
const MICROVM_COUNT: usize = 4;

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    measure_creation(bench, runtime, rounds, report)?;
    measure_execution(bench, runtime, rounds, report)?;
    memory(bench, runtime, report)
}

fn spec(bench: &Bench, backend: Backend) -> SandboxSpec {
    SandboxSpec {
        backend,
        ..bench.spec()
    }
}

/// A backend, and the bare program that it is compared with.
struct BackendContender {
    backend: Backend,
    bare: Option<PeerProgram>,
    times: Samples,
    /// Time until nothing of it is left, which is when a bare program ends.
    whole: Samples,
    missing: Option<String>,
}

impl BackendContender {
    /// Tries both once. The first virtual machine makes the snapshot that all others start from.
    fn new(bench: &Bench, runtime: &Runtime, backend: Backend, bare: Option<PeerProgram>) -> Self {
        let missing = runtime.block_on(start_sandbox(bench, backend)).err();
        Self {
            backend,
            bare,
            times: Samples::default(),
            whole: Samples::default(),
            missing: missing.map(|error| format!("{error:#}")),
        }
    }
}

fn measure_creation(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin("create + first command, by backend");
    let mut contenders = [
        (Backend::Podman, Some(bare_podman(bench))),
        (Backend::Docker, None),
        (Backend::Gvisor, Some(bare_runsc(bench)?)),
        (Backend::Microvm, None),
    ]
    .map(|(backend, bare)| BackendContender::new(bench, runtime, backend, bare));
    for _ in 0..rounds {
        for contender in &mut contenders {
            if let Some(bare) = &mut contender.bare
                && bare.missing.is_none()
            {
                let began = Instant::now();
                bare.run()?;
                bare.times.add_time(began.elapsed());
            }
            if contender.missing.is_none() {
                let began = Instant::now();
                let sandbox = runtime.block_on(start_sandbox(bench, contender.backend))?;
                contender.times.add_time(began.elapsed());
                runtime.block_on(sandbox.end());
                contender.whole.add_time(began.elapsed());
            }
        }
    }
    for contender in contenders {
        let name = contender.backend.name();
        let mut bare_median = None;
        if let Some(bare) = &contender.bare {
            report.add(match &bare.missing {
                Some(why) => ReportRow::missing(bare.name, why),
                None => ReportRow::times(bare.name, &bare.times),
            });
            bare_median = Some(bare.times.median());
        }
        let own = contender.times.median();
        let goals = match (contender.backend, bare_median) {
            (_, Some(bare)) => vec![BenchGoal::at_most("of the bare program", own / bare, 1.2)],
            (Backend::Microvm, None) => vec![BenchGoal::at_most("ms from snapshot", own, 500.0)],
            _ => Vec::new(),
        };
        report.add(match &contender.missing {
            Some(why) => ReportRow::missing(name, why),
            None => ReportRow::times(name, &contender.times).goals(goals),
        });
        if contender.missing.is_none() {
            report.add(ReportRow::times(
                format!("{name}, and its end"),
                &contender.whole,
            ));
        }
    }
    Ok(())
}

/// A sandbox that has run its first command.
async fn start_sandbox(bench: &Bench, backend: Backend) -> anyhow::Result<Sandbox> {
    let sandbox = Sandbox::start(spec(bench, backend)).await?;
    run_command(&sandbox).await?;
    Ok(sandbox)
}

async fn run_command(sandbox: &Sandbox) -> anyhow::Result<()> {
    let ran = sandbox.run(ExecCommand::new([TEST_PROGRAM])).await?;
    ensure!(
        ran.verdict.success(),
        "`{TEST_PROGRAM}` failed in the sandbox"
    );
    Ok(())
}

fn measure_execution(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin("a further command, by backend");
    let bare = BenchContainer::start(bench);
    let mut bare_times = Samples::default();
    if let Ok(container) = &bare {
        for _ in 0..rounds {
            let began = Instant::now();
            let status = container.exec().stdout(Stdio::null()).status()?;
            bare_times.add_time(began.elapsed());
            ensure!(status.success(), "`podman exec` ended with {status}");
        }
    }
    report.add(match &bare {
        Ok(_) => ReportRow::times("podman exec", &bare_times),
        Err(error) => ReportRow::missing("podman exec", format!("{error:#}")),
    });
    drop(bare);
    for backend in [
        Backend::Podman,
        Backend::Docker,
        Backend::Gvisor,
        Backend::Microvm,
    ] {
        let sandbox = match runtime.block_on(start_sandbox(bench, backend)) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                report.add(ReportRow::missing(backend.name(), format!("{error:#}")));
                continue;
            }
        };
        let mut times = Samples::default();
        for _ in 0..rounds * COMMANDS_PER_ROUND {
            let began = Instant::now();
            runtime.block_on(run_command(&sandbox))?;
            times.add_time(began.elapsed());
        }
        let floor = match backend {
            Backend::Microvm => Some(runtime.block_on(time_in_shell(&sandbox, rounds))?),
            _ => None,
        };
        runtime.block_on(sandbox.end());
        let own = times.median();
        let goal = match backend {
            Backend::Microvm => BenchGoal::at_most("ms median", own, 5.0),
            _ => BenchGoal::at_least("faster than podman exec", bare_times.median() / own, 20.0),
        };
        report.add(ReportRow::times(backend.name(), &times).goals(vec![goal]));
        if let Some(floor) = floor {
            report.add(ReportRow::times("microvm, by a shell inside", &floor));
        }
    }
    Ok(())
}

/// Time of a command without the link: a shell inside runs many commands, one after the other.
async fn time_in_shell(sandbox: &Sandbox, rounds: usize) -> anyhow::Result<Samples> {
    let script = format!("for i in $(seq {COMMANDS_PER_ROUND}); do {TEST_PROGRAM}; done");
    let mut times = Samples::default();
    for _ in 0..rounds {
        let began = Instant::now();
        let ran = sandbox.run(ExecCommand::new(["sh", "-c", &script])).await?;
        ensure!(ran.verdict.success(), "the shell failed in the sandbox");
        times.add_time(began.elapsed() / COMMANDS_PER_ROUND as u32);
    }
    Ok(times)
}

/// Memory of an additional virtual machine while others of the same snapshot run.
fn memory(bench: &Bench, runtime: &Runtime, report: &mut BenchReport) -> anyhow::Result<()> {
    report.begin("memory of one more microvm");
    let herd = || -> Result<Vec<Sandbox>, SandboxError> {
        runtime.block_on(async {
            let mut herd = Vec::new();
            for _ in 0..MICROVM_COUNT {
                let sandbox = Sandbox::start(spec(bench, Backend::Microvm)).await?;
                sandbox.run(ExecCommand::new([TEST_PROGRAM])).await?;
                herd.push(sandbox);
            }
            Ok(herd)
        })
    };
    let mut herd = match herd() {
        Ok(herd) => herd,
        Err(error) => {
            report.add(ReportRow::missing("microvm", error.to_string()));
            return Ok(());
        }
    };
    let proportional = || {
        let memory = total_memory(&descendants()).context("the kernel does not tell this user")?;
        anyhow::Ok(memory.proportional)
    };
    let all = proportional()?;
    for sandbox in herd.drain(1..) {
        runtime.block_on(sandbox.end());
    }
    let one = proportional()?;
    for sandbox in herd {
        runtime.block_on(sandbox.end());
    }
    let more = all.saturating_sub(one) / (MICROVM_COUNT as u64 - 1);
    report.add(ReportRow::size("the first, proportional", one));
    report.add(
        ReportRow::size("one more, proportional", more).goals(vec![BenchGoal::at_most(
            "MiB",
            more as f64 / 1024.0,
            70.0,
        )]),
    );
    Ok(())
}
