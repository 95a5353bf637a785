//! Runs one command: starts it, feeds its standard input, streams its output and reports how it ended.
//!
//! The command is over when its process ends, not when its output closes. A child that keeps standard output
//! open therefore does not delay the result. Output that is in the pipes at that moment is sent before the
//! result.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::BytesMut;
use link::request::{
    ByteString, ExecControl, ExecProgram, ExecRequest, Exit, GuestLimit, GuestResult, RefusalKind,
};
use link::{LinkItem, Receiver, Sender, Stream, StreamError};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, pipe2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::disk::start_within_limit;
use crate::processes::signal_group;
use crate::refusal::{refuse, refuse_with};
use crate::session::Guest;
use crate::signal_keys;
use crate::spawn::SpawnRequest;
use crate::terminal::Terminal;

/// Maximum size of one read, which is also the most that one frame carries.
const READ_CHUNK_BYTES: usize = link::frame::MAX_PAYLOAD;

/// Requested and maximum size of output pipes. With large pipes a command can print while the guest sends.
pub(crate) const MAX_PIPE_BYTES: usize = 1024 * 1024;

thread_local! {
    /// Whether this sandbox may have pipes of [`MAX_PIPE_BYTES`]. The system call filter refuses them where
    /// sandboxes share the kernel's limit for one user. Cached, because a refused call is slow on gVisor.
    static HAS_LARGE_PIPES: Cell<bool> = const { Cell::new(true) };
}

pub(crate) async fn exec(guest: Rc<Guest>, request: ExecRequest, stream: Stream) {
    let id = stream.id();
    let (mut sender, receiver) = stream.split();
    let answer = run(&guest, request, id, &mut sender, receiver).await;
    guest.execs.running.borrow_mut().remove(&id);
    // The host may have closed the stream.
    let _ = sender.send(&answer).await;
}

async fn run(
    guest: &Rc<Guest>,
    request: ExecRequest,
    id: u32,
    sender: &mut Sender,
    receiver: Receiver,
) -> GuestResult<Exit> {
    let argv = argv(&request.program);
    let what = format!(
        "start `{}`",
        argv.first()
            .map_or("".into(), |name| name.to_string_lossy())
    );
    let cwd = guest.resolve(request.cwd.as_ref());
    let mut streams = StandardStreams::open(&request).map_err(|error| refuse(&what, error))?;
    let start = SpawnRequest {
        argv: &argv,
        env: &guest.env_with(&request.env),
        cwd: &cwd,
        descriptors: &streams.child_descriptors(),
        terminal: streams
            .terminal
            .as_ref()
            .map(|terminal| terminal.path.as_path()),
    };
    let started = start_within_limit(guest, || guest.processes.start(&start)).await;
    let mut child = started.map_err(|error| {
        if cwd.is_dir() {
            refuse(&what, error)
        } else {
            let message = format!("cannot start in `{}`: no such folder", cwd.display());
            refuse_with(RefusalKind::NotFound, message)
        }
    })?;
    streams.close_child_ends();
    let group = child.group;
    let limit = Rc::new(Cell::new(None));
    let terminal = streams.terminal.map(Rc::new);
    guest
        .execs
        .running
        .borrow_mut()
        .insert(id, (group, terminal.clone()));
    let feeder = feed_stdin(
        receiver,
        streams.stdin,
        terminal.clone(),
        group,
        guest.settings.is_linux,
    );
    let feeder = tokio::task::spawn_local(feeder);

    let (over, is_over) = watch::channel(false);
    let output = CommandOutput {
        sender,
        left: request.output,
        limit: limit.clone(),
        group,
    };
    let pump = async {
        match &terminal {
            Some(terminal) => output.send_terminal(terminal, is_over).await,
            None => {
                output
                    .send_pipes(streams.stdout, streams.stderr, is_over)
                    .await
            }
        }
    };
    let wait = async {
        let ended = tokio::select! {
            ended = &mut child.ended => ended,
            () = sleep_or_forever(request.timeout) => {
                limit.set(Some(GuestLimit::Time));
                let _ = signal_group(group, libc::SIGKILL);
                (&mut child.ended).await
            }
        };
        over.send_replace(true);
        ended.expect("the reaper forwards the status of every process")
    };
    let (status, _) = tokio::join!(wait, pump);
    feeder.abort();
    Ok(Exit {
        status,
        limit: limit
            .get()
            .or_else(|| guest.processes.limit_that_ended(&child, status)),
    })
}

async fn sleep_or_forever(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn argv(program: &ExecProgram) -> Vec<OsString> {
    match program {
        ExecProgram::Argv(argv) => argv
            .iter()
            .cloned()
            .map(ByteString::into_os_string)
            .collect(),
        ExecProgram::Script(script) => {
            vec![
                "/bin/sh".into(),
                "-c".into(),
                script.clone().into_os_string(),
            ]
        }
    }
}

/// Both ends of a command's standard streams. `children` are the command's ends, by descriptor number.
struct StandardStreams {
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    terminal: Option<Terminal>,
    children: Vec<(i32, OwnedFd)>,
}

impl StandardStreams {
    fn open(request: &ExecRequest) -> io::Result<Self> {
        let mut streams = Self {
            stdin: None,
            stdout: None,
            stderr: None,
            terminal: None,
            children: Vec::new(),
        };
        if let Some(size) = request.terminal {
            streams.terminal = Some(Terminal::open(size)?);
            return Ok(streams);
        }
        if request.stdin {
            let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
            streams.stdin = Some(pipe::Sender::from_owned_fd(set_nonblocking(writer)?)?);
            streams.children.push((0, reader));
        }
        let (stdout, writer) = output_pipe()?;
        streams.stdout = Some(stdout);
        streams.children.push((1, writer));
        let (stderr, writer) = output_pipe()?;
        streams.stderr = Some(stderr);
        streams.children.push((2, writer));
        Ok(streams)
    }

    fn child_descriptors(&self) -> Vec<(i32, BorrowedFd<'_>)> {
        self.children
            .iter()
            .map(|(number, fd)| (*number, fd.as_fd()))
            .collect()
    }

    fn close_child_ends(&mut self) {
        self.children.clear();
    }
}

/// Makes a pipe for output. The guest's end is non-blocking, the command's end blocks.
pub(crate) fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    if HAS_LARGE_PIPES.get() {
        // The kernel may still refuse: it limits the total size of one user's pipes.
        let asked = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(MAX_PIPE_BYTES as i32));
        HAS_LARGE_PIPES.set(asked != Err(Errno::EINVAL));
    }
    // Skips the check that this is a pipe open for reading, since it was made just now.
    let reader = pipe::Receiver::from_owned_fd_unchecked(set_nonblocking(reader)?)?;
    Ok((reader, writer))
}

pub(crate) fn set_nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(fd)
}

/// Forwards standard input until it ends. Then waits until the host stops reading, and kills the command.
async fn feed_stdin(
    mut receiver: Receiver,
    mut stdin: Option<pipe::Sender>,
    terminal: Option<Rc<Terminal>>,
    group: Pid,
    is_linux: bool,
) {
    let mut line_is_begun = false;
    while let Ok(Some(item)) = receiver.receive().await {
        let LinkItem::Data(bytes) = item else {
            break;
        };
        line_is_begun = !bytes.ends_with(b"\n");
        if let Some(terminal) = &terminal {
            let _ = if is_linux {
                terminal.write_all(&bytes).await
            } else {
                terminal.type_keys(&bytes, group).await
            };
        } else if let Some(pipe) = &mut stdin
            && pipe.write_all(&bytes).await.is_err()
        {
            stdin = None;
        }
    }
    drop(stdin);
    if let Some(terminal) = &terminal {
        // End of input as typed at a terminal (Ctrl-D): once to submit an unfinished line, and once more for
        // the end of input itself.
        let keys: &[u8] = if line_is_begun { &[4, 4] } else { &[4] };
        let _ = terminal.write_all(keys).await;
    }
    receiver.wait_until_peer_stops().await;
    let _ = signal_group(group, libc::SIGKILL);
}

/// A command's process group, and its terminal if it has one.
type RunningCommand = (Pid, Option<Rc<Terminal>>);

/// Running commands, by the ID of the stream on which they were started.
#[derive(Default)]
pub(crate) struct RunningCommands {
    running: RefCell<HashMap<u32, RunningCommand>>,
}

pub(crate) async fn control(
    guest: &Rc<Guest>,
    exec: u32,
    control: ExecControl,
    mut stream: Stream,
) {
    let found = guest.execs.running.borrow().get(&exec).cloned();
    let answer = match (found, control) {
        // The command has ended meanwhile, so there is nothing to do.
        (None, _) => Ok(()),
        (Some((group, _)), ExecControl::Signal(signal)) => {
            signal_group(group, signal).map_err(|error| refuse("send a signal", error))
        }
        (Some((group, Some(terminal))), ExecControl::Resize(size)) => {
            let changed = terminal.resize(size);
            if !guest.settings.is_linux {
                signal_keys::send_signal(group, Signal::SIGWINCH);
            }
            changed.map_err(|error| refuse("change the size of the terminal", error))
        }
        (Some((_, None)), ExecControl::Resize(_)) => Ok(()),
    };
    let _ = stream.send(&answer).await;
}

/// Sends a command's output to the host and enforces the output limit.
struct CommandOutput<'a> {
    sender: &'a mut Sender,
    /// Bytes that the command may still print.
    left: Option<u64>,
    limit: Rc<Cell<Option<GuestLimit>>>,
    group: Pid,
}

impl CommandOutput<'_> {
    async fn send_pipes(
        mut self,
        stdout: Option<pipe::Receiver>,
        stderr: Option<pipe::Receiver>,
        mut is_over: watch::Receiver<bool>,
    ) -> Result<(), StreamError> {
        let mut pipes = [
            (stdout, BytesMut::new(), false),
            (stderr, BytesMut::new(), true),
        ];
        loop {
            let [(out, out_buffer, _), (err, err_buffer, _)] = &mut pipes;
            let (index, outcome) = tokio::select! {
                outcome = read(out, out_buffer) => (0, outcome),
                outcome = read(err, err_buffer) => (1, outcome),
                _ = is_over.wait_for(|over| *over) => break,
                else => return Ok(()),
            };
            let (pipe, buffer, errors) = &mut pipes[index];
            if !matches!(outcome, Ok(1..)) {
                *pipe = None;
            }
            let bytes = buffer.split();
            self.send(bytes, *errors).await?;
            if pipes.iter().all(|(pipe, ..)| pipe.is_none()) {
                return Ok(());
            }
        }
        // The command has ended: send what is still in the pipes, up to the capacity of a pipe.
        for (pipe, buffer, errors) in &mut pipes {
            let mut left = MAX_PIPE_BYTES;
            while let Some(open) = pipe
                && left > 0
            {
                match try_read_pipe(open, buffer) {
                    Ok(length @ 1..) => left = left.saturating_sub(length),
                    _ => *pipe = None,
                }
                let bytes = buffer.split();
                self.send(bytes, *errors).await?;
            }
        }
        Ok(())
    }

    async fn send_terminal(
        mut self,
        terminal: &Terminal,
        mut is_over: watch::Receiver<bool>,
    ) -> Result<(), StreamError> {
        let mut buffer = BytesMut::new();
        loop {
            tokio::select! {
                outcome = terminal.read(&mut buffer) => if !matches!(outcome, Ok(1..)) {
                    return Ok(());
                },
                _ = is_over.wait_for(|over| *over) => break,
            }
            self.send(buffer.split(), false).await?;
        }
        // Bounded by what is pending now, because another process may still print. Some kernels buffer much
        // more in a terminal than in a pipe.
        let mut left = terminal.pending().max(MAX_PIPE_BYTES);
        while left > 0
            && let Ok(length @ 1..) = terminal.try_read(&mut buffer)
        {
            left = left.saturating_sub(length);
            self.send(buffer.split(), false).await?;
        }
        Ok(())
    }

    async fn send(&mut self, mut bytes: BytesMut, errors: bool) -> Result<(), StreamError> {
        if let Some(left) = &mut self.left {
            if bytes.len() as u64 > *left {
                bytes.truncate(*left as usize);
                self.limit.set(Some(GuestLimit::Output));
                let _ = signal_group(self.group, libc::SIGKILL);
            }
            *left -= bytes.len() as u64;
        }
        if errors {
            self.sender.send_stderr(bytes.freeze()).await
        } else {
            self.sender.send_data(bytes.freeze()).await
        }
    }
}

/// Reads from a pipe. Never resolves once the pipe has ended (`None`).
pub(crate) async fn read(
    pipe: &mut Option<pipe::Receiver>,
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            pipe.readable().await?;
            buffer.reserve(READ_CHUNK_BYTES);
            pipe.read_buf(buffer).await
        }
        None => std::future::pending().await,
    }
}

/// Reads what is in a pipe now. Fails with `WouldBlock` if it is empty. Calls the kernel directly, because
/// the runtime's cached readiness of the pipe may be older than the end of the process.
pub(crate) fn try_read_pipe(pipe: &pipe::Receiver, buffer: &mut BytesMut) -> io::Result<usize> {
    let mut space = [0; 16 * 1024];
    let length = nix::unistd::read(pipe, &mut space)?;
    buffer.extend_from_slice(&space[..length]);
    Ok(length)
}

/// Merges the environment that every command gets with the variables of this command, which take precedence.
pub(crate) fn merge_env(
    base: &[(ByteString, ByteString)],
    more: &[(ByteString, ByteString)],
) -> Vec<(OsString, OsString)> {
    let mut merged: Vec<(OsString, OsString)> = Vec::with_capacity(base.len() + more.len());
    for (key, value) in base.iter().chain(more) {
        let (key, value) = (key.clone().into_os_string(), value.clone().into_os_string());
        match merged.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => merged.push((key, value)),
        }
    }
    merged
}

/// Resolves a request's folder relative to the workdir.
pub(crate) fn resolve(workdir: &ByteString, path: Option<&ByteString>) -> PathBuf {
    match path {
        Some(path) => workdir.as_path().join(path.as_path()),
        None => workdir.as_path().to_owned(),
    }
}
