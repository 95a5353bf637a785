//! The guest's life: greet the host, answer each of its streams, end with the link.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use link::request::{Limit, Raw, Ready, Request, Settings};
use link::{Incoming, Limits, Link, Role, Stream};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::net::UnixStream;

use crate::jobs::Jobs;
use crate::processes::Processes;
use crate::readiness::register;
use crate::workers::Workers;
use crate::{
    disk, exec, files, inspect, jobs, listing, ports, search, shell, survey, tails, watch,
};

/// What every request handler may use.
pub(crate) struct Guest {
    pub(crate) settings: Settings,
    pub(crate) processes: Processes,
    pub(crate) workers: Workers,
    pub(crate) execs: exec::Execs,
    pub(crate) jobs: Jobs,
    pub(crate) shells: shell::Sessions,
}

impl Guest {
    /// A path as a request names it. It may lead anywhere: anywhere is inside.
    pub(crate) fn resolve(&self, path: Option<&Raw>) -> PathBuf {
        exec::resolve(&self.settings.workdir, path)
    }

    pub(crate) fn env_with(&self, more: &[(Raw, Raw)]) -> Vec<(OsString, OsString)> {
        exec::merge_env(&self.settings.env, more)
    }
}

/// Serves the link until it ends.
pub(crate) fn serve(link: OwnedFd) -> ExitCode {
    // The supervisor blocked signals; and no command may look into this process.
    ignore_signals();
    let _ = SigSet::all().thread_unblock();
    let _ = forwarded().thread_block();
    let _ = nix::sys::prctl::set_dumpable(false);
    let outcome = || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, run(link))
    };
    match outcome() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Ignores every signal but that of a child's end. Process 1 is spared the default actions only while
/// its signals are not blocked, and they are for a moment whenever a command is started: a
/// command that sends one just then would end the sandbox.
fn ignore_signals() {
    /// As the kernel has it; the C library keeps two signals to itself.
    #[repr(C)]
    #[derive(Default)]
    struct Action {
        handler: usize,
        flags: libc::c_ulong,
        restorer: usize,
        mask: u64,
    }
    let size = size_of::<u64>();
    // The handlers of the standard library, for its own stack, are among what is taken away.
    for signal in (1..=64).filter(|signal| *signal != libc::SIGCHLD) {
        let mut action = Action::default();
        // SAFETY: both actions outlive the calls and have the kernel's layout.
        unsafe {
            let null = std::ptr::null_mut::<Action>();
            libc::syscall(libc::SYS_rt_sigaction, signal, null, &mut action, size);
            action.handler = libc::SIG_IGN;
            libc::syscall(libc::SYS_rt_sigaction, signal, &action, null, size);
        }
    }
}

async fn run(link: OwnedFd) -> io::Result<()> {
    let socket = std::os::unix::net::UnixStream::from(link);
    socket.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(socket)?.into_split();
    let limits = Limits {
        peer_streams: 4096,
        ..Limits::default()
    };
    let ready = Ready {
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (settings, link, incoming, driver): (Settings, _, _, _) =
        link::connect(reader, writer, Role::Guest, limits, &ready)
            .await
            .map_err(io::Error::other)?;
    let guest = Rc::new(Guest {
        settings,
        processes: Processes::default(),
        workers: Workers::default(),
        execs: exec::Execs::default(),
        jobs: Jobs::default(),
        shells: shell::Sessions::default(),
    });
    tokio::task::spawn_local(guest.processes.clone().reap());
    tokio::task::spawn_local(forward_signals(guest.processes.clone()));
    tokio::task::spawn_local(keep_deadline(guest.clone()));
    tokio::task::spawn_local(disk::watch(guest.clone()));
    if let Some(port) = guest.settings.proxy_port {
        ports::listen(port, link.clone()).await?;
    }
    tokio::task::spawn_local(accept(guest.clone(), incoming, link));
    // Whatever ended the link ends the sandbox: process 1 takes all others with it.
    let _ = driver.run().await;
    guest.processes.kill_all(None);
    Ok(())
}

async fn accept(guest: Rc<Guest>, mut incoming: Incoming, _link: Link) {
    while let Some(stream) = incoming.accept().await {
        tokio::task::spawn_local(answer(guest.clone(), stream));
    }
}

async fn answer(guest: Rc<Guest>, mut stream: Stream) {
    let Ok(request) = stream.expect().await else {
        return;
    };
    match request {
        Request::Exec(exec) => exec::exec(guest, exec, stream).await,
        Request::Control { exec, control } => {
            exec::control(&guest, exec, control, stream).await;
        }
        Request::Shell(command) => shell::run(guest, command, stream).await,
        Request::Poll(poll) => jobs::poll(&guest, poll, stream).await,
        Request::Tail { job, seen } => tails::tail(&guest, job, seen, stream).await,
        Request::Feed { job } => jobs::feed(&guest, job, stream).await,
        Request::Kill { job, signal } => jobs::kill(&guest, job, signal, stream).await,
        Request::Read(read) => files::read(&guest, read, stream).await,
        Request::Write(write) => files::write(&guest, write, stream).await,
        Request::Rename { from, to } => files::rename(&guest, from, to, stream).await,
        Request::Remove { path, recursive } => {
            files::remove(&guest, path, recursive, stream).await;
        }
        Request::MakeFolder { path } => files::make_folder(&guest, path, stream).await,
        Request::MakeLink { path, target } => files::make_link(&guest, path, target, stream).await,
        Request::SetMode { path, mode } => files::set_mode(&guest, path, mode, stream).await,
        Request::Stat { path } => files::stat(&guest, path, stream).await,
        Request::List(list) => listing::list(&guest, list, stream).await,
        Request::Survey { path, limit } => survey::survey(&guest, path, limit, stream).await,
        Request::Watch { path } => watch::watch(&guest, path, stream).await,
        Request::Search(query) => search::search(&guest, query, stream).await,
        Request::Connect { port } => ports::connect(port, stream).await,
        Request::Stats => inspect::stats(&guest, stream).await,
        Request::Inspect => inspect::walls(&guest, stream).await,
    }
}

/// Process 1 has no default actions: a signal for it is for the sandbox. Read from a descriptor
/// and not taken by handlers, which a storm of signals would stack up.
async fn forward_signals(processes: Processes) -> io::Result<()> {
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = register(SignalFd::with_flags(&forwarded(), flags)?)?;
    loop {
        let mut ready = signals.readable().await?;
        let outcome = ready.try_io(|signals| match signals.get_ref().0.read_signal()? {
            Some(signal) => Ok(signal),
            None => Err(io::ErrorKind::WouldBlock.into()),
        });
        if let Ok(arrived) = outcome
            && let Ok(signal) = Signal::try_from(arrived?.ssi_signo as i32)
        {
            processes.signal_all(signal);
        }
    }
}

/// What process 1 passes on.
fn forwarded() -> SigSet {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        set.add(signal);
    }
    set
}

async fn keep_deadline(guest: Rc<Guest>) {
    let Some(deadline) = guest.settings.deadline else {
        return;
    };
    tokio::time::sleep(deadline).await;
    // What starts from now on is over at once too.
    let mut again = tokio::time::interval(Duration::from_millis(20));
    loop {
        guest.processes.kill_all(Some(Limit::Time));
        again.tick().await;
    }
}
