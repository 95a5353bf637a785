//! Finds sockets in a workspace before a start: where sandbox and host share a kernel, commands can
//! connect to the programs that listen there, even without a network.
//!
//! The search is limited in entries and time, starts with the nearest folders, and follows no link.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cli_error::warn;

const MAX_SCANNED_ENTRIES: usize = 5000;
const SCAN_TIMEOUT: Duration = Duration::from_millis(20);
/// Maximum sockets named in a warning.
const MAX_NAMED_SOCKETS: usize = 3;

/// Warns about sockets in the workspace.
pub(super) fn warn_about_sockets(workspace: &Path) {
    let found = find_sockets(workspace, Instant::now() + SCAN_TIMEOUT);
    let Some(warning) = warning(&found) else {
        return;
    };
    warn(warning);
}

fn warning(found: &[PathBuf]) -> Option<String> {
    let names: Vec<String> = found
        .iter()
        .take(MAX_NAMED_SOCKETS)
        .map(|path| format!("`{}`", path.display()))
        .collect();
    let more = match found.len().saturating_sub(MAX_NAMED_SOCKETS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "the workspace has sockets: {}{more}\n\
             hint: commands can connect to the programs that listen there; move them out of the \
             workspace, or use `--require kernel`",
            names.join(", ")
        )
    })
}

/// Sockets below a folder, as relative paths.
fn find_sockets(workspace: &Path, give_up: Instant) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = VecDeque::from([workspace.to_owned()]);
    let mut left = MAX_SCANNED_ENTRIES;
    while let Some(folder) = folders.pop_front() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if left == 0 || Instant::now() > give_up {
                return found;
            }
            left -= 1;
            // The type of the entry itself: a link is not followed.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_socket() {
                let path = entry.path();
                found.push(path.strip_prefix(workspace).unwrap_or(&path).to_owned());
            } else if kind.is_dir() {
                folders.push_back(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_are_found_near_ones_first_and_links_lead_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        let _listeners = [
            inside.join("a/b/deep"),
            inside.join("near"),
            outside.join("other"),
        ]
        .map(|path| UnixListener::bind(path).unwrap());
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("other"), inside.join("socket-link")).unwrap();
        let give_up = Instant::now() + Duration::from_secs(60);
        let found = find_sockets(&inside, give_up);
        assert_eq!(found, [PathBuf::from("near"), PathBuf::from("a/b/deep")]);
        assert_eq!(warning(&[]), None);
        let many = ["a", "b", "c", "d", "e"].map(PathBuf::from);
        let text = warning(&many).unwrap();
        assert!(
            text.starts_with("the workspace has sockets: `a`, `b`, `c` and 2 more\n"),
            "{text}"
        );
        // The search ends at its deadline.
        for number in 0..=MAX_SCANNED_ENTRIES {
            fs::write(inside.join(number.to_string()), "").unwrap();
        }
        assert!(find_sockets(&inside, give_up).len() <= 2);
        assert_eq!(
            find_sockets(&inside, Instant::now() - Duration::from_secs(1)).len(),
            0
        );
    }
}
