//! The guest's main loop: performs the handshake, answers each stream of the host, ends with the link.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use link::request::{ByteString, GuestGreeting, GuestLimit, GuestRequest, GuestSettings};
use link::{IncomingStreams, Link, LinkLimits, LinkRole, Stream};
use nix::sys::signal::Signal;

use crate::channel::Channel;
use crate::jobs::JobTable;
use crate::processes::ProcessTable;
use crate::signals::{GuestKernel, SignalReader, forwarded_signals};
use crate::workers::Workers;
use crate::{
    disk, exec, files, inspect, jobs, listing, memory, output_tail, ports, search, shell, signals,
    spawn, survey, watch,
};

/// State that all request handlers share.
pub(crate) struct Guest {
    pub(crate) settings: GuestSettings,
    /// Whether the workspace is a file share between two kernels. This kernel then caches files for a
    /// moment.
    is_shared: bool,
    pub(crate) processes: ProcessTable,
    pub(crate) workers: Rc<Workers>,
    pub(crate) execs: exec::RunningCommands,
    pub(crate) jobs: JobTable,
    pub(crate) shells: shell::ShellSessions,
    pub(crate) disk_limit: disk::DiskLimitState,
}

impl Guest {
    /// Resolves a path of a request. It may lead anywhere, because every path is inside the sandbox.
    pub(crate) fn resolve(&self, path: Option<&ByteString>) -> PathBuf {
        exec::resolve(&self.settings.workdir, path)
    }

    /// Waits until changes that the host made to files before its request are visible here.
    fn settle(&self) {
        if self.is_shared {
            // If the workspace is gone, the request itself reports that.
            let _ = share::settle(self.settings.workdir.as_path());
        }
    }

    pub(crate) fn env_with(&self, more: &[(ByteString, ByteString)]) -> Vec<(OsString, OsString)> {
        exec::merge_env(&self.settings.env, more)
    }
}

/// Serves the link until it ends.
pub(crate) fn serve(link: Channel, kernel: GuestKernel) -> ExitCode {
    signals::ignore_signals(kernel);
    memory::tune_allocator();
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
    let limits = LinkLimits {
        peer_streams: 4096,
        ..LinkLimits::default()
    };
    let ready = GuestGreeting {
        release: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let (settings, link, incoming, driver): (GuestSettings, _, _, _) =
        link::connect(reader, writer, LinkRole::Guest, limits, &ready)
            .await
            .map_err(io::Error::other)?;
    let guest = Rc::new(Guest {
        is_shared: share::is_fuse_mount(settings.workdir.as_path()),
        settings,
        processes: ProcessTable::default(),
        workers,
        execs: exec::RunningCommands::default(),
        jobs: JobTable::default(),
        shells: shell::ShellSessions::default(),
        disk_limit: disk::DiskLimitState::default(),
    });
    if !guest.settings.is_linux {
        // The system call filter protects the guest's threads by their ids, so these must be the lowest.
        guest.workers.start_all();
        signals::ignore_thread_signal();
        spawn::set_current_folder(&guest.resolve(None));
    }
    tokio::task::spawn_local(guest.processes.clone().reap());
    tokio::task::spawn_local(forward_signals(guest.processes.clone()));
    tokio::task::spawn_local(enforce_deadline(guest.clone()));
    tokio::task::spawn_local(disk::enforce_limit(guest.clone()));
    tokio::task::spawn_local(memory::enforce_limit(guest.clone()));
    if let Some(port) = guest.settings.proxy_port {
        ports::listen(port, link.clone()).await?;
    }
    tokio::task::spawn_local(accept(guest.clone(), incoming, link));
    // When the link ends, for any reason, the sandbox ends: the end of process 1 ends all others.
    let _ = driver.run().await;
    guest.processes.kill_all(None);
    Ok(())
}

async fn accept(guest: Rc<Guest>, mut incoming: IncomingStreams, _link: Link) {
    while let Some(stream) = incoming.accept().await {
        tokio::task::spawn_local(handle_stream(guest.clone(), stream));
    }
}

async fn handle_stream(guest: Rc<Guest>, mut stream: Stream) {
    let Ok(request) = stream.expect().await else {
        return;
    };
    if needs_current_files(&request) {
        guest.settle();
    }
    let adds_files = adds_files(&request);
    if adds_files {
        guest.disk_limit.note_host_write();
    }
    perform(&guest, request, stream).await;
    if adds_files {
        guest.disk_limit.note_host_write();
    }
}

async fn perform(guest: &Rc<Guest>, request: GuestRequest, stream: Stream) {
    match request {
        GuestRequest::Exec(exec) => exec::exec(guest.clone(), exec, stream).await,
        GuestRequest::Control { exec, control } => {
            exec::control(guest, exec, control, stream).await;
        }
        GuestRequest::Shell(command) => shell::run(guest.clone(), command, stream).await,
        GuestRequest::Poll(poll) => jobs::poll(guest, poll, stream).await,
        GuestRequest::Tail { job, seen } => output_tail::tail(guest, job, seen, stream).await,
        GuestRequest::Feed { job } => jobs::feed(guest, job, stream).await,
        GuestRequest::Kill { job, signal } => jobs::kill(guest, job, signal, stream).await,
        GuestRequest::Read(read) => files::read(guest, read, stream).await,
        GuestRequest::Write(write) => files::write(guest, write, stream).await,
        GuestRequest::Rename { from, to } => files::rename(guest, from, to, stream).await,
        GuestRequest::Remove { path, recursive } => {
            files::remove(guest, path, recursive, stream).await;
        }
        GuestRequest::MakeFolder { path } => files::make_folder(guest, path, stream).await,
        GuestRequest::MakeLink { path, target } => {
            files::make_link(guest, path, target, stream).await
        }
        GuestRequest::SetMode { path, mode } => files::set_mode(guest, path, mode, stream).await,
        GuestRequest::Stat { path } => files::stat(guest, path, stream).await,
        GuestRequest::List(list) => listing::list(guest, list, stream).await,
        GuestRequest::Survey { path, limit } => survey::survey(guest, path, limit, stream).await,
        GuestRequest::Watch { path } => watch::watch(guest, path, stream).await,
        GuestRequest::Search(query) => search::search(guest, query, stream).await,
        GuestRequest::Connect { port } => ports::connect(port, stream).await,
        GuestRequest::Stats => inspect::stats(guest, stream).await,
        GuestRequest::Inspect => inspect::walls(guest, stream).await,
    }
}

/// Whether a request depends on the current state of files.
fn needs_current_files(request: &GuestRequest) -> bool {
    match request {
        GuestRequest::Exec(_)
        | GuestRequest::Shell(_)
        | GuestRequest::Read(_)
        | GuestRequest::Write(_)
        | GuestRequest::Rename { .. }
        | GuestRequest::Remove { .. }
        | GuestRequest::MakeFolder { .. }
        | GuestRequest::MakeLink { .. }
        | GuestRequest::SetMode { .. }
        | GuestRequest::Stat { .. }
        | GuestRequest::List(_)
        | GuestRequest::Survey { .. }
        | GuestRequest::Watch { .. }
        | GuestRequest::Search(_) => true,
        GuestRequest::Control { .. }
        | GuestRequest::Poll(_)
        | GuestRequest::Tail { .. }
        | GuestRequest::Feed { .. }
        | GuestRequest::Kill { .. }
        | GuestRequest::Connect { .. }
        | GuestRequest::Stats
        | GuestRequest::Inspect => false,
    }
}

/// Whether a request makes the workspace larger without a process of the sandbox.
fn adds_files(request: &GuestRequest) -> bool {
    matches!(
        request,
        GuestRequest::Write(_) | GuestRequest::MakeFolder { .. } | GuestRequest::MakeLink { .. }
    )
}

/// Forwards signals to process 1 to all processes of the sandbox.
async fn forward_signals(processes: ProcessTable) -> io::Result<()> {
    let signals = SignalReader::new(&forwarded_signals())?;
    loop {
        if let Ok(signal) = Signal::try_from(signals.next().await?) {
            processes.signal_all(signal);
        }
    }
}

async fn enforce_deadline(guest: Rc<Guest>) {
    let Some(deadline) = guest.settings.deadline else {
        return;
    };
    tokio::time::sleep(deadline).await;
    // Repeat, so that processes started from now on are killed too.
    let mut again = tokio::time::interval(Duration::from_millis(20));
    loop {
        guest.processes.kill_all(Some(GuestLimit::Time));
        again.tick().await;
    }
}
