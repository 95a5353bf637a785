//! The guest's main loop: performs the handshake, answers each stream of the host, ends with the link.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use link::request::{Limit, Raw, Ready, Request, Settings};
use link::{Incoming, Limits, Link, Role, Stream};
use nix::sys::signal::Signal;

use crate::channel::Channel;
use crate::jobs::Jobs;
use crate::processes::Processes;
use crate::signals::{Arriving, Kernel, forwarded};
use crate::workers::Workers;
use crate::{
    disk, exec, files, inspect, jobs, listing, memory, ports, search, shell, signals, spawn,
    survey, tails, watch,
};

/// State that all request handlers share.
pub(crate) struct Guest {
    pub(crate) settings: Settings,
    /// Whether the workspace is a file share between two kernels. This kernel then caches files for a
    /// moment.
    is_shared: bool,
    pub(crate) processes: Processes,
    pub(crate) workers: Rc<Workers>,
    pub(crate) execs: exec::Execs,
    pub(crate) jobs: Jobs,
    pub(crate) shells: shell::Sessions,
}

impl Guest {
    /// Resolves a path of a request. It may lead anywhere, because every path is inside the sandbox.
    pub(crate) fn resolve(&self, path: Option<&Raw>) -> PathBuf {
        exec::resolve(&self.settings.workdir, path)
    }

    /// Waits until changes that the host made to files before its request are visible here.
    fn settle(&self) {
        if self.is_shared {
            // If the workspace is gone, the request itself reports that.
            let _ = share::settle(self.settings.workdir.as_path());
        }
    }

    pub(crate) fn env_with(&self, more: &[(Raw, Raw)]) -> Vec<(OsString, OsString)> {
        exec::merge_env(&self.settings.env, more)
    }
}

/// Serves the link until it ends.
pub(crate) fn serve(link: Channel, kernel: Kernel) -> ExitCode {
    signals::withstand(kernel);
    memory::keep_freed();
    // Commands must not read this process's memory or descriptors.
    let _ = nix::sys::prctl::set_dumpable(false);
    let outcome = || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let local = tokio::task::LocalSet::new();
        let workers = Rc::new(Workers::default());
        let ended = local.block_on(&runtime, run(link, workers.clone()));
        // Dropping the requests and ending the workers removes temporary files of unfinished writes.
        drop(local);
        workers.end();
        ended
    };
    match outcome() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run(link: Channel, workers: Rc<Workers>) -> io::Result<()> {
    let (reader, writer) = link.split()?;
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
        is_shared: share::is_shared(settings.workdir.as_path()),
        settings,
        processes: Processes::default(),
        workers,
        execs: exec::Execs::default(),
        jobs: Jobs::default(),
        shells: shell::Sessions::default(),
    });
    if !guest.settings.is_linux {
        // The system call filter protects the guest's threads by their ids, so these must be the lowest.
        guest.workers.start_all();
        signals::ignore_thread_signal();
        spawn::stay_in(&guest.resolve(None));
    }
    tokio::task::spawn_local(guest.processes.clone().reap());
    tokio::task::spawn_local(forward_signals(guest.processes.clone()));
    tokio::task::spawn_local(keep_deadline(guest.clone()));
    tokio::task::spawn_local(disk::watch(guest.clone()));
    tokio::task::spawn_local(memory::watch(guest.clone()));
    if let Some(port) = guest.settings.proxy_port {
        ports::listen(port, link.clone()).await?;
    }
    tokio::task::spawn_local(accept(guest.clone(), incoming, link));
    // When the link ends, for any reason, the sandbox ends: the end of process 1 ends all others.
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
    if looks_at_files(&request) {
        guest.settle();
    }
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

/// Whether a request depends on the current state of files.
fn looks_at_files(request: &Request) -> bool {
    match request {
        Request::Exec(_)
        | Request::Shell(_)
        | Request::Read(_)
        | Request::Write(_)
        | Request::Rename { .. }
        | Request::Remove { .. }
        | Request::MakeFolder { .. }
        | Request::MakeLink { .. }
        | Request::SetMode { .. }
        | Request::Stat { .. }
        | Request::List(_)
        | Request::Survey { .. }
        | Request::Watch { .. }
        | Request::Search(_) => true,
        Request::Control { .. }
        | Request::Poll(_)
        | Request::Tail { .. }
        | Request::Feed { .. }
        | Request::Kill { .. }
        | Request::Connect { .. }
        | Request::Stats
        | Request::Inspect => false,
    }
}

/// Forwards signals to process 1 to all processes of the sandbox.
async fn forward_signals(processes: Processes) -> io::Result<()> {
    let signals = Arriving::new(&forwarded())?;
    loop {
        if let Ok(signal) = Signal::try_from(signals.next().await?) {
            processes.signal_all(signal);
        }
    }
}

async fn keep_deadline(guest: Rc<Guest>) {
    let Some(deadline) = guest.settings.deadline else {
        return;
    };
    tokio::time::sleep(deadline).await;
    // Repeat, so that processes started from now on are killed too.
    let mut again = tokio::time::interval(Duration::from_millis(20));
    loop {
        guest.processes.kill_all(Some(Limit::Time));
        again.tick().await;
    }
}
