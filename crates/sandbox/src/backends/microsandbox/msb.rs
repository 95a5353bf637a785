//! Calls the `msb` program. Its answers are parsed as JSON; its error messages are passed on as one
//! line. Entry type: [`Msb`].

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use crate::backends::confined_guest::own_folder;

/// `msb` with a separate folder for its state.
#[derive(Debug, Clone)]
pub(super) struct Msb {
    program: PathBuf,
    home: PathBuf,
}

/// A sandbox in the list of `msb`.
#[derive(Debug, Deserialize)]
pub(super) struct ListedSandbox {
    pub(super) name: String,
    pub(super) status: MsbStatus,
}

/// The state of a sandbox. `Other` means that it is starting or stopping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum MsbStatus {
    Running,
    Stopped,
    Crashed,
    #[serde(other)]
    Other,
}

/// A line of `msb logs --json`.
#[derive(Debug, Deserialize)]
struct MsbLogLine {
    #[serde(rename = "d")]
    text: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum MsbError {
    #[error("cannot run `msb`")]
    Run(#[source] io::Error),
    #[error("`msb` failed: {0}")]
    Refused(String),
    #[error("cannot parse the output of `msb`")]
    Answer(#[source] serde_json::Error),
}

impl Msb {
    pub(super) fn new(program: &Path, cache: &Path) -> io::Result<Self> {
        let home = own_folder(&cache.join("microsandbox"))?.join("home");
        Ok(Self {
            program: program.to_owned(),
            home: own_folder(&home)?,
        })
    }

    /// A call with an environment that only has what `msb` needs to find its folders.
    pub(super) fn command(&self, arguments: impl IntoIterator<Item = OsString>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("MSB_HOME", &self.home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The release, such as `msb 0.7.11`.
    pub(super) fn version(&self) -> Result<String, MsbError> {
        let said = self.call(["--version"])?;
        Ok(first_line(&said).to_owned())
    }

    pub(super) fn list(&self) -> Result<Vec<ListedSandbox>, MsbError> {
        let said = self.call(["list", "--format", "json"])?;
        serde_json::from_str(&said).map_err(MsbError::Answer)
    }

    pub(super) fn status(&self, name: &str) -> Result<MsbStatus, MsbError> {
        #[derive(Deserialize)]
        struct Inspected {
            status: MsbStatus,
        }
        let said = self.call(["inspect", "--format", "json", name])?;
        let inspected: Inspected = serde_json::from_str(&said).map_err(MsbError::Answer)?;
        Ok(inspected.status)
    }

    /// Ends a sandbox in any state, and waits for it.
    pub(super) fn remove(&self, name: &str) -> Result<(), MsbError> {
        self.call(["remove", "--force", "--quiet", name]).map(drop)
    }

    /// The last error in the log of the machine itself, which is more specific than its exit
    /// status.
    pub(super) fn last_error(&self, name: &str) -> Option<String> {
        let said = self
            .call(["logs", "--source", "system", "--json", name])
            .ok()?;
        said.lines()
            .filter_map(|line| serde_json::from_str::<MsbLogLine>(line).ok())
            .filter_map(|line| cause(&line.text))
            .next_back()
    }

    fn call<const N: usize>(&self, arguments: [&str; N]) -> Result<String, MsbError> {
        let output = self
            .command(arguments.map(OsString::from))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .map_err(MsbError::Run)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(MsbError::Refused(complaint(&output)))
        }
    }
}

/// The error message of `msb` on one line, or its exit status if there is none.
pub(super) fn complaint(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().map(clean_line).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else {
        return output.status.to_string();
    };
    // The second line has the cause; the third is advice for interactive users.
    match lines.next() {
        Some(cause) => format!("{first}: {cause}"),
        None => first,
    }
}

/// Removes markers and prefixes from a line.
fn clean_line(line: &str) -> String {
    let line = line.trim();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line = line.strip_prefix('→').map_or(line, str::trim);
    let line = line.strip_prefix("other: ").unwrap_or(line);
    line.chars()
        .filter(|letter| !letter.is_control())
        .take(300)
        .collect()
}

/// The message of an error log line, without level and module.
fn cause(text: &str) -> Option<String> {
    let rest = text.trim().strip_prefix("ERROR ")?;
    let message = rest.split_once(": ").map_or(rest, |(_, message)| message);
    Some(clean_line(message))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn complaints_are_one_line() {
        let check = |said: &str, expect: &str| {
            let output = Output {
                status: ExitStatus::from_raw(1 << 8),
                stdout: Vec::new(),
                stderr: said.into(),
            };
            assert_eq!(complaint(&output), expect);
        };
        check("", "exit status: 1");
        check("error: sandbox not found: x\n", "sandbox not found: x");
        check(
            "error: failed to start \"x\"\n  → other: sandbox process exited (exit status: 1)\n  → run `msb logs`\n",
            "failed to start \"x\": sandbox process exited (exit status: 1)",
        );
        check("error: \u{1b}[31mred\n", "[31mred");
    }

    #[test]
    fn the_machines_own_error_is_found_in_its_log() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(cause(text).as_deref(), expect);
        };
        check(
            "ERROR msb_krun_vmm::linux::vstate: Received KVM_EXIT_INTERNAL_ERROR signal\n",
            Some("Received KVM_EXIT_INTERNAL_ERROR signal"),
        );
        check("INFO msb_krun_vmm: Vmm is stopping.\n", None);
        check("--- sandbox stopped ---\n", None);
    }

    #[test]
    fn states_of_other_releases_do_not_end_a_start() {
        let check = |name: &str, expect| {
            let status: MsbStatus = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            assert_eq!(status, expect);
        };
        check("Running", MsbStatus::Running);
        check("Crashed", MsbStatus::Crashed);
        check("Starting", MsbStatus::Other);
        check("Hibernating", MsbStatus::Other);
    }
}
