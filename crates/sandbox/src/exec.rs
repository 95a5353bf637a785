//! Commands in a sandbox: what to run, the output, and how the command ended.

use std::ffi::OsString;
use std::time::Duration;

use bytes::Bytes;
use link::request::{
    ByteString, CommandStatus, ExecControl, ExecProgram, ExecRequest, Exit, GuestLimit,
    GuestRequest, GuestResult, TerminalSize,
};
use link::{Link, LinkEnd, LinkItem, Receiver, Sender};

use crate::client::ANSWER_TIMEOUT;
use crate::error::SandboxError;
use crate::handle::Sandbox;
use crate::limits::LimitKind;
use crate::recorder::{ExecDetails, ExecRecord};

/// A command to run.
#[derive(Debug, Clone, Default)]
pub struct ExecCommand {
    argv: Vec<OsString>,
    cwd: Option<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: bool,
    terminal: Option<TerminalSize>,
    timeout: Option<Duration>,
}

impl ExecCommand {
    pub fn new<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// A script for `/bin/sh`.
    pub fn script(script: impl Into<OsString>) -> Self {
        Self::new(["/bin/sh".into(), "-c".into(), script.into()])
    }

    pub fn cwd(mut self, cwd: impl Into<OsString>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((key.into(), value.into()));
        self
    }

    /// Takes standard input from [`CommandInput`] instead of leaving it empty.
    pub fn stdin(mut self) -> Self {
        self.stdin = true;
        self
    }

    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    pub fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }
}

/// How a command ended, and the limit that ended it, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    pub status: CommandStatus,
    pub limit: Option<LimitKind>,
}

impl CommandResult {
    pub fn success(&self) -> bool {
        self.status == CommandStatus::Code(0)
    }
}

/// Output or the end of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The last event.
    Ended(CommandResult),
}

/// A command that was started.
#[derive(Debug)]
pub struct RunningCommand<'a> {
    sandbox: &'a Sandbox,
    receiver: Receiver,
    /// `None` once it was taken or closed.
    input: Option<CommandInput>,
    remote: CommandControl,
    memory_kills: u64,
    /// How long the command may be silent: its own time limit plus the guest's time to report the end.
    silence: Option<Duration>,
    /// Bytes that the guest may still send. A correct guest ends the command before they are used up.
    output_left: u64,
    /// Record of this command for the recorder.
    run: ExecRecord,
}

/// Standard input of a running command. Dropping it ends the input.
#[derive(Debug)]
pub struct CommandInput {
    sender: Sender,
}

impl CommandInput {
    /// Waits while the command does not read.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), SandboxError> {
        Ok(self.sender.send_data(bytes).await?)
    }
}

impl Drop for CommandInput {
    fn drop(&mut self) {
        self.sender.end();
    }
}

/// Sends signals and size changes to a running command, independent of its standard input.
#[derive(Debug, Clone)]
pub struct CommandControl {
    link: Link,
    exec: u32,
}

impl CommandControl {
    /// Sends a signal to the command's process group.
    pub async fn signal(&self, signal: i32) -> Result<(), SandboxError> {
        self.tell(ExecControl::Signal(signal)).await
    }

    pub async fn resize(&self, size: TerminalSize) -> Result<(), SandboxError> {
        self.tell(ExecControl::Resize(size)).await
    }

    async fn tell(&self, control: ExecControl) -> Result<(), SandboxError> {
        let mut stream = self.link.open().ok_or(SandboxError::Ended)?;
        let exec = self.exec;
        stream
            .send(&GuestRequest::Control { exec, control })
            .await?;
        let answer = stream.expect::<GuestResult<()>>();
        let task = "tell a command something";
        Ok(self
            .link
            .expect_within(ANSWER_TIMEOUT, task, answer)
            .await???)
    }
}

/// The captured output of a command and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub verdict: CommandResult,
}

/// [`Sandbox::run`] keeps at most this much of each stream. Callers that want more read the output as it
/// arrives.
const MAX_CAPTURED_BYTES: usize = 64 << 20;

/// Bytes of output that may be in flight when a guest ends a command for exceeding its output limit.
const OUTPUT_IN_FLIGHT_BYTES: u64 = 1 << 20;

impl Sandbox {
    /// Starts a command.
    pub async fn exec(&self, command: ExecCommand) -> Result<RunningCommand<'_>, SandboxError> {
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let begun = ExecDetails {
            argv: command.argv.iter().map(text).collect(),
            cwd: command
                .cwd
                .as_ref()
                .map_or_else(|| self.workdir.clone(), text),
            env_names: command.env.iter().map(|(name, _)| text(name)).collect(),
            terminal: command.terminal.is_some(),
        };
        // Read the count for each command: a count that was read earlier lacks the kills of background
        // processes and of children of commands that succeeded, and this command would be blamed for
        // them. A machine answers while the audit log writes.
        let (run, memory_kills) = tokio::join!(self.recorder.begin(begun), self.memory_kills());
        let run = run?;
        let raw = |text: &OsString| ByteString::from(text);
        let request = GuestRequest::Exec(ExecRequest {
            program: ExecProgram::Argv(command.argv.iter().map(raw).collect()),
            cwd: command.cwd.as_ref().map(raw),
            env: command
                .env
                .iter()
                .map(|(key, value)| (raw(key), raw(value)))
                .collect(),
            stdin: command.stdin,
            terminal: command.terminal,
            timeout: command.timeout,
            output: self.spec.limits.output,
        });
        let stream = self.request(&request).await?;
        let remote = CommandControl {
            link: self.link.clone(),
            exec: stream.id(),
        };
        let (sender, receiver) = stream.split();
        let takes_input = command.stdin || command.terminal.is_some();
        Ok(RunningCommand {
            sandbox: self,
            receiver,
            input: takes_input.then_some(CommandInput { sender }),
            remote,
            memory_kills,
            silence: command
                .timeout
                .map(|timeout| timeout.saturating_add(ANSWER_TIMEOUT)),
            output_left: self.spec.limits.output.map_or(u64::MAX, |limit| {
                limit.saturating_add(OUTPUT_IN_FLIGHT_BYTES)
            }),
            run,
        })
    }

    /// Runs a command to its end and captures its output.
    pub async fn run(&self, command: ExecCommand) -> Result<CapturedOutput, SandboxError> {
        let mut running = self.exec(command).await?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let keep = |kept: &mut Vec<u8>, bytes: &Bytes| {
            let room = MAX_CAPTURED_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        running.input = None;
        loop {
            match running.next().await? {
                CommandEvent::Stdout(bytes) => keep(&mut stdout, &bytes),
                CommandEvent::Stderr(bytes) => keep(&mut stderr, &bytes),
                CommandEvent::Ended(verdict) => {
                    return Ok(CapturedOutput {
                        stdout,
                        stderr,
                        verdict,
                    });
                }
            }
        }
    }
}

impl RunningCommand<'_> {
    /// A handle for signals and changes of the terminal size.
    pub fn remote(&self) -> CommandControl {
        self.remote.clone()
    }

    /// Takes the input, so that another task can write it.
    pub fn take_input(&mut self) -> Option<CommandInput> {
        self.input.take()
    }

    /// Waits for the next event. [`CommandEvent::Ended`] is the last one.
    pub async fn next(&mut self) -> Result<CommandEvent, SandboxError> {
        let link = &self.sandbox.link;
        let item = self.receiver.receive();
        let item = match self.silence {
            Some(silence) => {
                let task = "end a command";
                link.expect_within(silence, task, item).await??
            }
            None => item.await?,
        };
        let item = item.ok_or(SandboxError::Ended)?;
        if !matches!(item, LinkItem::Message(_)) {
            let left = self.output_left.checked_sub(item.length() as u64);
            self.output_left = left.ok_or_else(|| {
                let excess = LinkEnd::Excess("the output that a command may print".into());
                link.fail(excess)
            })?;
        }
        match item {
            LinkItem::Data(bytes) => {
                self.run.printed(bytes.len());
                Ok(CommandEvent::Stdout(bytes))
            }
            LinkItem::Errors(bytes) => {
                self.run.printed(bytes.len());
                Ok(CommandEvent::Stderr(bytes))
            }
            message => {
                let exit = message.decode::<GuestResult<Exit>>()??;
                let verdict = self.to_command_result(exit).await;
                let outcome = match verdict.limit {
                    Some(limit) => format!("{:?}, {} limit", verdict.status, limit.name()),
                    None => format!("{:?}", verdict.status),
                };
                self.run.end(outcome).await;
                Ok(CommandEvent::Ended(verdict))
            }
        }
    }

    async fn to_command_result(&self, exit: Exit) -> CommandResult {
        let limit = match exit.limit {
            Some(GuestLimit::Time) => Some(LimitKind::WallTime),
            Some(GuestLimit::Output) => Some(LimitKind::Output),
            Some(GuestLimit::Disk) => Some(LimitKind::Disk),
            Some(GuestLimit::Memory) => Some(LimitKind::Memory),
            // The command failed, and the kernel killed a process for lack of memory while it ran.
            None if exit.status != CommandStatus::Code(0) => {
                let kills = self.sandbox.memory_kills().await;
                (kills > self.memory_kills).then_some(LimitKind::Memory)
            }
            None => None,
        };
        CommandResult {
            status: exit.status,
            limit,
        }
    }
}
