//! The end on the host: serves one folder to the kernel of a machine.
//!
//! The peer is hostile. It can name files only by numbers that were assigned here and by single names
//! without a slash. Every descriptor is opened step by step from the folder, never through a symlink.
//! Runs with the rights of its process and adds none.

mod attributes;
mod comparing;
mod content;
mod descriptors;
mod entries;
mod folders;
mod handles;
mod names;
mod nodes;
mod resolve;
mod stat;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, ScopedJoinHandle};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, getegid, geteuid, getrlimit, umask};

use crate::abi::{LARGEST_CONTENT, MAJOR, MINOR, Operation, PAGE, REQUEST_HEADER, init};
use crate::channel::{Incoming, block_signals, write_all};
use crate::wire::{Fields, Reply, Request};
use handles::Handles;
use nodes::{Nodes, ROOT};
use stat::Stat;

/// Several, so that a request that waits for the disk does not delay the others.
const WORKERS: usize = 4;
/// Descriptors reserved for other purposes and for the duration of a request.
const SPARE_DESCRIPTORS: usize = 48;

/// Serves a folder until the channel ends.
///
/// Must run in its own process, because it clears the umask: programs inside choose the modes. Needs
/// `/proc`. Divides the process's descriptor limit between open files and cached folders.
pub fn serve(folder: OwnedFd, channel: OwnedFd) -> io::Result<()> {
    umask(Mode::empty());
    let server = Server::new(folder, channel)?;
    // A kernel resumed from a snapshot may have cached another folder.
    server.take_back_attributes(ROOT, false)?;
    let incoming = Mutex::new(Incoming::new(server.channel.as_fd(), REQUEST_HEADER));
    let (ending, ends) = pipe_with(PipeFlags::CLOEXEC)?;
    thread::scope(|scope| {
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let watch = || server.watch_until(&ending);
        let watch = spawn("share-watch").spawn_scoped(scope, watch)?;
        let work = || server.work(&incoming);
        let workers: Vec<_> = (0..WORKERS)
            .map_while(|_| spawn("share").spawn_scoped(scope, work).ok())
            .collect();
        let mut outcome = if workers.is_empty() {
            Err(io::ErrorKind::OutOfMemory.into())
        } else {
            Ok(())
        };
        for worker in workers {
            outcome = outcome.and(join(worker));
        }
        drop(ends);
        outcome.and(join(watch))
    })
}

fn join(thread: ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

#[derive(Debug)]
struct Server {
    channel: OwnedFd,
    /// Number of notices sent so far. Locked while a message is being sent.
    notices: Mutex<u64>,
    root: OwnedFd,
    /// The file system that the folder is on.
    device: (u32, u32),
    /// inotify descriptor for changes of the host, if the file system supports it.
    queue: Option<OwnedFd>,
    /// Held while events are read and invalidations sent.
    looking: Mutex<()>,
    /// `/proc/self/fd`, to reopen descriptors.
    descriptors: OwnedFd,
    nodes: Mutex<Nodes>,
    handles: Mutex<Handles>,
    /// Held for writing while an entry is removed or moved, so that other threads see nodes that are
    /// consistent with the folder.
    names: RwLock<()>,
    /// User and group of files created here.
    owner: (u32, u32),
}

impl Server {
    fn new(folder: OwnedFd, channel: OwnedFd) -> io::Result<Self> {
        let root = openat(&folder, c".", FOLDER_PATH, Mode::empty())?;
        let identity = Stat::of_open(&root)?.identity();
        let descriptors = openat(CWD, c"/proc/self/fd", FOLDER_PATH, Mode::empty())?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 20);
        let share = share.saturating_sub(SPARE_DESCRIPTORS);
        let server = Self {
            channel,
            notices: Mutex::new(0),
            device: identity.device(),
            queue: watch::open(&root),
            looking: Mutex::new(()),
            root,
            descriptors,
            nodes: Mutex::new(Nodes::new(identity, share / 4, share / 8)),
            handles: Mutex::new(Handles::new(share / 2)),
            names: RwLock::new(()),
            owner: (geteuid().as_raw(), getegid().as_raw()),
        };
        server.watch(ROOT, &server.root);
        Ok(server)
    }

    /// Handles requests until the channel ends.
    fn work(&self, incoming: &Mutex<Incoming<'_>>) -> io::Result<()> {
        block_signals()?;
        let mut message = Vec::new();
        let mut reply = Reply::default();
        loop {
            let mut turn = lock(incoming);
            if !turn.next(&mut message)? {
                return Ok(());
            }
            let Ok(request) = Request::parse(&message) else {
                continue;
            };
            // A short request is handled before another worker is woken for the next one.
            let _turn = request.operation.is_short().then_some(turn);
            let notices = *lock(&self.notices);
            reply.begin();
            let outcome = match request.operation {
                Operation::Forget => {
                    let _ = self.forget(&request);
                    continue;
                }
                Operation::ForgetMany => {
                    let _ = self.forget_many(request.fields);
                    continue;
                }
                _ => self.answer(&request, &mut reply),
            };
            self.send(request.unique, outcome, &mut reply, notices)?;
        }
    }

    /// Sends a reply. The last argument is the number of notices that had been sent when it was built.
    fn send(
        &self,
        unique: u64,
        outcome: Result<(), Errno>,
        reply: &mut Reply,
        notices: u64,
    ) -> io::Result<()> {
        let sent = lock(&self.notices);
        if *sent != notices {
            // A notice since then may have been about this file and would arrive before the reply.
            reply.promise_nothing();
        }
        unless_gone(write_all(
            self.channel.as_fd(),
            reply.finish(unique, outcome),
        ))
    }

    /// Sends an unsolicited notification.
    fn notify(&self, notice: &[u8]) -> io::Result<()> {
        let mut sent = lock(&self.notices);
        *sent += 1;
        unless_gone(write_all(self.channel.as_fd(), notice))
    }

    fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let (node, fields) = (request.node, request.fields);
        match request.operation {
            Operation::Init => start(fields, reply),
            Operation::Lookup => self.look_up(node, fields, reply),
            Operation::GetAttributes => self.get_attributes(node, fields, reply),
            Operation::SetAttributes => self.set_attributes(node, fields, reply),
            Operation::ReadLink => self.read_link(node, reply),
            Operation::Symlink => self.make_symlink(node, fields, reply),
            Operation::MakeNode => self.make_node(node, fields, reply),
            Operation::MakeFolder => self.make_folder(node, fields, reply),
            Operation::Unlink => self.remove(node, fields, false),
            Operation::RemoveFolder => self.remove(node, fields, true),
            Operation::Rename => self.rename(node, fields, false),
            Operation::RenameWith => self.rename(node, fields, true),
            Operation::Link => self.link(node, fields, reply),
            Operation::Open => self.open(node, fields, reply),
            Operation::Create => self.create(node, fields, reply),
            Operation::Temporary => self.create_nameless(node, fields, reply),
            Operation::Read => self.read(fields, reply),
            Operation::Write => self.write(fields, reply),
            Operation::Seek => self.seek(fields, reply),
            Operation::CopyRange => self.copy_range(fields, reply),
            Operation::Sync => self.sync(fields, false),
            Operation::Release => self.release(fields, false),
            Operation::OpenFolder => self.open_folder(node, reply),
            Operation::ReadFolder => self.read_folder(fields, reply, false),
            Operation::ReadFolderPlus => self.read_folder(fields, reply, true),
            Operation::SyncFolder => self.sync(fields, true),
            Operation::ReleaseFolder => self.release(fields, true),
            Operation::StatFileSystem => self.stat_file_system(reply),
            Operation::Destroy => Ok(()),
            // After `NOSYS` the kernel does not send this operation again.
            Operation::Unsupported => Err(Errno::NOSYS),
            Operation::Ioctl => Err(Errno::NOTTY),
            Operation::Forget | Operation::ForgetMany => Err(Errno::INVAL),
        }
    }

    fn forget(&self, request: &Request<'_>) -> Result<(), Errno> {
        let mut fields = request.fields;
        let lookups = fields.u64()?;
        let remains = lock(&self.nodes).forget(request.node, lookups);
        self.unwatch(remains.watch);
        Ok(())
    }

    fn forget_many(&self, mut fields: Fields<'_>) -> Result<(), Errno> {
        let count = fields.u32()?;
        fields.u32()?;
        for _ in 0..count {
            let (node, lookups) = (fields.u64()?, fields.u64()?);
            let remains = lock(&self.nodes).forget(node, lookups);
            self.unwatch(remains.watch);
        }
        Ok(())
    }
}

/// Ignores a closed peer: the next read reports the end of the channel.
fn unless_gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Negotiates the version and the flags.
fn start(mut fields: Fields<'_>, reply: &mut Reply) -> Result<(), Errno> {
    let (major, _minor) = (fields.u32()?, fields.u32()?);
    let (read_ahead, offered) = (fields.u32()?, fields.u32()?);
    if major < MAJOR {
        return Err(Errno::PROTO);
    }
    // No write-back cache: written data is in the folder before the write returns.
    let wanted = init::ASYNC_READ
        | init::ATOMIC_TRUNCATE
        | init::BIG_WRITES
        | init::INVALIDATE_BY_TIME
        | init::READ_FOLDER_PLUS
        | init::READ_FOLDER_PLUS_AUTO
        | init::ASYNC_DIRECT
        | init::PARALLEL_FOLDERS
        | init::MAX_PAGES
        | init::CACHE_SYMLINKS;
    reply.u32(MAJOR);
    reply.u32(MINOR);
    reply.u32(read_ahead);
    reply.u32(offered & wanted);
    // Maximum number of background requests, and the congestion threshold.
    reply.u16(16);
    reply.u16(12);
    reply.u32(LARGEST_CONTENT as u32);
    // Granularity of timestamps in nanoseconds.
    reply.u32(1);
    reply.u16((LARGEST_CONTENT / PAGE) as u16);
    reply.u16(0);
    reply.extend(&[0; 32]);
    Ok(())
}

/// Flags to open a folder as a path (`O_PATH`), not for reading.
const FOLDER_PATH: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Ignores poisoning: no code panics while it holds a lock, and the guarded state would stay consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
