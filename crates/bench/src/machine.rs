//! The machine that the numbers were measured on.

use std::fs;

use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct MachineInfo {
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) model: String,
    pub(crate) load: String,
    pub(crate) root: bool,
}

impl MachineInfo {
    pub(crate) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let model = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(|| "unknown".to_owned(), |(_, model)| model.to_owned());
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processors: std::thread::available_parallelism().map_or(1, Into::into),
            model,
            load: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .unwrap_or("unknown")
                .to_owned(),
            root: nix::unistd::geteuid().is_root(),
        }
    }
}
