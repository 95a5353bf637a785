//! The table of backends. Pure.

use std::time::Duration;

use sandbox::doctor::Diagnosis;
use sandbox::{Backend, ProbeResult, Strength};

/// Column headings.
pub(super) const TABLE_HEADER: &str =
    "backend       verdict     strength    start       exec      memory    notes\n";

/// What is known of one backend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BackendRow {
    backend: Backend,
    strength: Strength,
    /// `None` if it was never probed.
    works: Option<bool>,
    start_ms: Option<f64>,
    exec_ms: Option<f64>,
    memory: Option<u64>,
    notes: Vec<String>,
    problem: Option<String>,
    hint: Option<String>,
}

impl BackendRow {
    /// From a check made now.
    pub(super) fn examined(found: &Diagnosis) -> Self {
        let milliseconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        Self {
            backend: found.backend,
            strength: found.strength,
            works: Some(found.works),
            start_ms: milliseconds(found.start),
            exec_ms: milliseconds(found.exec),
            memory: found.memory,
            notes: found.notes.clone(),
            problem: found.problem.clone(),
            hint: found.hint.clone(),
        }
    }

    /// From an earlier probe, if there was one.
    pub(super) fn known(backend: Backend, known: &[ProbeResult]) -> Self {
        let proof = known.iter().find(|proof| proof.backend == backend);
        Self {
            backend,
            strength: backend.strength(),
            works: proof.map(|proof| proof.works),
            start_ms: proof.and_then(|proof| proof.start_ms),
            exec_ms: proof.and_then(|proof| proof.exec_ms),
            memory: proof.and_then(|proof| proof.memory),
            notes: proof.map(|proof| proof.notes.clone()).unwrap_or_default(),
            problem: proof.and_then(|proof| proof.problem.clone()),
            hint: proof.and_then(|proof| proof.hint.clone()),
        }
    }

    pub(super) fn line(&self) -> String {
        let verdict = match self.works {
            Some(true) => "works",
            Some(false) => "NO",
            None => "not probed",
        };
        let time = |time: Option<f64>| time.map(milliseconds).unwrap_or_default();
        let line = format!(
            "{:<13} {verdict:<11} {:<11} {:<11} {:<9} {:<9} {}",
            self.backend,
            self.strength.name(),
            time(self.start_ms),
            time(self.exec_ms),
            self.memory.map(mebibytes).unwrap_or_default(),
            self.notes.join("; ")
        );
        format!("{}\n", line.trim_end())
    }

    /// Why it does not work, and how to fix that.
    pub(super) fn problem(&self) -> String {
        let Some(problem) = &self.problem else {
            return String::new();
        };
        let usual = format!("cannot use the `{}` backend: ", self.backend);
        let problem = problem.strip_prefix(&usual).unwrap_or(problem);
        let mut text = format!("\n{:<13} {problem}\n", self.backend);
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{:<13} {hint}\n", "hint:"));
        }
        text
    }
}

/// When the results were obtained; the oldest counts.
pub(super) fn as_of(known: &[ProbeResult]) -> String {
    let oldest = known.iter().map(|proof| proof.at).min();
    let time = oldest.and_then(|at| jiff::Timestamp::from_second(i64::try_from(at).ok()?).ok());
    match time {
        Some(time) => format!(
            "as of {} UTC; `hotcell doctor --probe` checks again\n",
            time.strftime("%Y-%m-%d %H:%M")
        ),
        None => "`hotcell doctor --probe` checks all\n".to_owned(),
    }
}

fn milliseconds(time: f64) -> String {
    match time {
        ..10.0 => format!("{time:.2} ms"),
        ..1000.0 => format!("{time:.0} ms"),
        _ => format!("{:.1} s", time / 1e3),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(works: Option<bool>) -> BackendRow {
        BackendRow {
            backend: Backend::Microvm,
            strength: Strength::Vm,
            works,
            start_ms: None,
            exec_ms: None,
            memory: None,
            notes: Vec::new(),
            problem: None,
            hint: None,
        }
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let full = BackendRow {
            start_ms: Some(412.34),
            exec_ms: Some(1.234),
            memory: Some(61 << 20),
            notes: vec!["emulated (TCG)".into(), "6.1.0".into()],
            ..row(Some(true))
        };
        let broken = BackendRow {
            problem: Some("cannot use the `microvm` backend: no `qemu`".into()),
            hint: Some("`apt install qemu-system-x86`".into()),
            ..row(Some(false))
        };
        let text = [
            TABLE_HEADER.to_owned(),
            full.line(),
            broken.line(),
            row(None).line(),
        ]
        .concat();
        insta::assert_snapshot!(text + &broken.problem() + &full.problem(), @r"
            backend       verdict     strength    start       exec      memory    notes
            microvm       works       vm          412 ms      1.23 ms   61.0 MiB  emulated (TCG); 6.1.0
            microvm       NO          vm
            microvm       not probed  vm

            microvm       no `qemu`
            hint:         `apt install qemu-system-x86`
        ");
    }

    #[test]
    fn times_are_as_exact_as_they_matter() {
        let check = |time, expect: &str| assert_eq!(milliseconds(time), expect);
        check(0.4567, "0.46 ms");
        check(12.3, "12 ms");
        check(4321.0, "4.3 s");
    }
}
