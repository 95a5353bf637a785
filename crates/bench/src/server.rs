//! The orchestrator's cost: the real program, under load over real connections from this process.
//!
//! Server and load generator share the processors, so the rates are for both together. The
//! baselines are `/healthz`, which does nothing, and an fsync in the same folder for requests that
//! must be on disk before they are answered.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use llm::script::ScriptedReply;
use tempfile::TempDir;
use testkit::{ModelServer, ModelServerSettings, Replies, ScriptedAnswer, StreamGate};

use crate::http_client::{HttpConnection, get_request, post_request};
use crate::peers::Bench;
use crate::processes;
use crate::report::{BenchGoal, BenchReport, ReportRow};
use crate::samples::Samples;

/// Connections of the load generator.
const LOAD_CONNECTIONS: usize = 32;
/// Duration of each load.
const LOAD_DURATION: Duration = Duration::from_secs(5);
const JOB_REQUEST: &str = r#"{"task":"Build me a todo app"}"#;

pub(crate) fn measure(
    bench: &Bench,
    rounds: usize,
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    report.begin("server");
    measure_start(bench, rounds, report)?;
    measure_response(bench, rounds, report)?;
    measure_load(bench, report)
}

/// Start time, and memory when idle.
fn measure_start(bench: &Bench, rounds: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    let model = ModelServer::start_with(
        Replies::decide(|_| ScriptedReply::text("-")),
        ModelServerSettings::fast(),
    );
    let mut starts = Samples::default();
    let mut size = 0;
    for _ in 0..rounds {
        let begun = Instant::now();
        let server = BenchServer::start(bench, &model, &[])?;
        let answer = HttpConnection::open(server.address)?.ask(&get_request("/healthz"))?;
        starts.add_time(begun.elapsed());
        ensure!(answer.status == 200, "`/healthz` answers {}", answer.status);
        size = server.resident()?;
    }
    let goals = vec![BenchGoal::at_most("ms median", starts.median(), 500.0)];
    report.add(ReportRow::times("start to first answer", &starts).goals(goals));
    let goals = vec![BenchGoal::at_most("MB", size as f64 * 1024.0 / 1e6, 30.0)];
    report.add(ReportRow::size("idle server, resident", size).goals(goals));
    Ok(())
}

/// Time until an idle server has started a job, and until followers receive the agent's events.
fn measure_response(bench: &Bench, rounds: usize, report: &mut BenchReport) -> anyhow::Result<()> {
    let (asked, arrivals) = mpsc::channel();
    let replies = Replies::decide(move |_| {
        let _ = asked.send(Instant::now());
        ScriptedReply::text("Here it is.")
    });
    let model = ModelServer::start_with(replies, ModelServerSettings::fast());
    let server = BenchServer::start(bench, &model, &[])?;
    let mut connection = HttpConnection::open(server.address)?;
    let (mut floor, mut firsts, mut events) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..rounds {
        let begun = Instant::now();
        connection.ask(&get_request("/healthz"))?;
        floor.add_time(begun.elapsed());

        let begun = Instant::now();
        let job = connection.schedule()?;
        let mut follower = HttpConnection::open(server.address)?;
        follower.follow(&get_request(&format!("/v1/jobs/{job}/events")))?;
        let asked = arrivals.recv().context("no request arrived")?;
        firsts.add_time(asked.saturating_duration_since(begun));
        while !follower.next_line()?.contains("Here it is.") {}
        events.add_time(asked.elapsed());
        while follower.next_line()? != "event: end" {}
    }
    report.add(ReportRow::times("`/healthz`, one connection", &floor));
    let goals = vec![BenchGoal::at_most("ms median", firsts.median(), 50.0)];
    report.add(ReportRow::times("schedule to first request", &firsts).goals(goals));
    let goals = vec![BenchGoal::at_most("ms median", events.median(), 20.0)];
    report.add(ReportRow::times("a model's word to a follower", &events).goals(goals));
    Ok(())
}

/// Throughput with many clients. The only running job waits for its model, so that only the queue
/// is measured.
fn measure_load(bench: &Bench, report: &mut BenchReport) -> anyhow::Result<()> {
    let gate = StreamGate::new();
    let answer = ScriptedAnswer::reply(ScriptedReply::text("-")).hold(0, &gate);
    let replies = Replies::decide(move |_| answer.clone());
    let model = ModelServer::start_with(replies, ModelServerSettings::fast());
    let server = BenchServer::start(
        bench,
        &model,
        &[
            "--concurrency",
            "1",
            "--queue",
            "10000000",
            "--rate",
            "1000000",
        ],
    )?;
    report.add(ReportRow::times(
        "an fsync of 1 KB",
        &measure_fsync(server.folder.path())?,
    ));

    let healthz = get_request("/healthz");
    let floor = measure_max_rate(server.address, &healthz)?;
    report.add(ReportRow::rate("`/healthz`", floor));

    let schedule = post_request("/schedule", JOB_REQUEST);
    let accepted = measure_max_rate(server.address, &schedule)?;
    let goals = vec![
        BenchGoal::at_least("jobs a second", accepted, 2000.0),
        BenchGoal::at_least("of `/healthz`", accepted / floor, 0.1),
    ];
    report.add(ReportRow::rate("jobs accepted", accepted).goals(goals));

    let paced = measure_at_rate(server.address, &schedule, 1000.0)?;
    let goals = vec![BenchGoal::at_most("ms at p99", paced.p99(), 20.0)];
    report.add(ReportRow::times("a schedule, 1,000 a second", &paced).goals(goals));

    let job = HttpConnection::open(server.address)?.schedule()?;
    let status = get_request(&format!("/status/{job}"));
    let reads = measure_max_rate(server.address, &status)?;
    let goals = vec![
        BenchGoal::at_least("reads a second", reads, 10_000.0),
        BenchGoal::at_least("of `/healthz`", reads / floor, 0.4),
    ];
    report.add(ReportRow::rate("status read", reads).goals(goals));

    measure_queue_memory(&server, &schedule, report)?;
    gate.open();
    Ok(())
}

/// Memory cost of one more queued job.
fn measure_queue_memory(
    server: &BenchServer,
    schedule: &[u8],
    report: &mut BenchReport,
) -> anyhow::Result<()> {
    let before = server.resident()?;
    let begun = Instant::now();
    let jobs =
        (measure_max_rate(server.address, schedule)? * begun.elapsed().as_secs_f64()).max(1.0);
    let after = server.resident()?;
    let each = after.saturating_sub(before) as f64 * 1024.0 / jobs;
    let goals = vec![BenchGoal::at_most("bytes for each", each, 16.0)];
    report
        .add(ReportRow::size("more, with more waiting", after.saturating_sub(before)).goals(goals));
    Ok(())
}

struct BenchServer {
    child: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl BenchServer {
    fn start(bench: &Bench, model: &ModelServer, flags: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut child = Command::new(bench.program())
            .args(["serve", "--listen", "127.0.0.1:0", "--base-url"])
            .arg(model.base_url())
            .arg("--data")
            .arg(folder.path().join("data"))
            .args(flags)
            .current_dir(folder.path())
            .env("ANTHROPIC_API_KEY", "key")
            .env("XDG_CONFIG_HOME", folder.path())
            .env("HOTCELL_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start hotcell")?;
        let output = child.stdout.take().context("it has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().rsplit("http://").next().unwrap_or_default();
        let address = address
            .parse()
            .with_context(|| format!("the server said `{}`", line.trim()))?;
        Ok(Self {
            child,
            address,
            folder,
        })
    }

    /// In KiB.
    fn resident(&self) -> anyhow::Result<u64> {
        processes::resident(self.child.id()).context("the server is gone")
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl HttpConnection {
    /// Schedules a job and returns its id.
    fn schedule(&mut self) -> anyhow::Result<String> {
        let answer = self.ask(&post_request("/schedule", JOB_REQUEST))?;
        let body: serde_json::Value = serde_json::from_slice(&answer.body)?;
        let job = body["job_id"].as_str();
        Ok(job.context("a schedule without a job")?.to_owned())
    }
}

/// Responses per second when all connections send as fast as they can.
fn measure_max_rate(address: SocketAddr, request: &[u8]) -> anyhow::Result<f64> {
    let count = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ask = || -> anyhow::Result<()> {
            let mut connection = HttpConnection::open(address)?;
            while begun.elapsed() < LOAD_DURATION {
                let answer = connection.ask(request)?;
                ensure!(answer.status == 200, "answered {}", answer.status);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let askers: Vec<_> = (0..LOAD_CONNECTIONS).map(|_| scope.spawn(ask)).collect();
        askers.into_iter().try_for_each(join)
    })?;
    Ok(count.into_inner() as f64 / begun.elapsed().as_secs_f64())
}

/// Latencies from the time when each request was due, whether or not the previous one had
/// completed.
fn measure_at_rate(address: SocketAddr, request: &[u8], rate: f64) -> anyhow::Result<Samples> {
    let every = Duration::from_secs_f64(LOAD_CONNECTIONS as f64 / rate);
    let begun = Instant::now();
    let times = std::thread::scope(|scope| {
        let ask = |place: usize| -> anyhow::Result<Vec<Duration>> {
            let mut connection = HttpConnection::open(address)?;
            let mut due = begun + every.mul_f64(place as f64 / LOAD_CONNECTIONS as f64);
            let mut times = Vec::new();
            while due < begun + LOAD_DURATION {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let answer = connection.ask(request)?;
                ensure!(answer.status == 200, "answered {}", answer.status);
                times.push(due.elapsed());
                due += every;
            }
            Ok(times)
        };
        let askers: Vec<_> = (0..LOAD_CONNECTIONS)
            .map(|place| scope.spawn(move || ask(place)))
            .collect();
        let times = askers.into_iter().map(join);
        times.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut samples = Samples::default();
    for time in times.into_iter().flatten() {
        samples.add_time(time);
    }
    Ok(samples)
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn measure_fsync(folder: &Path) -> anyhow::Result<Samples> {
    let mut file = File::create(folder.join("fsync"))?;
    let mut samples = Samples::default();
    for _ in 0..100 {
        let begun = Instant::now();
        file.write_all(&[b'-'; 1024])?;
        file.sync_data()?;
        samples.add_time(begun.elapsed());
    }
    Ok(samples)
}
