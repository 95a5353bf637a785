//! Output throughput of a sandbox in bytes per second, compared with a bare pipe.

use std::io::Read;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use sandbox::{CommandEvent, ExecCommand, Sandbox};
use tokio::runtime::Runtime;

use crate::peers::Bench;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

const SECTION: &str = "streaming to the host";

/// Bytes that are sent each time.
const STREAM_BYTES: u64 = 1 << 30;

/// Writes [`STREAM_BYTES`] zeros, one MiB at a time.
const WRITER_COMMAND: &[&str] = &["dd", "if=/dev/zero", "bs=1M", "count=1024", "status=none"];

pub(crate) fn measure(
    bench: &Bench,
    runtime: &Runtime,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin(SECTION);
    let sandbox = runtime.block_on(Sandbox::start(bench.spec()))?;
    let (mut bare, mut library) = (Samples::default(), Samples::default());
    let (mut piped, mut dropped) = (Samples::default(), Samples::default());
    let add = |samples: &mut Samples, time: Duration| {
        samples.add(STREAM_BYTES as f64 / 1e9 / time.as_secs_f64());
    };
    for _ in 0..rounds {
        let mut writer = Process::new(WRITER_COMMAND[0]);
        add(&mut bare, drain(writer.args(&WRITER_COMMAND[1..]))?);
        add(&mut library, runtime.block_on(consume(&sandbox))?);
        add(&mut piped, drain(&mut bench.hotcell(WRITER_COMMAND))?);
        add(&mut dropped, discard(&mut bench.hotcell(WRITER_COMMAND))?);
    }
    runtime.block_on(sandbox.end());
    let goal = |samples: &Samples| vec![BenchGoal::at_least("GB/s", samples.median(), 1.0)];
    report.add(ReportRow::rates("bare pipe", &bare));
    report.add(ReportRow::rates("Running::next", &library).goals(goal(&library)));
    report.add(ReportRow::rates("hotcell exec | reader", &piped).goals(goal(&piped)));
    report.add(ReportRow::rates("hotcell exec > /dev/null", &dropped).goals(goal(&dropped)));
    Ok(())
}

/// Reads all output of a process through a pipe.
fn drain(command: &mut Process) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = child.stdout.take().context("the output is a pipe")?;
    let (mut buffer, mut seen) = (vec![0; 256 * 1024], 0);
    loop {
        match output.read(&mut buffer)? {
            0 => break,
            length => seen += length as u64,
        }
    }
    let status = child.wait()?;
    ensure!(
        status.success() && seen == STREAM_BYTES,
        "{seen} bytes, {status}"
    );
    Ok(began.elapsed())
}

fn discard(command: &mut Process) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "`hotcell exec` ended with {status}");
    Ok(began.elapsed())
}

/// Reads and discards all output of a command in the sandbox.
async fn consume(sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut running = sandbox
        .exec(ExecCommand::new(WRITER_COMMAND.iter().copied()))
        .await?;
    let mut seen = 0;
    loop {
        match running.next().await? {
            CommandEvent::Stdout(bytes) => seen += bytes.len() as u64,
            CommandEvent::Stderr(_) => {}
            CommandEvent::Ended(verdict) => {
                ensure!(
                    verdict.success() && seen == STREAM_BYTES,
                    "{seen} bytes, {verdict:?}"
                );
                return Ok(began.elapsed());
            }
        }
    }
}
