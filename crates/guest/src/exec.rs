//! One command to its end: starts it, feeds it, streams what it prints, says how it ended.
//!
//! The command is over when its process ends, not when its output closes: a child that keeps
//! standard output open for ever holds nobody up. What the process had printed by then is in
//! the pipes and is sent first.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::BytesMut;
use link::request::{Answer, Control, Exec, Exit, Limit, Program, Raw, RefusalKind};
use link::{Item, Receiver, Sender, Stream, StreamError};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, pipe2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::keys;
use crate::processes::{retry_start, signal_group};
use crate::refusal::{refuse, refuse_with};
use crate::session::Guest;
use crate::spawn::Start;
use crate::terminal::Terminal;

/// Read at once and so at most in one frame.
const CHUNK: usize = link::frame::MAX_PAYLOAD;

/// Asked of the kernel for each output pipe, so that a command can print while the guest sends. No pipe holds
/// more.
pub(crate) const PIPE: usize = 1024 * 1024;

thread_local! {
    /// Whether this sandbox may have pipes of that size. The system call filter refuses where all sandboxes
    /// of a user share what the kernel gives to pipes, and each refusal costs a call, which is slow on gVisor.
    static HAS_LARGE_PIPES: Cell<bool> = const { Cell::new(true) };
}

pub(crate) async fn exec(guest: Rc<Guest>, request: Exec, stream: Stream) {
    let id = stream.id();
    let (mut sender, receiver) = stream.split();
    let answer = run(&guest, request, id, &mut sender, receiver).await;
    guest.execs.running.borrow_mut().remove(&id);
    // Nobody may be listening any more.
    let _ = sender.send(&answer).await;
}

async fn run(
    guest: &Rc<Guest>,
    request: Exec,
    id: u32,
    sender: &mut Sender,
    receiver: Receiver,
) -> Answer<Exit> {
    let argv = argv(&request.program);
    let what = format!(
        "start `{}`",
        argv.first()
            .map_or("".into(), |name| name.to_string_lossy())
    );
    let cwd = guest.resolve(request.cwd.as_ref());
    let mut streams = Streams::open(&request).map_err(|error| refuse(&what, error))?;
    let start = Start {
        argv: &argv,
        env: &guest.env_with(&request.env),
        cwd: &cwd,
        descriptors: &streams.theirs(),
        terminal: streams
            .terminal
            .as_ref()
            .map(|terminal| terminal.path.as_path()),
    };
    let started = retry_start(|| guest.processes.start(&start)).await;
    let mut child = started.map_err(|error| {
        if cwd.is_dir() {
            refuse(&what, error)
        } else {
            let message = format!("cannot start in `{}`: no such folder", cwd.display());
            refuse_with(RefusalKind::NotFound, message)
        }
    })?;
    streams.close_theirs();
    let group = child.group;
    let limit = Rc::new(Cell::new(None));
    let terminal = streams.terminal.map(Rc::new);
    guest
        .execs
        .running
        .borrow_mut()
        .insert(id, (group, terminal.clone()));
    let feeder = feed(
        receiver,
        streams.stdin,
        terminal.clone(),
        group,
        guest.settings.is_linux,
    );
    let feeder = tokio::task::spawn_local(feeder);

    let (over, is_over) = watch::channel(false);
    let output = Output {
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
            () = sleep(request.timeout) => {
                limit.set(Some(Limit::Time));
                let _ = signal_group(group, libc::SIGKILL);
                (&mut child.ended).await
            }
        };
        over.send_replace(true);
        ended.expect("the reaper hands on every status")
    };
    let (status, _) = tokio::join!(wait, pump);
    feeder.abort();
    Ok(Exit {
        status,
        limit: limit
            .get()
            .or_else(|| guest.processes.limit_behind(&child, status)),
    })
}

async fn sleep(timeout: Option<std::time::Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

fn argv(program: &Program) -> Vec<OsString> {
    match program {
        Program::Argv(argv) => argv.iter().cloned().map(Raw::into_os_string).collect(),
        Program::Script(script) => {
            vec![
                "/bin/sh".into(),
                "-c".into(),
                script.clone().into_os_string(),
            ]
        }
    }
}

/// Both ends of a command's standard streams.
struct Streams {
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    terminal: Option<Terminal>,
    children: Vec<(i32, OwnedFd)>,
}

impl Streams {
    fn open(request: &Exec) -> io::Result<Self> {
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
            streams.stdin = Some(pipe::Sender::from_owned_fd(nonblocking(writer)?)?);
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

    fn theirs(&self) -> Vec<(i32, BorrowedFd<'_>)> {
        self.children
            .iter()
            .map(|(number, fd)| (*number, fd.as_fd()))
            .collect()
    }

    fn close_theirs(&mut self) {
        self.children.clear();
    }
}

/// A pipe for output: ours does not block, theirs does.
pub(crate) fn output_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC)?;
    if HAS_LARGE_PIPES.get() {
        // A wish: the kernel bounds what one user's pipes may hold together.
        let asked = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE as i32));
        HAS_LARGE_PIPES.set(asked != Err(Errno::EINVAL));
    }
    // That it is a pipe, and how it is open, need not be asked.
    let reader = pipe::Receiver::from_owned_fd_unchecked(nonblocking(reader)?)?;
    Ok((reader, writer))
}

pub(crate) fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(fd)
}

/// Standard input, until it ends. A host that no longer reads takes the command with it.
async fn feed(
    mut receiver: Receiver,
    mut stdin: Option<pipe::Sender>,
    terminal: Option<Rc<Terminal>>,
    group: Pid,
    is_linux: bool,
) {
    let mut line_is_begun = false;
    while let Ok(Some(item)) = receiver.receive().await {
        let Item::Data(bytes) = item else {
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
        // End of input, as a person types it: once to hand over a line that was begun, once more
        // for the end itself.
        let keys: &[u8] = if line_is_begun { &[4, 4] } else { &[4] };
        let _ = terminal.write_all(keys).await;
    }
    receiver.peer_stops().await;
    let _ = signal_group(group, libc::SIGKILL);
}

/// A command's processes, and the terminal they have.
type Group = (Pid, Option<Rc<Terminal>>);

/// Commands that run, by the stream on which they were started.
#[derive(Default)]
pub(crate) struct Execs {
    running: RefCell<HashMap<u32, Group>>,
}

pub(crate) async fn control(guest: &Rc<Guest>, exec: u32, control: Control, mut stream: Stream) {
    let found = guest.execs.running.borrow().get(&exec).cloned();
    let answer = match (found, control) {
        // It has ended meanwhile: there is nothing left to tell it.
        (None, _) => Ok(()),
        (Some((group, _)), Control::Signal(signal)) => {
            signal_group(group, signal).map_err(|error| refuse("send a signal", error))
        }
        (Some((group, Some(terminal))), Control::Resize(size)) => {
            let changed = terminal.resize(size);
            if !guest.settings.is_linux {
                keys::tell(group, Signal::SIGWINCH);
            }
            changed.map_err(|error| refuse("change the size of the terminal", error))
        }
        (Some((_, None)), Control::Resize(_)) => Ok(()),
    };
    let _ = stream.send(&answer).await;
}

/// Where a command's output goes.
struct Output<'a> {
    sender: &'a mut Sender,
    /// Bytes that may still be printed.
    left: Option<u64>,
    limit: Rc<Cell<Option<Limit>>>,
    group: Pid,
}

impl Output<'_> {
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
        // Over: take what is in the pipes, no more than they can hold.
        for (pipe, buffer, errors) in &mut pipes {
            let mut left = PIPE;
            while let Some(open) = pipe
                && left > 0
            {
                match read_now(open, buffer) {
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
        // No more than there is: somebody may still print. Some kernels hold much more than a pipe.
        let mut left = terminal.pending().max(PIPE);
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
                self.limit.set(Some(Limit::Output));
                let _ = signal_group(self.group, libc::SIGKILL);
            }
            *left -= bytes.len() as u64;
        }
        if errors {
            self.sender.send_errors(bytes.freeze()).await
        } else {
            self.sender.send_data(bytes.freeze()).await
        }
    }
}

/// Reads from a pipe that may have ended; never, once it has.
pub(crate) async fn read(
    pipe: &mut Option<pipe::Receiver>,
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    match pipe {
        Some(pipe) => {
            pipe.readable().await?;
            buffer.reserve(CHUNK);
            pipe.read_buf(buffer).await
        }
        None => std::future::pending().await,
    }
}

/// Reads what is in a pipe now; `WouldBlock` if nothing is. Asks the kernel itself: what the
/// runtime last heard of the pipe may be older than the end of the process.
pub(crate) fn read_now(pipe: &pipe::Receiver, buffer: &mut BytesMut) -> io::Result<usize> {
    let mut space = [0; 16 * 1024];
    let length = nix::unistd::read(pipe, &mut space)?;
    buffer.extend_from_slice(&space[..length]);
    Ok(length)
}

/// The environment of a command: what every command gets, then what this one asks for.
pub(crate) fn merge_env(base: &[(Raw, Raw)], more: &[(Raw, Raw)]) -> Vec<(OsString, OsString)> {
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

/// A folder as a request names it, against the workdir.
pub(crate) fn resolve(workdir: &Raw, path: Option<&Raw>) -> PathBuf {
    match path {
        Some(path) => workdir.as_path().join(path.as_path()),
        None => workdir.as_path().to_owned(),
    }
}
