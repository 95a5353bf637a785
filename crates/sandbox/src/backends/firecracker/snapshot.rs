//! Cached snapshots of machines that have booted and wait: one for each combination of kernel,
//! initramfs, disk, size, Firecracker release and host. Each has two files: the device state, and
//! the memory, which all machines started from it map copy-on-write.
//!
//! The content of these files is executed, so they belong to this user alone and are read-only, and
//! Firecracker gets them by links to the files, never by their folder. Entry type: [`FirecrackerSnapshots`].

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use walls::cgroups::is_abandoned;

use crate::backends::confined_guest::own_folder;
use crate::backends::machine::key;
use crate::backends::machine::size::MachineSize;

/// Names of the two files.
pub(super) const STATE_FILE: &str = "state";
pub(super) const MEMORY_FILE: &str = "memory";

/// Number of snapshots to keep. If there are more, the oldest are removed, since each contains the
/// whole memory of a machine.
const MAX_SNAPSHOTS: usize = 8;

/// Everything that must match for a snapshot to be usable.
#[derive(Debug, Clone)]
pub(super) struct SnapshotIdentity<'a> {
    pub(super) kernel: &'a str,
    pub(super) initramfs: &'a str,
    /// The fingerprint of the disk file.
    pub(super) disk: &'a str,
    pub(super) size: MachineSize,
    /// Firecracker's version: it refuses snapshots of another release.
    pub(super) version: &'a str,
    /// Kernel and processor of the host, which are part of the state.
    pub(super) host: &'a str,
    /// The kernel command line.
    pub(super) boot_args: &'a str,
}

impl SnapshotIdentity<'_> {
    pub(super) fn key(&self) -> String {
        key(&[
            self.kernel.to_owned(),
            self.initramfs.to_owned(),
            self.disk.to_owned(),
            format!("{} {}", self.size.memory, self.size.processors),
            self.version.to_owned(),
            self.host.to_owned(),
            self.boot_args.to_owned(),
        ])
    }
}

/// The folder of snapshots.
#[derive(Debug, Clone)]
pub(super) struct FirecrackerSnapshots {
    folder: PathBuf,
}

/// The files of a complete snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirecrackerSnapshot {
    pub(super) state: PathBuf,
    pub(super) memory: PathBuf,
}

impl FirecrackerSnapshots {
    pub(super) fn open(cache: &Path) -> io::Result<Self> {
        let folder = own_folder(&cache.join("firecracker").join("snapshots"))?;
        Ok(Self { folder })
    }

    /// Finds a snapshot with complete memory.
    pub(super) fn find(&self, key: &str, size: MachineSize) -> Option<FirecrackerSnapshot> {
        let folder = self.folder.join(key);
        let snapshot = FirecrackerSnapshot {
            state: folder.join(STATE_FILE),
            memory: folder.join(MEMORY_FILE),
        };
        let is_own = |path: &Path| {
            fs::symlink_metadata(path).is_ok_and(|found| {
                let own = nix::unistd::geteuid().as_raw();
                found.is_file() && found.uid() == own && found.mode() & 0o222 == 0
            })
        };
        let length = fs::metadata(&snapshot.memory).ok()?.len();
        let is_whole = length == size.memory && is_own(&snapshot.state) && is_own(&snapshot.memory);
        is_whole.then_some(snapshot)
    }

    /// Moves the files that Firecracker has just made into the cache. If another process was
    /// faster, its snapshot is kept and this one is removed.
    pub(super) fn publish(
        &self,
        key: &str,
        draft: &str,
        made: &FirecrackerSnapshot,
    ) -> io::Result<()> {
        let folder = self.folder.join(format!(".{draft}"));
        fs::create_dir(&folder)?;
        let taken = (|| {
            for (from, name) in [(&made.state, STATE_FILE), (&made.memory, MEMORY_FILE)] {
                if !fs::symlink_metadata(from)?.is_file() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let to = folder.join(name);
                fs::rename(from, &to)?;
                let owner = nix::unistd::geteuid();
                nix::unistd::chown(&to, Some(owner), Some(nix::unistd::getegid()))?;
                fs::set_permissions(&to, fs::Permissions::from_mode(0o444))?;
                fs::File::open(&to)?.sync_all()?;
            }
            fs::rename(&folder, self.folder.join(key))
        })();
        match taken {
            Err(error) if exists_already(&error) => {
                let _ = fs::remove_dir_all(&folder);
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
            Ok(()) => {
                self.make_room();
                Ok(())
            }
        }
    }

    /// Removes a snapshot that Firecracker refused to load.
    pub(super) fn forget(&self, key: &str) {
        let _ = fs::remove_dir_all(self.folder.join(key));
    }

    /// Removes unfinished snapshots of dead processes, and the oldest ones over the limit. Running
    /// machines keep the memory of a removed snapshot until they end.
    pub(super) fn make_room(&self) {
        let mut all: Vec<(std::time::SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            match name.to_str().and_then(|name| name.strip_prefix('.')) {
                Some(draft) if is_abandoned(draft) => {
                    let _ = fs::remove_dir_all(entry.path());
                }
                Some(_) => {}
                None => {
                    let made = entry.metadata().and_then(|found| found.modified());
                    all.push((made.unwrap_or(std::time::UNIX_EPOCH), entry.path()));
                }
            }
        }
        all.sort();
        let excess = all.len().saturating_sub(MAX_SNAPSHOTS);
        for (_, folder) in all.drain(..excess) {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn exists_already(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: MachineSize = MachineSize {
        memory: 4,
        processors: 1,
    };

    fn make(folder: &Path, memory: &str) -> FirecrackerSnapshot {
        let made = FirecrackerSnapshot {
            state: folder.join("made-state"),
            memory: folder.join("made-memory"),
        };
        fs::write(&made.state, "s").unwrap();
        fs::write(&made.memory, memory).unwrap();
        made
    }

    #[test]
    fn a_snapshot_is_found_whole_and_read_only_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let snapshots = FirecrackerSnapshots::open(place.path()).unwrap();
        assert_eq!(snapshots.find("k", SIZE), None);
        let made = make(place.path(), "1234");
        snapshots.publish("k", "one", &made).unwrap();
        let found = snapshots.find("k", SIZE).unwrap();
        assert_eq!(fs::read_to_string(&found.memory).unwrap(), "1234");
        assert!(!made.memory.exists());
        // A second snapshot with the same key changes nothing.
        snapshots
            .publish("k", "two", &make(place.path(), "5678"))
            .unwrap();
        assert_eq!(fs::read_to_string(&found.memory).unwrap(), "1234");
        let larger = MachineSize { memory: 5, ..SIZE };
        assert_eq!(snapshots.find("k", larger), None);
        fs::set_permissions(&found.state, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(snapshots.find("k", SIZE), None);
        snapshots.forget("k");
        assert_eq!(snapshots.find("k", SIZE), None);
        let left: Vec<_> = fs::read_dir(&snapshots.folder).unwrap().collect();
        assert_eq!(left.len(), 0, "{left:?}");
    }

    #[test]
    fn a_link_is_no_snapshot() {
        let place = tempfile::tempdir().unwrap();
        let snapshots = FirecrackerSnapshots::open(place.path()).unwrap();
        let made = make(place.path(), "1234");
        fs::remove_file(&made.state).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &made.state).unwrap();
        assert!(snapshots.publish("k", "one", &made).is_err());
        assert_eq!(snapshots.find("k", SIZE), None);
    }

    #[test]
    fn the_oldest_make_room() {
        let place = tempfile::tempdir().unwrap();
        let snapshots = FirecrackerSnapshots::open(place.path()).unwrap();
        for number in 0..MAX_SNAPSHOTS + 3 {
            let made = make(place.path(), "1234");
            let key = format!("{number:02}");
            snapshots
                .publish(&key, &format!("draft{key}"), &made)
                .unwrap();
            let when = std::time::UNIX_EPOCH + std::time::Duration::from_secs(number as u64);
            let folder = fs::File::open(snapshots.folder.join(&key)).unwrap();
            folder.set_modified(when).unwrap();
        }
        snapshots.make_room();
        assert_eq!(snapshots.find("02", SIZE), None);
        assert!(snapshots.find("10", SIZE).is_some());
    }

    #[test]
    fn anything_else_is_another_snapshot() {
        let one = SnapshotIdentity {
            kernel: "k",
            initramfs: "i",
            disk: "d",
            size: SIZE,
            version: "1.13.1",
            host: "h",
            boot_args: "b",
        };
        let others = [
            SnapshotIdentity {
                kernel: "x",
                ..one.clone()
            },
            SnapshotIdentity {
                initramfs: "x",
                ..one.clone()
            },
            SnapshotIdentity {
                disk: "x",
                ..one.clone()
            },
            SnapshotIdentity {
                version: "1.14.0",
                ..one.clone()
            },
            SnapshotIdentity {
                host: "x",
                ..one.clone()
            },
            SnapshotIdentity {
                boot_args: "x",
                ..one.clone()
            },
            SnapshotIdentity {
                size: MachineSize { memory: 8, ..SIZE },
                ..one.clone()
            },
        ];
        for other in others {
            assert_ne!(other.key(), one.key(), "{other:?}");
        }
    }
}
