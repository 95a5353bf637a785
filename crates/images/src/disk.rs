//! Disk images: a root folder as a read-only file system in one file, for walls that are virtual machines.
//! They are made once per content and then cached. The folder is never changed.
//!
//! The file system is uncompressed erofs if `mkfs.erofs` is installed. It takes a third of the time of the
//! others to make, and the machine's processor, which may be emulated, has nothing to decompress.
//! Otherwise it is uncompressed squashfs, or ext4. The file's extension names the file system.
//!
//! Entry points: [`build_disk`], [`build_disk_with`].

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::digest::Digest;
use crate::error::ImageError;
use crate::listing::{self, TreeListing};
use crate::programs::HostPrograms;

/// Part of the cache key. Increase it when disks are made differently, so that old ones are replaced.
const DISK_VERSION: u32 = 1;

/// The extension of a file that is still being written.
const PARTIAL_EXTENSION: &str = "part";

/// The file systems, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskFormat {
    Erofs,
    Squashfs,
    Ext4,
}

impl DiskFormat {
    const ALL: [Self; 3] = [Self::Erofs, Self::Squashfs, Self::Ext4];

    fn name(self) -> &'static str {
        match self {
            Self::Erofs => "erofs",
            Self::Squashfs => "squashfs",
            Self::Ext4 => "ext4",
        }
    }

    fn maker(self) -> &'static str {
        match self {
            Self::Erofs => "mkfs.erofs",
            Self::Squashfs => "mksquashfs",
            Self::Ext4 => "mkfs.ext4",
        }
    }
}

/// Makes a read-only disk image of a root folder, in which everything belongs to root, or finds it in the
/// cache.
///
/// The cache key is the image's digest. For a plain folder it is a digest of its listing (names, modes,
/// sizes and times of everything in it), so that a change makes a new disk. The file's extension names
/// the file system: `.erofs`, `.squashfs` or `.ext4`.
///
/// # Errors
/// If no program that makes file systems is installed, or if it fails.
pub fn build_disk(
    cache: &Path,
    root: &Path,
    digest: Option<&Digest>,
) -> Result<PathBuf, ImageError> {
    build_disk_with(&HostPrograms::default(), cache, root, digest)
}

/// [`build_disk`], with programs from given folders.
pub fn build_disk_with(
    programs: &HostPrograms,
    cache: &Path,
    root: &Path,
    digest: Option<&Digest>,
) -> Result<PathBuf, ImageError> {
    if !root.is_dir() {
        return Err(ImageError::NotAFolder(root.to_owned()));
    }
    let look = || {
        listing::list(root).map_err(|source| ImageError::ReadTree {
            path: root.to_owned(),
            source,
        })
    };
    let mut seen = None;
    let key = match digest {
        Some(digest) => digest.hex().to_owned(),
        None => {
            let listing = look()?;
            let key = format!("folder-{}", listing.digest.hex());
            seen = Some(listing);
            key
        }
    };
    let finished =
        |format: DiskFormat| cache.join(format!("{key}-{DISK_VERSION}.{}", format.name()));
    let is_there = |path: &PathBuf| path.is_file();
    if let Some(path) = DiskFormat::ALL.map(finished).into_iter().find(is_there) {
        return Ok(path);
    }
    let written = |source| ImageError::Write {
        path: cache.to_owned(),
        source,
    };
    fs::create_dir_all(cache).map_err(written)?;
    // One at a time: a second caller that wants the same disk waits and then finds it.
    let lock = File::create(cache.join("lock")).map_err(written)?;
    lock.lock().map_err(written)?;
    if let Some(path) = DiskFormat::ALL.map(finished).into_iter().find(is_there) {
        return Ok(path);
    }
    // The lock is held, so unfinished files were left by processes that died.
    remove_partial_files(cache).map_err(written)?;
    let (format, maker) = DiskFormat::ALL
        .into_iter()
        .find_map(|format| Some((format, programs.find(format.maker())?)))
        .ok_or(ImageError::NoDiskMaker)?;
    let draft = cache.join(format!("{key}.{PARTIAL_EXTENSION}"));
    let listing = match (format, seen) {
        (DiskFormat::Ext4, None) => Some(look()?),
        (_, seen) => seen,
    };
    let command = command(format, &maker, programs, root, &draft, listing.as_ref());
    let made = run_mkfs(command, format.maker(), root).and_then(|()| {
        let target = finished(format);
        publish_disk(&draft, &target).map_err(written)?;
        Ok(target)
    });
    if made.is_err() {
        let _ = fs::remove_file(&draft);
    }
    made
}

fn command(
    format: DiskFormat,
    maker: &Path,
    programs: &HostPrograms,
    root: &Path,
    draft: &Path,
    listing: Option<&TreeListing>,
) -> Command {
    let mut command = Command::new(maker);
    match format {
        // Extended attributes are left out: `security.capability` grants rights, as a setuid bit does.
        // Times are kept: compiled Python and build systems depend on them.
        DiskFormat::Erofs => {
            command.args(["--quiet", "--all-root", "--preserve-mtime", "-x-1"]);
            command.args([draft, root]);
        }
        DiskFormat::Squashfs => {
            command.args([root, draft]);
            command.args([
                "-all-root",
                "-no-xattrs",
                "-no-progress",
                "-quiet",
                "-noappend",
            ]);
            command.args(["-noI", "-noD", "-noF", "-noX"]);
        }
        DiskFormat::Ext4 => {
            let (bytes, entries) =
                listing.map_or((0, 0), |listing| (listing.bytes, listing.entries));
            let inodes = entries + 64;
            // 256 bytes for each inode, a block for each folder, and a margin for the file system itself.
            let kilobytes = (bytes + inodes * (256 + 4096)) / 1024 * 21 / 20 + 16 * 1024;
            if !nix::unistd::geteuid().is_root()
                && let Some(unshare) = programs.find("unshare")
            {
                // In the user namespace the caller and their files belong to root.
                command = Command::new(unshare);
                command.args(["--user", "--map-root-user"]).arg(maker);
            }
            command.args(["-q", "-F", "-m", "0", "-O", "^has_journal", "-E"]);
            command.arg("root_owner=0:0,lazy_itable_init=0");
            command.arg("-N").arg(inodes.to_string());
            command.arg("-d").args([root, draft]);
            command.arg(format!("{kilobytes}k"));
        }
    }
    command
}

fn run_mkfs(mut command: Command, maker: &'static str, root: &Path) -> Result<(), ImageError> {
    let output = command
        .stdin(Stdio::null())
        .env_clear()
        .output()
        .map_err(|source| ImageError::Start {
            program: maker,
            source,
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ImageError::MakeDisk {
        maker,
        root: root.to_owned(),
        why: last_line(&said)
            .unwrap_or(&output.status.to_string())
            .to_owned(),
    })
}

pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty())
}

fn publish_disk(draft: &Path, target: &Path) -> io::Result<()> {
    let file = File::open(draft)?;
    // The virtual machine may run as another user, so the file is readable whatever the umask is.
    file.set_permissions(fs::Permissions::from_mode(0o644))?;
    file.sync_all()?;
    fs::rename(draft, target)
}

fn remove_partial_files(cache: &Path) -> io::Result<()> {
    for entry in fs::read_dir(cache)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == PARTIAL_EXTENSION) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
