//! Mounts that a container engine is given as they are: owners mapped to the sandbox's user, an
//! image under a bounded overlay. They need the host's root, or for an overlay of the user's own
//! files the root of a user namespace; nothing else here does.
//!
//! Where the engine is a program that this one starts, all of it happens in a mount namespace of
//! their own, which ends with the last of the engine's processes: nothing can be left behind. An
//! engine that runs already sees only what is mounted for all; then whoever asked takes it down.
//! Mounts at folders that the caller made, never inside an image. Entry point: [`serve`].

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

use crate::plan::{Access, IdMap, Identity, Stage, receive};
use crate::root::{attributes, open_source};
use crate::supervisor::{At, Step, mapped_namespace};
use crate::sys;

/// What to mount, and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// In a mount namespace of its own.
    pub is_private: bool,
    /// Where the mounts of all are: those of others are not taken along.
    pub folder: PathBuf,
    /// The user of the sandbox as the host knows it.
    pub owner: (u32, u32),
    pub mounts: Vec<Staged>,
}

/// One mount. Targets exist, and are of the same kind as what is mounted there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Staged {
    Bind {
        source: PathBuf,
        target: PathBuf,
        access: Access,
        idmap: Option<IdMap>,
    },
    /// A folder that stays as it is, with a layer in memory on top.
    Overlay {
        lower: PathBuf,
        /// Without one this is the root of a user namespace only, and the owner of all of it.
        idmap: Option<IdMap>,
        target: PathBuf,
        /// An empty folder for the layer.
        layer: PathBuf,
        bytes: u64,
    },
}

/// Reads a [`Staging`], mounts, and goes on as the program, if one is named. Must be called in a
/// process with a single thread.
pub fn serve(plan: OwnedFd, program: &[std::ffi::OsString]) -> ExitCode {
    let staged = receive::<Staging>(File::from(plan))
        .at(Stage::Start, "read what to mount")
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

fn stage(staging: &Staging) -> Step<()> {
    if staging.is_private {
        unshare(CloneFlags::CLONE_NEWNS).at(Stage::Namespaces, "make a mount namespace")?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
            .at(Stage::Mounts, "make mounts private")?;
        leave(&staging.folder);
    }
    for one in &staging.mounts {
        match one {
            Staged::Bind {
                source,
                target,
                access,
                idmap,
            } => {
                let tree = open(source, *access, *idmap, staging.owner)?;
                attach(&tree, target)?;
            }
            Staged::Overlay {
                lower,
                idmap,
                target,
                layer,
                bytes,
            } => {
                let tree = open(lower, Access::ReadOnly, *idmap, staging.owner)?;
                let attributes = match idmap {
                    Some(_) => "",
                    // Those of the overlay that an ordinary user may write.
                    None => ",userxattr",
                };
                overlay(&tree, target, layer, *bytes, staging.owner, attributes)?;
            }
        }
    }
    Ok(())
}

/// Lets go of mounts below a folder, of which a new namespace has got copies.
fn leave(folder: &Path) {
    let below = format!("{}/", folder.display());
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&str> = points.filter(|point| point.starts_with(&below)).collect();
    // What was mounted last goes first.
    points.reverse();
    for point in points {
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

fn open(source: &Path, access: Access, idmap: Option<IdMap>, owner: (u32, u32)) -> Step<OwnedFd> {
    let userns = idmap
        .map(|idmap| {
            let identity = Identity {
                outside_uid: owner.0,
                outside_gid: owner.1,
                inside_uid: idmap.disk_uid,
                inside_gid: idmap.disk_gid,
                drop_groups: true,
            };
            mapped_namespace(identity, idmap)
        })
        .transpose()?;
    let tree =
        open_source(source, access).at(Stage::Mounts, format!("open `{}`", source.display()))?;
    sys::mount_setattr(&tree, attributes(access), userns.as_ref()).at(
        Stage::Mounts,
        format!("map the owner of `{}`", source.display()),
    )?;
    Ok(tree)
}

fn attach(tree: &OwnedFd, target: &Path) -> Step<()> {
    sys::move_mount(tree, target).at(Stage::Mounts, format!("mount `{}`", target.display()))
}

fn overlay(
    lower: &OwnedFd,
    target: &Path,
    layer: &Path,
    bytes: u64,
    owner: (u32, u32),
    attributes: &str,
) -> Step<()> {
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
    .at(Stage::Mounts, STEP)?;
    let inside = |name: &str| layer.join(name);
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir(inside(name)).at(Stage::Mounts, STEP)?;
    }
    // The root folder itself has the owner of the upper one.
    chown(inside("upper"), Some(owner.0), Some(owner.1)).at(Stage::Mounts, STEP)?;
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
    .at(Stage::Mounts, STEP)?;
    // An engine makes what is missing as the host's root, into which nobody inside could mount.
    let made = target.join("etc");
    match std::fs::create_dir(&made) {
        Ok(()) => chown(&made, Some(owner.0), Some(owner.1)).at(Stage::Mounts, STEP),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).at(Stage::Mounts, STEP),
    }
}
