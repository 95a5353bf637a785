//! Many `hotcell exec` calls with random kills of every process of a sandbox, under a watchdog.
//!
//! A call is over when its process has ended and all writers of its output have closed it, as for a shell
//! that captures it. A call that is not over in time hangs: the watchdog prints the state of every process
//! and thread below this one, and the run fails. `make soak` runs 10,000 calls; the ordinary tests run a
//! few.
//!
//! Variables: `SOAK_CALLS`, `SOAK_SEED`, `SOAK_JOBS` (concurrent calls), `SOAK_SECONDS` (timeout of a call),
//! `SOAK_BACKEND`, `HOTCELL_BIN`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod call;
mod random;
mod stacks;

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use call::{SoakCall, SoakHome};
use random::Random;

/// Calls in the ordinary tests.
const DEFAULT_CALLS: u64 = 150;

/// Poll interval.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    // Orphans become children of this process, so that they are found and reaped.
    // SAFETY: only numbers are passed.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
    let folder = tempfile::tempdir().unwrap();
    let place = SoakHome::new(folder.path());
    let seed = number_from_env("SOAK_SEED", u64::from(std::process::id()));
    let mut soak = Soak {
        random: Random::new(seed),
        calls: number_from_env("SOAK_CALLS", DEFAULT_CALLS),
        jobs: number_from_env("SOAK_JOBS", 4) as usize,
        deadline: Duration::from_secs(number_from_env("SOAK_SECONDS", 120)),
        running: Vec::new(),
        ends: BTreeMap::new(),
        kills: BTreeMap::new(),
        longest: Duration::ZERO,
    };
    println!("soak: {} calls, seed {seed}", soak.calls);
    let begun = Instant::now();
    let outcome = soak.run(&place);
    soak.tell(begun.elapsed());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("soak: {problem}; seed {seed}");
            ExitCode::FAILURE
        }
    }
}

fn number_from_env(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().unwrap())
}

struct Soak {
    random: Random,
    calls: u64,
    jobs: usize,
    deadline: Duration,
    running: Vec<SoakCall>,
    /// How calls ended, with counts.
    ends: BTreeMap<String, u64>,
    /// Signals by kind of process, with counts.
    kills: BTreeMap<String, u64>,
    longest: Duration,
}

impl Soak {
    fn run(&mut self, place: &SoakHome) -> Result<(), String> {
        let mut started = 0;
        while started < self.calls || !self.running.is_empty() {
            while started < self.calls && self.running.len() < self.jobs {
                let call = SoakCall::start(started, place, &mut self.random);
                self.running.push(call);
                started += 1;
                if started % 1000 == 0 {
                    println!("soak: {started} calls started");
                }
            }
            self.collect();
            for call in &mut self.running {
                if let Some(sent) = call.send_due_signal(&mut self.random) {
                    *self.kills.entry(sent).or_default() += 1;
                }
                call.drain();
            }
            self.finish();
            if let Some(stuck) = self.stuck() {
                stacks::print_all();
                return Err(stuck);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        self.wait_for_remaining()
    }

    /// Reaps every process that has ended, including orphans.
    fn collect(&mut self) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: the status outlives the call.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            match pid {
                0 => return true,
                -1 => return false,
                _ => {}
            }
            if let Some(call) = self.running.iter_mut().find(|call| call.pid == pid) {
                call.ended = Some(status);
            }
        }
    }

    fn finish(&mut self) {
        let (over, running) = std::mem::take(&mut self.running)
            .into_iter()
            .partition(SoakCall::is_over);
        self.running = running;
        for call in over {
            self.longest = self.longest.max(call.begun.elapsed());
            *self.ends.entry(call.end()).or_default() += 1;
        }
    }

    fn stuck(&self) -> Option<String> {
        let mut running = self.running.iter();
        let stuck = running.find(|call| call.begun.elapsed() > self.deadline)?;
        Some(format!("a call hangs: {stuck}"))
    }

    /// After the last call, no process of any call is left.
    fn wait_for_remaining(&mut self) -> Result<(), String> {
        let give_up = Instant::now() + self.deadline;
        while self.collect() {
            if Instant::now() > give_up {
                stacks::print_all();
                return Err("processes are left after the last call".into());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn tell(&self, time: Duration) {
        println!(
            "soak: {} s, longest call {:?}",
            time.as_secs(),
            self.longest
        );
        println!("soak: ends {:?}", self.ends);
        println!("soak: kills {:?}", self.kills);
        if let Ok(load) = fs::read_to_string("/proc/loadavg") {
            println!("soak: load {}", load.trim());
        }
    }
}
