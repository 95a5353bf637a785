//! The root entries for external engines: a folder with generated files, and a list of mounts for
//! everything else.
//!
//! With the host's programs the folder is the root, and everything is mounted into it. With an
//! image the image is the root, and the files of the folder are mounted over it. Mounts nothing
//! itself. Entry point: [`Bundle::make`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use walls::plan::{MountAccess, RootEntry};

use super::confined_guest::{GUEST_PATH, guest_file};
use super::root_entries::root_entries;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};

/// A root and the mounts inside it.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// The root: the image, or a generated folder of this sandbox.
    pub(crate) root: PathBuf,
    pub(crate) mounts: Vec<BundleMount>,
}

/// One mount, without setuid and devices. `/proc`, `/dev`, `/dev/pts` and the like come from the
/// engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BundleMount {
    Bind {
        source: PathBuf,
        target: PathBuf,
        read_only: bool,
    },
    Tmpfs {
        target: PathBuf,
        bytes: u64,
        inodes: u64,
        mode: u32,
    },
}

impl BundleMount {
    pub(crate) fn target(&self) -> &Path {
        match self {
            Self::Bind { target, .. } | Self::Tmpfs { target, .. } => target,
        }
    }
}

impl Bundle {
    /// Fills `folder`, which must be empty and lives as long as the sandbox; `workspace` is mounted
    /// at [`WORKSPACE_PATH`].
    pub(crate) fn make(spec: &SandboxSpec, folder: &Path, workspace: &Path) -> io::Result<Self> {
        let made_up = folder.join("root");
        make_folder(&made_up, 0o755)?;
        let image = match &spec.root {
            RootSpec::Host => None,
            RootSpec::Image(image) => Some(image.clone()),
        };
        let mut mounts = Vec::new();
        for fitting in root_entries(&spec.root, &spec.limits) {
            let own = |target: &Path| made_up.join(target.strip_prefix("/").unwrap_or(target));
            match fitting {
                RootEntry::Folder { target, mode } => make_folder(&own(&target), mode)?,
                RootEntry::Link { target, points_to } => {
                    // Folders that the engine mounts have their own links.
                    if !target.starts_with("/dev") && image.is_none() {
                        make_parents(&own(&target))?;
                        symlink(points_to, own(&target))?;
                    }
                }
                RootEntry::File { target, content } => {
                    write_file(&own(&target), content.as_bytes())?;
                    if image.is_some() {
                        mounts.push(bind(own(&target), target, true));
                    }
                }
                RootEntry::Copy { source, target } => {
                    // Files that this user may not read are left out.
                    if let Ok(content) = fs::read(&source) {
                        write_file(&own(&target), &content)?;
                    }
                }
                RootEntry::Bind {
                    source,
                    target,
                    access,
                    ..
                } => {
                    if access != MountAccess::Device {
                        make_folder(&own(&target), 0o755)?;
                        mounts.push(bind(source, target, access != MountAccess::ReadWrite));
                    }
                }
                RootEntry::SupervisorBind { source, target } => {
                    make_folder(&own(&target), 0o755)?;
                    mounts.push(bind(source, target, true));
                }
                RootEntry::Tmpfs {
                    target,
                    bytes,
                    inodes,
                    mode,
                } => {
                    make_folder(&own(&target), 0o755)?;
                    if target != Path::new("/dev") {
                        mounts.push(BundleMount::Tmpfs {
                            target,
                            bytes,
                            inodes,
                            mode,
                        });
                    }
                }
                RootEntry::Proc { target } | RootEntry::Terminals { target } => {
                    make_folder(&own(&target), 0o755)?;
                }
                // The guest is mounted below, from the cache.
                RootEntry::GuestProgram { .. } | RootEntry::Executable { .. } => {}
            }
        }
        make_folder(&made_up.join(&WORKSPACE_PATH[1..]), 0o755)?;
        make_folder(&made_up.join("sys"), 0o755)?;
        mounts.push(bind(workspace.to_owned(), WORKSPACE_PATH.into(), false));
        let guest = guest_file(&spec.provisions.cache)?;
        write_file(&made_up.join(&GUEST_PATH[1..]), b"")?;
        mounts.push(bind(guest, GUEST_PATH.into(), true));
        Ok(Self {
            root: image.unwrap_or(made_up),
            mounts,
        })
    }
}

fn bind(source: PathBuf, target: PathBuf, read_only: bool) -> BundleMount {
    BundleMount::Bind {
        source,
        target,
        read_only,
    }
}

fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)
}

fn make_parents(path: &Path) -> io::Result<()> {
    path.parent()
        .map_or(Ok(()), |folder| make_folder(folder, 0o755))
}

fn write_file(file: &Path, content: &[u8]) -> io::Result<()> {
    make_parents(file)?;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o644)
        .open(file)?
        .write_all(content)
}
/// A sample for the tests of the engines.
#[cfg(test)]
impl Bundle {
    pub(crate) fn sample() -> Self {
        Self {
            root: "/run/x/root".into(),
            mounts: vec![
                BundleMount::Bind {
                    source: "/usr".into(),
                    target: "/usr".into(),
                    read_only: true,
                },
                BundleMount::Tmpfs {
                    target: "/dev/shm".into(),
                    bytes: 4096,
                    inodes: 9,
                    mode: 0o1777,
                },
                BundleMount::Tmpfs {
                    target: "/tmp".into(),
                    bytes: 8192,
                    inodes: 9,
                    mode: 0o1777,
                },
            ],
        }
    }
}
