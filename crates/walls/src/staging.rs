//! Prepares mounts for a container engine: owners mapped to the sandbox's user, an image under a
//! size-limited overlay. This needs root on the host, or root of a user namespace for an overlay over the
//! user's own files.
//!
//! If this process starts the engine, the mounts are made in a private mount namespace. It disappears with
//! the last process of the engine, so no mount can be left behind. An engine that is already running sees
//! only mounts in the host's namespace; then the caller must unmount them. Mounts only at folders that the
//! caller created, never inside an image. Entry point: [`run`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use crate::plan::{IdMap, MountAccess, SandboxIdentity, SetupStage, receive};
use crate::root::{mount_attributes, open_source};
use crate::supervisor::{SetupContext, SetupResult, mapped_namespace};
use crate::sys;

/// The mounts to make, and their owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingPlan {
    /// Whether to use a private mount namespace.
    pub is_private: bool,
    /// The folder that contains the mounts of all sandboxes. A private namespace unmounts the copies that
    /// it got of them.
    pub folder: PathBuf,
    /// User and group of the sandbox on the host.
    pub owner: (u32, u32),
    pub mounts: Vec<StagedMount>,
}

/// One mount. The target must exist and be of the same file type as the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StagedMount {
    Bind {
        source: PathBuf,
        target: PathBuf,
        access: MountAccess,
        idmap: Option<IdMap>,
    },
    /// A read-only folder with a writable layer in memory on top.
    Overlay {
        lower: PathBuf,
        /// `None`: this process is only root of a user namespace, and owns all files of `lower`.
        idmap: Option<IdMap>,
        target: PathBuf,
        /// An empty folder for the layer.
        layer: PathBuf,
        bytes: u64,
    },
}

/// Reads a [`StagingPlan`], makes the mounts, and executes the program, if there is one. Must be called in
/// a process with a single thread.
pub fn run(plan: OwnedFd, program: &[std::ffi::OsString]) -> ExitCode {
    let staged = receive::<StagingPlan>(File::from(plan))
        .at(SetupStage::Start, "read what to mount")
        .and_then(|staging| stage(&staging));
    let failure = match (staged, program) {
        (Err(failure), _) => failure.to_string(),
        (Ok(()), []) => return ExitCode::SUCCESS,
        (Ok(()), [program, arguments @ ..]) => {
            let error = Command::new(program)
                .args(arguments)
                .stdin(std::process::Stdio::null())
                .exec();
            format!("cannot start `{}`: {error}", program.display())
        }
    };
    let _ = writeln!(io::stderr(), "Error: {failure}");
    ExitCode::FAILURE
}

fn stage(staging: &StagingPlan) -> SetupResult<()> {
    if staging.is_private {
        unshare(CloneFlags::CLONE_NEWNS).at(SetupStage::Namespaces, "make a mount namespace")?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .at(SetupStage::Mounts, "make mounts private")?;
        detach_mounts_below(&staging.folder);
    }
    for one in &staging.mounts {
        match one {
            StagedMount::Bind {
                source,
                target,
                access,
                idmap,
            } => {
                let tree = open_mount(source, *access, *idmap, staging.owner)?;
                attach(&tree, target)?;
            }
            StagedMount::Overlay {
                lower,
                idmap,
                target,
                layer,
                bytes,
            } => {
                let tree = open_mount(lower, MountAccess::ReadOnly, *idmap, staging.owner)?;
                let attributes = match idmap {
                    Some(_) => "",
                    // Without privileges on the host, the overlay can only use `user.*` attributes.
                    None => ",userxattr",
                };
                overlay(&tree, target, layer, *bytes, staging.owner, attributes)?;
            }
        }
    }
    Ok(())
}

/// Detaches the copies of all mounts below a folder, in a new mount namespace.
fn detach_mounts_below(folder: &Path) {
    let below = format!("{}/", folder.display());
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&str> = points.filter(|point| point.starts_with(&below)).collect();
    // Unmount in the reverse order of mounting.
    points.reverse();
    for point in points {
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

fn open_mount(
    source: &Path,
    access: MountAccess,
    idmap: Option<IdMap>,
    owner: (u32, u32),
) -> SetupResult<OwnedFd> {
    let userns = idmap
        .map(|idmap| {
            let identity = SandboxIdentity {
                outside_uid: owner.0,
                outside_gid: owner.1,
                inside_uid: idmap.disk_uid,
                inside_gid: idmap.disk_gid,
                drop_groups: true,
            };
            mapped_namespace(identity, idmap)
        })
        .transpose()?;
    let tree = open_source(source, access)
        .at(SetupStage::Mounts, format!("open `{}`", source.display()))?;
    sys::mount_setattr(&tree, mount_attributes(access), userns.as_ref()).at(
        SetupStage::Mounts,
        format!("map the owner of `{}`", source.display()),
    )?;
    Ok(tree)
}

fn attach(tree: &OwnedFd, target: &Path) -> SetupResult<()> {
    sys::move_mount(tree, target).at(SetupStage::Mounts, format!("mount `{}`", target.display()))
}

fn overlay(
    lower: &OwnedFd,
    target: &Path,
    layer: &Path,
    bytes: u64,
    owner: (u32, u32),
    attributes: &str,
) -> SetupResult<()> {
    const STEP: &str = "lay the overlay over the image";
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = format!(
        "size={bytes},nr_inodes={},mode=755",
        (bytes / 4096).max(1024)
    );
    mount(
        Some("tmpfs"),
        layer,
        Some("tmpfs"),
        flags,
        Some(options.as_str()),
    )
    .at(SetupStage::Mounts, STEP)?;
    let inside = |name: &str| layer.join(name);
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir(inside(name)).at(SetupStage::Mounts, STEP)?;
    }
    // The root of an overlay has the owner of the upper folder.
    chown(inside("upper"), Some(owner.0), Some(owner.1)).at(SetupStage::Mounts, STEP)?;
    attach(lower, &inside("lower"))?;
    let options = format!(
        "lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/work{attributes}",
        layer.display()
    );
    mount(
        Some("overlay"),
        target,
        Some("overlay"),
        flags,
        Some(options.as_str()),
    )
    .at(SetupStage::Mounts, STEP)?;
    // An engine would create a missing `etc` as the host's root, and nothing inside could be mounted there.
    let made = target.join("etc");
    match std::fs::create_dir(&made) {
        Ok(()) => chown(&made, Some(owner.0), Some(owner.1)).at(SetupStage::Mounts, STEP),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).at(SetupStage::Mounts, STEP),
    }
}
