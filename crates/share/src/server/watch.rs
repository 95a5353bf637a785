//! Watches the folder for changes of the host, and invalidates the cache of the kernel inside.
//!
//! So the kernel can cache names and attributes, which saves it most requests.
//!
//! Staleness: an invalidation is sent within milliseconds of a change, and before the reply to any
//! later `statfs`. Changes that inotify does not report (writes to a mapped file that stays open, and
//! changes through a hard link in an unwatched folder) are visible after at most [`CACHE_TTL_SECS`] seconds.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::fstatfs;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, ioctl_fionread};

use super::stat::{FileVersion, Stat};
use super::{ShareServer, lock};
use crate::channel::block_signals;

/// Seconds for which the kernel may cache names and attributes.
pub(super) const CACHE_TTL_SECS: u64 = 5;
/// Two changes within one tick of the file system's clock can have the same timestamp.
const TIMESTAMP_GRANULARITY: Duration = Duration::from_millis(20);
/// Changes come in bursts: wait this long to handle them together.
const EVENT_BATCH_DELAY: Duration = Duration::from_millis(1);
/// Bytes per read of events.
const EVENT_BUFFER_BYTES: usize = 16 * 1024;

const WATCHED_EVENTS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

/// Local file systems. Others, such as network ones, can change without inotify events.
const LOCAL_FILE_SYSTEMS: &[u64] = &[
    0xef53,      // ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlay
];

/// Events by watch and name. Details come from the current state of the file.
type InotifyEvents = HashMap<(i32, Option<Box<CStr>>), ReadFlags>;

/// Opens inotify, if the file system supports it.
pub(super) fn open(root: &OwnedFd) -> Option<OwnedFd> {
    let kind = fstatfs(root).ok()?.f_type as u64;
    let is_local = LOCAL_FILE_SYSTEMS.contains(&(kind & 0xffff_ffff));
    is_local.then(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok())?
}

impl ShareServer {
    /// Watches a folder, if possible.
    pub(super) fn watch(&self, folder: u64, open: &OwnedFd) {
        let Some(queue) = &self.queue else {
            return;
        };
        if !lock(&self.nodes).can_watch(folder) {
            return;
        }
        let path = format!("/proc/self/fd/{}", open.as_raw_fd());
        let watch = inotify::add_watch(queue, path, WATCHED_EVENTS).ok();
        lock(&self.nodes).set_watch(folder, watch);
    }

    pub(super) fn unwatch(&self, watch: Option<i32>) {
        if let (Some(queue), Some(watch)) = (&self.queue, watch) {
            let _ = inotify::remove_watch(queue, watch);
        }
    }

    /// Seconds for which the attributes of a node may be cached. The caller must have taken the shared
    /// lock on names before it got `stat`.
    pub(super) fn attribute_ttl(&self, node: u64, stat: &Stat) -> u64 {
        let version = stat.version();
        let is_alone = stat.identity().is_folder() || stat.links() == 1;
        if !is_alone || stat.identity().device() != self.device || !has_stable_timestamp(&version) {
            return 0;
        }
        let mut nodes = lock(&self.nodes);
        if nodes.is_observed(node) {
            nodes.tell(node, version);
            CACHE_TTL_SECS
        } else {
            0
        }
    }

    /// Seconds for which an entry of a folder may be cached.
    pub(super) fn entry_ttl(&self, folder: u64) -> u64 {
        if lock(&self.nodes).is_watched(folder) {
            CACHE_TTL_SECS
        } else {
            0
        }
    }

    /// Handles events until `ending` is readable.
    pub(super) fn watch_until(&self, ending: &OwnedFd) -> io::Result<()> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        block_signals()?;
        loop {
            let mut both = [
                PollFd::new(queue, PollFlags::IN),
                PollFd::new(ending, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !both[1].revents().is_empty() {
                return Ok(());
            }
            thread::sleep(EVENT_BATCH_DELAY);
            self.process_host_events()?;
        }
    }

    /// Sends invalidations for all events so far. Must not be called with the lock on names held.
    pub(super) fn process_host_events(&self) -> io::Result<()> {
        let Some(queue) = &self.queue else {
            return Ok(());
        };
        // Also waits until another thread has sent the invalidations for the events it has read.
        let _looking = lock(&self.looking);
        let happenings = read_events(queue)?;
        if happenings.is_empty() {
            return Ok(());
        }
        // So that no lookup is between its `stat` of a file and the update of the node.
        let _names = self.lock_names_exclusive();
        for ((watch, name), flags) in &happenings {
            self.handle_event(*watch, name.as_deref(), *flags)?;
        }
        Ok(())
    }
}

/// Whether a later change is certain to have another timestamp.
fn has_stable_timestamp(version: &FileVersion) -> bool {
    let (seconds, part) = version.changed();
    let Ok(seconds) = u64::try_from(seconds) else {
        return false;
    };
    let changed = UNIX_EPOCH + Duration::new(seconds, part);
    let age = SystemTime::now().duration_since(changed);
    age.is_ok_and(|age| age > TIMESTAMP_GRANULARITY)
}

/// All events in the queue at this moment, merged per entry.
fn read_events(queue: &OwnedFd) -> io::Result<InotifyEvents> {
    let mut left = ioctl_fionread(queue)?;
    let mut happenings = InotifyEvents::new();
    while left > 0 {
        let mut buffer = [MaybeUninit::uninit(); EVENT_BUFFER_BYTES];
        let mut reader = Reader::new(queue, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(Into::into);
                    let flags = happenings.entry((event.wd(), name));
                    *flags.or_insert(ReadFlags::empty()) |= event.events();
                }
                Err(Errno::AGAIN) => return Ok(happenings),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        // Later events are left for the next call.
        left = left.saturating_sub(EVENT_BUFFER_BYTES as u64 / 2);
    }
    Ok(happenings)
}
