//! Keeps all processes and files in memory together below the limit, where the kernel below the
//! guest has no such limit: gVisor's. Over it, everything is killed. Counts nothing itself: it asks
//! the kernel. And what the guest itself takes. Entry points: [`watch`], [`keep_freed`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use link::request::Limit;

use crate::session::Guest;

/// Short: memory grows faster than files.
const EVERY: Duration = Duration::from_millis(20);

/// Watches for as long as the guest lives.
pub(crate) async fn watch(guest: Rc<Guest>) {
    let Some(limit) = guest.settings.memory else {
        return;
    };
    let Ok(table) = File::open("/proc/meminfo") else {
        return;
    };
    // More than the table takes.
    let mut text = [0; 4096];
    loop {
        // Where nothing runs, nothing grows; what has just begun has not grown yet.
        guest.processes.any().await;
        tokio::time::sleep(EVERY).await;
        let read = table.read_at(&mut text, 0).unwrap_or(0);
        let table = String::from_utf8_lossy(&text[..read]);
        if used(&table).is_some_and(|used| used > limit) {
            guest.processes.kill_all(Some(Limit::Memory));
        }
    }
}

/// Has the C library keep what the guest frees for its next use, up to some megabytes: every command
/// takes and frees the same, and giving it back in between costs the kernel more than the rest.
pub(crate) fn keep_freed() {
    // SAFETY: sets two numbers of the allocator, which takes its own lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// Bytes that cannot be had again without ending a process or removing a file. gVisor counts files
/// in memory among the anonymous pages.
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
