//! The results as a table for people and as JSON for programs.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::machine::MachineInfo;
use crate::samples::Samples;

/// Everything that was measured, in order.
#[derive(Debug, Serialize)]
pub(crate) struct BenchReport {
    machine: MachineInfo,
    sections: Vec<ReportSection>,
}

#[derive(Debug, Serialize)]
struct ReportSection {
    name: &'static str,
    rows: Vec<ReportRow>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct ReportRow {
    name: String,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<f64>,
    /// 90th percentile in the worse direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    worse: Option<f64>,
    samples: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    goals: Vec<BenchGoal>,
    /// Why there is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

/// A target value, and whether it was met.
#[derive(Debug, Serialize)]
pub(crate) struct BenchGoal {
    what: &'static str,
    value: f64,
    bound: f64,
    more_is_better: bool,
    met: bool,
}

impl BenchGoal {
    pub(crate) fn at_most(what: &'static str, value: f64, bound: f64) -> Self {
        Self {
            what,
            value,
            bound,
            more_is_better: false,
            met: value <= bound,
        }
    }

    pub(crate) fn at_least(what: &'static str, value: f64, bound: f64) -> Self {
        Self {
            what,
            value,
            bound,
            more_is_better: true,
            met: value >= bound,
        }
    }

    fn render(&self) -> String {
        let Self {
            what, value, bound, ..
        } = self;
        if !value.is_finite() {
            return format!("{what}: nothing to compare with");
        }
        // A ratio names its denominator; any other goal names its unit.
        let is_ratio = what.starts_with("of ") || what.starts_with("faster ");
        let unit = if is_ratio { "x " } else { " " };
        let relation = if self.more_is_better {
            "at least"
        } else {
            "at most"
        };
        let verdict = if self.met { "met" } else { "NOT met" };
        format!("{verdict}: {value:.2}{unit}{what}, goal {relation} {bound}")
    }
}

impl ReportRow {
    fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            unit,
            median: None,
            worse: None,
            samples: 0,
            goals: Vec::new(),
            missing: None,
        }
    }

    /// Lower is better.
    pub(crate) fn times(name: impl Into<String>, samples: &Samples) -> Self {
        Self {
            median: Some(samples.median()),
            worse: Some(samples.p90()),
            samples: samples.len(),
            ..Self::new(name, "ms")
        }
    }

    /// Higher is better.
    pub(crate) fn rates(name: impl Into<String>, samples: &Samples) -> Self {
        Self {
            median: Some(samples.median()),
            worse: Some(samples.p10()),
            samples: samples.len(),
            ..Self::new(name, "GB/s")
        }
    }

    /// Operations per second.
    pub(crate) fn rate(name: impl Into<String>, rate: f64) -> Self {
        Self {
            median: Some(rate),
            samples: 1,
            ..Self::new(name, "/s")
        }
    }

    /// A size in KiB.
    pub(crate) fn size(name: impl Into<String>, size: u64) -> Self {
        Self {
            median: Some(size as f64),
            samples: 1,
            ..Self::new(name, "KiB")
        }
    }

    /// CPU usage, in percent of one processor.
    pub(crate) fn load(name: impl Into<String>, percent: f64) -> Self {
        Self {
            median: Some(percent),
            samples: 1,
            ..Self::new(name, "%")
        }
    }

    pub(crate) fn missing(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            missing: Some(why.into()),
            ..Self::new(name, "")
        }
    }

    pub(crate) fn goals(mut self, goals: Vec<BenchGoal>) -> Self {
        self.goals = goals;
        self
    }

    fn render(&self) -> String {
        if let Some(why) = &self.missing {
            return format!("{:<26} not measured: {why}", self.name);
        }
        let digits = if self.unit == "KiB" { 0 } else { 3 };
        let number = |value: Option<f64>| {
            value.map_or_else(String::new, |value| format!("{value:.digits$}"))
        };
        let goals: Vec<String> = self.goals.iter().map(BenchGoal::render).collect();
        let line = format!(
            "{:<26} {:>10} {:>10}  {:<5} {}",
            self.name,
            number(self.median),
            number(self.worse),
            self.unit,
            goals.join(&format!("\n{:<56}", "")),
        );
        line.trim_end().to_owned()
    }
}

#[allow(clippy::print_stdout)]
impl BenchReport {
    pub(crate) fn new(machine: MachineInfo) -> Self {
        println!(
            "Linux {}, {} processors ({}), load {}, as {}",
            machine.kernel,
            machine.processors,
            machine.model,
            machine.load,
            if machine.root {
                "root"
            } else {
                "an ordinary user"
            },
        );
        Self {
            machine,
            sections: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, name: &'static str) {
        println!("\n{name:<26} {:>10} {:>10}", "median", "9 in 10");
        self.sections.push(ReportSection {
            name,
            rows: Vec::new(),
        });
    }

    /// Prints the row immediately, because a run takes minutes.
    pub(crate) fn add(&mut self, row: ReportRow) {
        println!("{}", row.render());
        if let Some(section) = self.sections.last_mut() {
            section.rows.push(row);
        }
    }

    /// Prints the summary and writes the file.
    pub(crate) fn finish(self, file: &Path) -> anyhow::Result<()> {
        let goals = || {
            self.sections
                .iter()
                .flat_map(|section| &section.rows)
                .flat_map(|row| &row.goals)
        };
        let met = goals().filter(|goal| goal.met).count();
        println!("\n{met} of {} goals met", goals().count());
        let text = serde_json::to_string_pretty(&self)?;
        fs::write(file, text + "\n")
            .with_context(|| format!("cannot write `{}`", file.display()))?;
        println!("written to {}", file.display());
        Ok(())
    }
}
