//! A running `msb` machine: the process that holds it, the process that carries the link, and how
//! both end.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tracing::debug;

use super::arguments::MsbMachine;
use super::msb::{Msb, MsbStatus, complaint};
use super::{START_TIMEOUT, blocking, failed, unavailable};
use crate::backends::BoxFuture;
use crate::error::SandboxError;
use crate::start_progress;

/// A running machine. Dropping it takes it down on its own thread.
#[derive(Debug)]
pub(super) struct MicrosandboxMachine {
    pub(super) name: String,
    /// `None` after it was taken down.
    pub(super) parts: Option<MsbParts>,
}

#[derive(Debug)]
pub(super) struct MsbParts {
    msb: Msb,
    folder: PathBuf,
    /// The input of `msb run`. Closing it ends the machine.
    lifeline: Option<ChildStdin>,
    keeper: Option<Child>,
    stream: Option<Child>,
}

impl MicrosandboxMachine {
    /// For a sandbox of which only the folder exists yet.
    pub(super) fn new(msb: Msb, name: String, folder: PathBuf) -> Self {
        Self {
            name,
            parts: Some(MsbParts {
                msb,
                folder,
                lifeline: None,
                keeper: None,
                stream: None,
            }),
        }
    }
}

impl MsbParts {
    pub(super) fn hold(&mut self, machine: &MsbMachine<'_>) -> io::Result<()> {
        let mut keeper = self
            .msb
            .command(machine.run())
            .stdin(Stdio::piped())
            .stderr(File::create(self.error_file("run"))?)
            .spawn()?;
        self.lifeline = keeper.stdin.take();
        self.keeper = Some(keeper);
        Ok(())
    }

    /// Waits until the machine runs. `msb` has no event for that, so it is polled.
    pub(super) async fn boot(&mut self, name: &str) -> Result<(), SandboxError> {
        let give_up = Instant::now() + START_TIMEOUT;
        loop {
            let (msb, asked) = (self.msb.clone(), name.to_owned());
            // `msb` may not know the name yet.
            let status = blocking(move || msb.status(&asked)).await?;
            if matches!(status, Ok(MsbStatus::Running)) {
                return Ok(());
            }
            let keeper = self.keeper.as_mut().expect("`hold` started it");
            let ended = keeper.try_wait().map_err(failed("watch `msb`"))?;
            let (msb, asked) = (self.msb.clone(), name.to_owned());
            let words = match ended {
                Some(status) => match blocking(move || msb.last_error(&asked)).await? {
                    Some(cause) => cause,
                    None => complaint(&self.output("run", status)),
                },
                None if Instant::now() > give_up => {
                    format!("it is not running after {} s", START_TIMEOUT.as_secs())
                }
                None => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            return Err(unavailable(
                format!("`msb` started no virtual machine: {words}"),
                Some("`msb doctor` says what this machine lacks"),
            ));
        }
    }

    pub(super) fn stream(&mut self, machine: &MsbMachine<'_>) -> io::Result<UnixStream> {
        let (link, far) = StdUnixStream::pair()?;
        link.set_nonblocking(true)?;
        let input = OwnedFd::from(far.try_clone()?);
        let stream = self
            .msb
            .command(machine.exec())
            .stdin(input)
            .stdout(OwnedFd::from(far))
            .stderr(File::create(self.error_file("exec"))?)
            .spawn()?;
        self.stream = Some(stream);
        UnixStream::from_std(link)
    }

    /// The error output of the link's process, if it has ended. Waits briefly, because the end of
    /// its output is seen before its exit.
    pub(super) fn stream_ended(&mut self) -> Option<String> {
        let status = wait_with_timeout(self.stream.as_mut()?, Duration::from_secs(2))?;
        Some(complaint(&self.output("exec", status)))
    }

    fn error_file(&self, call: &str) -> PathBuf {
        self.folder.join(format!("{call}.err"))
    }

    fn output(&self, call: &str, status: ExitStatus) -> Output {
        Output {
            status,
            stdout: Vec::new(),
            stderr: fs::read(self.error_file(call)).unwrap_or_default(),
        }
    }

    /// Ends everything and waits for it.
    fn end(mut self, name: &str) {
        if let Some(mut stream) = self.stream.take() {
            let _ = stream.kill();
            let _ = stream.wait();
        }
        if let Some(mut keeper) = self.keeper.take() {
            drop(self.lifeline.take());
            let removed = self.msb.remove(name);
            if let Err(error) = &removed {
                debug!(name, %error, "cannot remove a machine");
            }
            if wait_with_timeout(&mut keeper, Duration::from_secs(10)).is_none() {
                let _ = keeper.kill();
                let _ = keeper.wait();
            }
            // The first attempt may have failed because the machine was still starting or busy.
            if removed.is_err() {
                let _ = self.msb.remove(name);
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits for a process, with a timeout.
fn wait_with_timeout(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let give_up = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => return None,
        }
    }
}

impl crate::backends::RunningWalls for MicrosandboxMachine {
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            if let Some(parts) = self.parts.take() {
                let name = self.name.clone();
                let _ = spawn_blocking(move || parts.end(&name)).await;
            }
            0
        })
    }

    /// The machine's kernel counts them, but `msb` does not report them.
    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(std::future::ready(0))
    }
}

impl Drop for MicrosandboxMachine {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take() {
            let name = std::mem::take(&mut self.name);
            start_progress::take_down_on_thread(move || parts.end(&name));
        }
    }
}
