//! The disk limit where the kernel cannot enforce it: the guest scans, and kills.
//!
//! While a process runs, the guest polls how full the file system is: the more often, the less is left of
//! the limit. Once the file system has grown by more than the limit, it stops every process and counts what
//! the sandbox occupies: files in the workdir and removed files that processes hold. It stops them first,
//! because only a count of stopped processes is complete, and because stopped processes write no more. If
//! the count is complete and does not explain the growth, other processes have filled the file system. If
//! it is incomplete, all growth counts as the sandbox's own.
//! Over the limit, everything is killed, without being continued before. As long as the limit stays
//! exceeded, a new command is killed when it starts: otherwise each of many short commands could write for
//! as long as one poll takes.
//!
//! | module | what it does |
//! |---|---|
//! | [`usage`] | bytes and inodes: of the file system, of a folder |
//! | [`holders`] | removed files that processes hold |
//! | [`freeze`] | stops every process, and continues it |
//! | [`verdict`] | decides; no I/O |
//!
//! Entry points: [`enforce_limit`], [`start_within_limit`]. The reasons are in `docs/decisions/disk-limit.md`.

mod freeze;
mod holders;
mod usage;
mod verdict;

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use link::request::{DiskGrowthLimit, GuestLimit};

use self::freeze::FrozenProcesses;
use self::usage::{DiskUsage, FolderScan, file_system_usage};
use self::verdict::{DiskObservation, DiskVerdict, ScanCompleteness, decide};
use crate::processes::retry_start;
use crate::session::Guest;

/// Between two polls far below the limit.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Between two polls near or over the limit.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// How fast a sandbox is assumed to fill a disk, per second: writing to memory pages, creating empty files.
const FASTEST_GROWTH: DiskUsage = DiskUsage {
    bytes: 2 << 30,
    inodes: 200_000,
};

/// How often the folder is scanned although the file system has not grown by the limit: processes outside
/// may free as much as the sandbox fills between two polls.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// These scans take at most one part in this many of the time.
const SCAN_DUTY_DIVISOR: u32 = 50;

/// How many scans in a row may be incomplete for a temporary reason (no memory, a process that does not stop
/// in time). After that, the limit counts as exceeded.
const MAX_INCONCLUSIVE_SCANS: u32 = 10;

/// The limit is raised by one part in this many, for file system metadata: a file of the largest size that
/// `RLIMIT_FSIZE` allows occupies more than its size.
const METADATA_DIVISOR: u64 = 256;

/// Extra space after the first kill, for commands that clean up.
const CLEANUP_ALLOWANCE: DiskUsage = DiskUsage {
    bytes: 16 * 1024 * 1024,
    inodes: 1024,
};

/// What the watcher and the starts of commands share.
#[derive(Default)]
pub(crate) struct DiskLimitState {
    /// Set once the limit is being enforced.
    bounds: Cell<Option<DiskBounds>>,
    /// From the scan that found the limit exceeded to the first one that finds it kept again.
    is_exceeded: Cell<bool>,
    /// Whether the limit was raised for commands that clean up.
    is_raised: Cell<bool>,
    /// The file system's usage since no process of the sandbox runs; `None` while one may run.
    usage_when_idle: Cell<Option<DiskUsage>>,
}

impl DiskLimitState {
    /// The host changes files of the sandbox, so growth is not that of others alone.
    pub(crate) fn note_host_write(&self) {
        self.usage_when_idle.set(None);
    }

    /// While no process of the sandbox runs, only others can make the file system grow.
    fn count_idle_growth_as_foreign(&self, root: &Path) {
        if let Some(when_idle) = self.usage_when_idle.take()
            && let Some(mut bounds) = self.bounds.get()
            && let Some(used) = file_system_usage(root)
        {
            bounds.baseline = bounds.baseline.plus(used.minus(when_idle));
            self.bounds.set(Some(bounds));
        }
    }
}

/// Starts a command. If the disk limit is still exceeded, the command is killed at once.
pub(crate) async fn start_within_limit<T>(
    guest: &Guest,
    start: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let root = guest.resolve(None);
    guest.disk_limit.count_idle_growth_as_foreign(&root);
    let is_exceeded = guest.disk_limit.is_exceeded.get() && is_still_exceeded(guest, &root).await;
    let started = retry_start(start).await?;
    if is_exceeded {
        guest.processes.kill_all(Some(GuestLimit::Disk));
    }
    Ok(started)
}

/// Scans again, because the host may have removed files since the limit was exceeded. The first time,
/// commands get some space to clean up: what the killed processes wrote last is counted only now.
async fn is_still_exceeded(guest: &Guest, root: &Path) -> bool {
    let state = &guest.disk_limit;
    let Some(mut bounds) = state.bounds.get() else {
        return false;
    };
    let (mut scan, mut verdict) = count(guest, root, StopPolicy::Never, bounds).await;
    if verdict == DiskVerdict::Unexplained {
        (scan, verdict) = count(guest, root, StopPolicy::WhileCounting, bounds).await;
    }
    let mut is_exceeded = !matches!(verdict, DiskVerdict::Within | DiskVerdict::GrownByOthers);
    if is_exceeded && !state.is_raised.replace(true) {
        // A scan over the limit leaves processes stopped.
        guest.processes.kill_all(Some(GuestLimit::Disk));
        bounds.raise(&scan);
        state.bounds.set(Some(bounds));
        is_exceeded = false;
    }
    state.is_exceeded.set(is_exceeded);
    is_exceeded
}

/// Enforces the limit until the guest ends.
pub(crate) async fn enforce_limit(guest: Rc<Guest>) {
    let Some(mut limit) = guest.settings.disk else {
        return;
    };
    limit.bytes = limit.bytes.saturating_add(limit.bytes / METADATA_DIVISOR);
    let root = guest.resolve(None);
    let Some(baseline) = file_system_usage(&root) else {
        return;
    };
    let at_start = usage_at_start(&guest, &root).await;
    guest.disk_limit.bounds.set(Some(DiskBounds {
        limit,
        at_start,
        baseline,
    }));
    let mut watcher = DiskWatcher {
        root,
        freed: DiskUsage::default(),
        last_polled: baseline,
        last_scan: Instant::now(),
        scan_cost: Duration::ZERO,
        stop_cost: Duration::ZERO,
        inconclusive_scans: 0,
    };
    loop {
        // Usage only grows while a process runs, and not before it has run for a moment.
        if !guest.processes.has_any() {
            // Other kernels may write files after the process that changed them has ended.
            let when_idle = file_system_usage(&watcher.root).filter(|_| guest.settings.is_linux);
            guest.disk_limit.usage_when_idle.set(when_idle);
            guest.processes.any().await;
        }
        let Some(bounds) = guest.disk_limit.bounds.get() else {
            return;
        };
        tokio::time::sleep(watcher.poll_interval(&bounds)).await;
        // A start may have raised the limit meanwhile, and may raise it during the scan.
        let bounds = guest.disk_limit.bounds.get().unwrap_or(bounds);
        let was_raised = guest.disk_limit.is_raised.get();
        let Some(stopping) = watcher.due_scan(&bounds) else {
            continue;
        };
        let verdict = watcher.scan(&guest, &bounds, stopping).await;
        if verdict == DiskVerdict::Exceeded && was_raised == guest.disk_limit.is_raised.get() {
            guest.disk_limit.is_exceeded.set(true);
            guest.processes.kill_all(Some(GuestLimit::Disk));
        }
    }
}

/// State between two polls.
struct DiskWatcher {
    root: PathBuf,
    /// Space freed on the file system since the last conclusive scan, by any process. It can hide growth of
    /// the same size.
    freed: DiskUsage,
    last_polled: DiskUsage,
    last_scan: Instant,
    scan_cost: Duration,
    /// How long the last scan stopped processes.
    stop_cost: Duration,
    inconclusive_scans: u32,
}

/// What a scan is compared with.
#[derive(Debug, Clone, Copy)]
struct DiskBounds {
    limit: DiskGrowthLimit,
    /// The folder's usage when the sandbox started.
    at_start: DiskUsage,
    /// Upper bound of the file system's usage without the sandbox's additions.
    baseline: DiskUsage,
}

impl DiskBounds {
    fn verdict(&self, scan: &DiskScan) -> DiskVerdict {
        let seen = DiskObservation {
            growth: scan.file_system.minus(self.baseline),
            own: scan.own.minus(self.at_start),
            completeness: if self.limit.has_other_places {
                ScanCompleteness::Opaque
            } else {
                scan.completeness
            },
        };
        decide(&seen, self.limit)
    }

    /// Allows what the scan found, and some more. Called once, so that later commands cannot grow further.
    fn raise(&mut self, scan: &DiskScan) {
        let own = scan.own.minus(self.at_start);
        // What this scan missed, such as an unreadable folder, a later one may find.
        let found = if own.exceeds(self.limit) {
            own
        } else {
            scan.file_system.minus(self.baseline)
        };
        let allowed = found.plus(CLEANUP_ALLOWANCE);
        self.limit.bytes = self.limit.bytes.max(allowed.bytes);
        self.limit.inodes = self.limit.inodes.max(allowed.inodes);
        let used_up = DiskUsage::from(self.limit).minus(CLEANUP_ALLOWANCE);
        self.baseline = scan.file_system.minus(used_up);
    }
}

impl DiskWatcher {
    /// As long as filling the rest of the limit takes at least. A fixed interval would let each of many
    /// short commands write for its whole length, although the limit is already exceeded.
    fn poll_interval(&self, bounds: &DiskBounds) -> Duration {
        let growth = self.last_polled.minus(bounds.baseline);
        let left = DiskUsage::from(bounds.limit).minus(growth);
        let seconds = (left.bytes as f64 / FASTEST_GROWTH.bytes as f64)
            .min(left.inodes as f64 / FASTEST_GROWTH.inodes as f64);
        Duration::from_secs_f64(seconds).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
    }

    fn due_scan(&mut self, bounds: &DiskBounds) -> Option<StopPolicy> {
        let used = file_system_usage(&self.root)?;
        self.freed = self.freed.plus(self.last_polled.minus(used));
        self.last_polled = used;
        let since = self.last_scan.elapsed();
        let DiskBounds {
            limit, baseline, ..
        } = *bounds;
        if used.minus(baseline).exceeds(limit) {
            // Processes are stopped for at most half of their time.
            return (since >= self.stop_cost).then_some(StopPolicy::WhileCounting);
        }
        let may_hide = used.plus(self.freed).minus(baseline).exceeds(limit);
        let is_due =
            may_hide || since >= FULL_SCAN_INTERVAL.max(self.scan_cost * SCAN_DUTY_DIVISOR);
        is_due.then_some(StopPolicy::Never)
    }

    async fn scan(
        &mut self,
        guest: &Guest,
        bounds: &DiskBounds,
        stopping: StopPolicy,
    ) -> DiskVerdict {
        let began = Instant::now();
        let first = first_stop_policy(guest, stopping);
        let (mut scan, mut verdict) = count(guest, &self.root, first, *bounds).await;
        if stopping == StopPolicy::WhileCounting {
            if verdict == DiskVerdict::Unexplained {
                (scan, verdict) = count(guest, &self.root, stopping, *bounds).await;
            }
            self.inconclusive_scans = match verdict {
                DiskVerdict::Inconclusive => self.inconclusive_scans + 1,
                _ => 0,
            };
            if self.inconclusive_scans > MAX_INCONCLUSIVE_SCANS {
                verdict = DiskVerdict::Exceeded;
            }
        }
        self.last_scan = Instant::now();
        self.scan_cost = self.last_scan - began;
        self.stop_cost = match stopping {
            StopPolicy::Never => Duration::ZERO,
            StopPolicy::WhileCounting => self.scan_cost,
        };
        // A start may have moved the baseline meanwhile.
        if let Some(mut bounds) = guest.disk_limit.bounds.get() {
            self.settle(&mut bounds, &scan, verdict);
            guest.disk_limit.bounds.set(Some(bounds));
        }
        verdict
    }

    /// Updates the bounds from a scan and its verdict.
    fn settle(&mut self, bounds: &mut DiskBounds, scan: &DiskScan, verdict: DiskVerdict) {
        let own = scan.own.minus(bounds.at_start);
        match verdict {
            DiskVerdict::Exceeded | DiskVerdict::Inconclusive | DiskVerdict::Unexplained => {}
            // Processes outside may have freed space, so the baseline can only go down.
            DiskVerdict::Within => {
                bounds.baseline = bounds.baseline.at_most(scan.file_system.minus(own));
                self.freed = DiskUsage::default();
            }
            DiskVerdict::GrownByOthers => {
                bounds.baseline = scan.file_system.minus(own);
                self.freed = DiskUsage::default();
            }
        }
    }
}

/// Scans on a worker.
async fn count(
    guest: &Guest,
    root: &Path,
    stopping: StopPolicy,
    bounds: DiskBounds,
) -> (DiskScan, DiskVerdict) {
    let root = root.to_owned();
    let is_linux = guest.settings.is_linux;
    let work = move || DiskScan::take(&root, is_linux, stopping, &bounds);
    guest.workers.run(work).await
}

/// gVisor sends SIGHUP to a process group if one of its processes ends while another is stopped. So on
/// gVisor the guest first scans without stopping, and stops processes only if that scan does not explain
/// the growth.
fn first_stop_policy(guest: &Guest, wanted: StopPolicy) -> StopPolicy {
    if guest.settings.is_linux {
        wanted
    } else {
        StopPolicy::Never
    }
}

/// Counts a few files on the current thread, and the remaining ones on a worker.
async fn usage_at_start(guest: &Guest, root: &Path) -> DiskUsage {
    const MAX_INLINE_FILES: usize = 64;
    let mut scan = FolderScan::new(root);
    if scan.advance(MAX_INLINE_FILES) {
        return scan.usage;
    }
    let rest = move || {
        scan.advance(usize::MAX);
        scan.usage
    };
    guest.workers.run(rest).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopPolicy {
    Never,
    WhileCounting,
}

/// The result of one scan.
struct DiskScan {
    file_system: DiskUsage,
    /// Files in the folder, and removed files that processes hold open.
    own: DiskUsage,
    completeness: ScanCompleteness,
}

impl DiskScan {
    /// Leaves the processes stopped if the limit is exceeded: the caller kills them.
    fn take(
        root: &Path,
        is_linux: bool,
        stopping: StopPolicy,
        bounds: &DiskBounds,
    ) -> (Self, DiskVerdict) {
        let frozen = match stopping {
            StopPolicy::Never => None,
            StopPolicy::WhileCounting => Some(FrozenProcesses::stop_all(is_linux)),
        };
        let mut folder = FolderScan::new(root);
        folder.advance(usize::MAX);
        let held = holders::count_held_files(root, is_linux);
        let scan = Self {
            // Read last, so that everything in `own` is also in this number.
            file_system: file_system_usage(root).unwrap_or_default(),
            own: folder.usage.plus(held.usage),
            completeness: match frozen.as_ref().map(FrozenProcesses::completeness) {
                None => ScanCompleteness::Moving,
                Some(ScanCompleteness::Complete) => folder.completeness.max(held.completeness),
                Some(incomplete) => incomplete,
            },
        };
        let verdict = bounds.verdict(&scan);
        if let Some(frozen) = frozen
            && verdict == DiskVerdict::Exceeded
        {
            frozen.leave_stopped();
        }
        (scan, verdict)
    }
}
