//! QEMU's monitor: JSON, one message per line. Bounded, because a hostile machine may control QEMU.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// Limit of an answer.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) struct QemuMonitor(BufReader<UnixStream>);

#[derive(Debug, thiserror::Error)]
pub(super) enum MonitorError {
    #[error("cannot talk to QEMU")]
    Channel(#[from] io::Error),
    #[error("QEMU refuses `{command}`: {said}")]
    Refused { command: &'static str, said: String },
    #[error("QEMU cannot move the machine: {0}")]
    NotMoved(String),
}

/// A command and its arguments.
type MonitorCommand = (&'static str, Value);

impl QemuMonitor {
    pub(super) fn new(channel: UnixStream) -> Self {
        Self(BufReader::new(channel))
    }

    /// Makes QEMU write the machine's state without the shared memory to a file, and waits until it
    /// is written. The machine stays stopped.
    pub(super) async fn save(&mut self, to: BorrowedFd<'_>) -> Result<(), MonitorError> {
        let (give, give_arguments) = ("getfd", json!({"fdname": "state"}));
        self.run(&[negotiate(), capabilities()]).await?;
        let message = line(give, &give_arguments);
        self.0.get_ref().writable().await?;
        walls::machine::send_with_descriptors(self.0.get_ref().as_fd(), &message, &[to])?;
        self.answer(give).await?;
        self.run_migration(&[("migrate", json!({"uri": "fd:state"}))])
            .await
    }

    /// Makes QEMU load a state from this descriptor, and waits until it is loaded.
    pub(super) async fn restore(&mut self, from: i32) -> Result<(), MonitorError> {
        let begin = ("migrate-incoming", json!({"uri": format!("fd:{from}")}));
        self.run_migration(&[negotiate(), capabilities(), begin])
            .await
    }

    /// Runs commands of which the last one starts a migration, and waits until that has finished.
    async fn run_migration(&mut self, commands: &[MonitorCommand]) -> Result<(), MonitorError> {
        self.run(commands).await?;
        // Events come after the answer, because the migration runs in the background.
        loop {
            let message = self.message().await?;
            if message["event"] != "MIGRATION" {
                continue;
            }
            match message["data"]["status"].as_str() {
                Some("completed") => return Ok(()),
                Some(status @ ("failed" | "cancelled")) => {
                    return Err(MonitorError::NotMoved(status.to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Sends all commands at once, and waits for all answers.
    async fn run(&mut self, commands: &[MonitorCommand]) -> Result<(), MonitorError> {
        let mut all = Vec::new();
        for (command, arguments) in commands {
            all.extend_from_slice(&line(command, arguments));
        }
        self.0.get_mut().write_all(&all).await?;
        for (command, _) in commands {
            self.answer(command).await?;
        }
        Ok(())
    }

    async fn answer(&mut self, command: &'static str) -> Result<(), MonitorError> {
        loop {
            let message = self.message().await?;
            if let Some(error) = message.get("error") {
                let said = error["desc"].as_str().unwrap_or("no reason given");
                return Err(MonitorError::Refused {
                    command,
                    said: said.to_owned(),
                });
            }
            if message.get("return").is_some() {
                return Ok(());
            }
        }
    }

    async fn message(&mut self) -> Result<Value, MonitorError> {
        let mut line = Vec::new();
        (&mut self.0)
            .take(MAX_ANSWER_BYTES)
            .read_until(b'\n', &mut line)
            .await?;
        if line.last() != Some(&b'\n') {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        serde_json::from_slice(&line).map_err(|error| io::Error::from(error).into())
    }
}

fn negotiate() -> MonitorCommand {
    ("qmp_capabilities", json!({}))
}

/// Leaves shared memory out of the state, and enables migration events.
fn capabilities() -> MonitorCommand {
    let on = |name: &str| json!({"capability": name, "state": true});
    let wanted = [on("x-ignore-shared"), on("events")];
    (
        "migrate-set-capabilities",
        json!({ "capabilities": wanted }),
    )
}

fn line(command: &str, arguments: &Value) -> Vec<u8> {
    let mut line = json!({"execute": command, "arguments": arguments})
        .to_string()
        .into_bytes();
    line.push(b'\n');
    line
}
