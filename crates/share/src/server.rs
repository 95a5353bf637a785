//! The end on the host: serves one folder to the kernel of a machine.
//!
//! The peer is hostile. It can name files only by numbers that were assigned here and by single names
//! without a slash. Every descriptor is opened step by step from the folder, never through a symlink.
//! Runs with the rights of its process and adds none.

mod attributes;
mod content;
mod descriptors;
mod entries;
mod folders;
mod handles;
mod invalidation;
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

use crate::abi::{
    FUSE_MAJOR_VERSION, FUSE_MINOR_VERSION, FuseOperation, MAX_CONTENT_BYTES, PAGE_BYTES,
    REQUEST_HEADER_LEN, init,
};
use crate::channel::{MessageReader, block_signals, write_all};
use crate::wire::{Fields, FuseReply, FuseRequest};
use handles::Handles;
use nodes::{Nodes, ROOT_NODE};
use stat::Stat;

/// Several, so that a request that waits for the disk does not delay the others.
const WORKER_THREADS: usize = 4;
/// Descriptors reserved for other purposes and for the duration of a request.
const RESERVED_DESCRIPTORS: usize = 48;

/// Serves a folder until the channel ends.
///
/// Must run in its own process, because it clears the umask: programs inside choose the modes. Needs
/// `/proc`. Divides the process's descriptor limit between open files and cached folders.
pub fn serve(folder: OwnedFd, channel: OwnedFd) -> io::Result<()> {
    umask(Mode::empty());
    let server = ShareServer::new(folder, channel)?;
    // A kernel resumed from a snapshot may have cached another folder.
    server.invalidate_attributes(ROOT_NODE, false)?;
    let incoming = Mutex::new(MessageReader::new(
        server.channel.as_fd(),
        REQUEST_HEADER_LEN,
    ));
    let (ending, ends) = pipe_with(PipeFlags::CLOEXEC)?;
    thread::scope(|scope| {
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let watch = || server.watch_until(&ending);
        let watch = spawn("share-watch").spawn_scoped(scope, watch)?;
        let work = || server.work(&incoming);
        let workers: Vec<_> = (0..WORKER_THREADS)
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
struct ShareServer {
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

impl ShareServer {
    fn new(folder: OwnedFd, channel: OwnedFd) -> io::Result<Self> {
        let root = openat(&folder, c".", FOLDER_PATH_FLAGS, Mode::empty())?;
        let identity = Stat::of_open(&root)?.identity();
        let descriptors = openat(CWD, c"/proc/self/fd", FOLDER_PATH_FLAGS, Mode::empty())?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let share = usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 20);
        let share = share.saturating_sub(RESERVED_DESCRIPTORS);
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
        server.watch(ROOT_NODE, &server.root);
        Ok(server)
    }

    /// Handles requests until the channel ends.
    fn work(&self, incoming: &Mutex<MessageReader<'_>>) -> io::Result<()> {
        block_signals()?;
        let mut message = Vec::new();
        let mut reply = FuseReply::default();
        loop {
            let mut turn = lock(incoming);
            if !turn.next(&mut message)? {
                return Ok(());
            }
            let Ok(request) = FuseRequest::parse(&message) else {
                continue;
            };
            // A short request is handled before another worker is woken for the next one.
            let _turn = request.operation.is_short().then_some(turn);
            let notices = *lock(&self.notices);
            reply.begin();
            let outcome = match request.operation {
                FuseOperation::Forget => {
                    let _ = self.forget(&request);
                    continue;
                }
                FuseOperation::ForgetMany => {
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
        reply: &mut FuseReply,
        notices: u64,
    ) -> io::Result<()> {
        let sent = lock(&self.notices);
        if *sent != notices {
            // A notice since then may have been about this file and would arrive before the reply.
            reply.clear_ttls();
        }
        ignore_broken_pipe(write_all(
            self.channel.as_fd(),
            reply.finish(unique, outcome),
        ))
    }

    /// Sends an unsolicited notification.
    fn notify(&self, notice: &[u8]) -> io::Result<()> {
        let mut sent = lock(&self.notices);
        *sent += 1;
        ignore_broken_pipe(write_all(self.channel.as_fd(), notice))
    }

    fn answer(&self, request: &FuseRequest<'_>, reply: &mut FuseReply) -> Result<(), Errno> {
        let (node, fields) = (request.node, request.fields);
        match request.operation {
            FuseOperation::Init => handle_init(fields, reply),
            FuseOperation::Lookup => self.look_up(node, fields, reply),
            FuseOperation::GetAttributes => self.get_attributes(node, fields, reply),
            FuseOperation::SetAttributes => self.set_attributes(node, fields, reply),
            FuseOperation::ReadLink => self.read_link(node, reply),
            FuseOperation::Symlink => self.make_symlink(node, fields, reply),
            FuseOperation::MakeNode => self.make_node(node, fields, reply),
            FuseOperation::MakeFolder => self.make_folder(node, fields, reply),
            FuseOperation::Unlink => self.remove(node, fields, false),
            FuseOperation::RemoveFolder => self.remove(node, fields, true),
            FuseOperation::Rename => self.rename(node, fields, false),
            FuseOperation::RenameWith => self.rename(node, fields, true),
            FuseOperation::Link => self.link(node, fields, reply),
            FuseOperation::Open => self.open(node, fields, reply),
            FuseOperation::Create => self.create(node, fields, reply),
            FuseOperation::Temporary => self.create_temp_file(node, fields, reply),
            FuseOperation::Read => self.read(fields, reply),
            FuseOperation::Write => self.write(fields, reply),
            FuseOperation::Seek => self.seek(fields, reply),
            FuseOperation::CopyRange => self.copy_range(fields, reply),
            FuseOperation::Sync => self.sync(fields, false),
            FuseOperation::Release => self.release(fields, false),
            FuseOperation::OpenFolder => self.open_folder(node, reply),
            FuseOperation::ReadFolder => self.read_folder(fields, reply, false),
            FuseOperation::ReadFolderPlus => self.read_folder(fields, reply, true),
            FuseOperation::SyncFolder => self.sync(fields, true),
            FuseOperation::ReleaseFolder => self.release(fields, true),
            FuseOperation::StatFileSystem => self.stat_file_system(reply),
            FuseOperation::Destroy => Ok(()),
            // After `NOSYS` the kernel does not send this operation again.
            FuseOperation::Unsupported => Err(Errno::NOSYS),
            FuseOperation::Ioctl => Err(Errno::NOTTY),
            FuseOperation::Forget | FuseOperation::ForgetMany => Err(Errno::INVAL),
        }
    }

    fn forget(&self, request: &FuseRequest<'_>) -> Result<(), Errno> {
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
fn ignore_broken_pipe(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Negotiates the version and the flags.
fn handle_init(mut fields: Fields<'_>, reply: &mut FuseReply) -> Result<(), Errno> {
    let (major, _minor) = (fields.u32()?, fields.u32()?);
    let (read_ahead, offered) = (fields.u32()?, fields.u32()?);
    if major < FUSE_MAJOR_VERSION {
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
    reply.u32(FUSE_MAJOR_VERSION);
    reply.u32(FUSE_MINOR_VERSION);
    reply.u32(read_ahead);
    reply.u32(offered & wanted);
    // Maximum number of background requests, and the congestion threshold.
    reply.u16(16);
    reply.u16(12);
    reply.u32(MAX_CONTENT_BYTES as u32);
    // Granularity of timestamps in nanoseconds.
    reply.u32(1);
    reply.u16((MAX_CONTENT_BYTES / PAGE_BYTES) as u16);
    reply.u16(0);
    reply.extend(&[0; 32]);
    Ok(())
}

/// Flags to open a folder as a path (`O_PATH`), not for reading.
const FOLDER_PATH_FLAGS: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Ignores poisoning: no code panics while it holds a lock, and the guarded state would stay consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
