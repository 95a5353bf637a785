//! Enforces the memory limit on all processes and in-memory files together, on kernels that cannot:
//! gVisor's. Polls the kernel's counters, and kills everything over the limit. Also tunes the guest's own
//! allocator. Entry points: [`enforce_limit`], [`tune_allocator`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use link::request::GuestLimit;

use crate::session::Guest;

/// Shorter than for the disk, because memory grows faster.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Enforces the limit until the guest ends.
pub(crate) async fn enforce_limit(guest: Rc<Guest>) {
    let Some(limit) = guest.settings.memory else {
        return;
    };
    let Ok(table) = File::open("/proc/meminfo") else {
        return;
    };
    // Larger than the table.
    let mut text = [0; 4096];
    loop {
        // Usage only grows while a process runs, and not before it has run for a moment.
        guest.processes.any().await;
        tokio::time::sleep(POLL_INTERVAL).await;
        let read = table.read_at(&mut text, 0).unwrap_or(0);
        let table = String::from_utf8_lossy(&text[..read]);
        if used(&table).is_some_and(|used| used > limit) {
            guest.processes.kill_all(Some(GuestLimit::Memory));
        }
    }
}

/// Makes the C library keep a few megabytes of freed memory. Every command allocates and frees the same
/// amount, and returning it to the kernel in between costs more than the rest of the work.
pub(crate) fn tune_allocator() {
    // SAFETY: sets two numbers of the allocator, which takes its own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Bytes that only ending a process or removing a file would free. gVisor counts in-memory files as
/// anonymous pages.
fn used(table: &str) -> Option<u64> {
    let line = table
        .lines()
        .find_map(|line| line.strip_prefix("AnonPages:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_is_read_from_the_table() {
        let check = |table: &str, expect| assert_eq!(used(table), expect);
        let table = "MemTotal:        2097152 kB\nAnonPages:          1024 kB\nMapped: 7 kB\n";
        check(table, Some(1 << 20));
        check("MemTotal: 1 kB\n", None);
        check("AnonPages: many kB\n", None);
        check("", None);
    }
}
