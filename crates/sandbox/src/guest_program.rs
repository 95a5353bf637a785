//! The guest, as bytes in this program and as something that can be executed.
//!
//! Executing needs a file. A copy that only this user can have written is kept in a cache
//! folder, if the edge names one: then a start copies nothing. Otherwise, and whenever that copy
//! is not exactly as it should be, the bytes go into a sealed memory file, once per process.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The statically linked guest.
pub static GUEST: &[u8] = include_bytes!(env!("HOTCELL_GUEST"));

/// Names this very guest among others in the cache.
const FINGERPRINT: &str = env!("HOTCELL_GUEST_FINGERPRINT");

static PROGRAM: OnceLock<Result<OwnedFd, io::ErrorKind>> = OnceLock::new();

/// Uses the copy in this folder of the user's from now on, if there is one and it is whole.
pub(crate) fn use_cache(folder: &Path) {
    if let Ok(program) = open_trusted(&copy_in(folder)) {
        let _ = PROGRAM.set(Ok(program));
    }
}

fn copy_in(folder: &Path) -> PathBuf {
    folder.join(format!("guest-{FINGERPRINT}"))
}

/// A command that starts the guest program in one of its roles, with an empty environment.
pub(crate) fn command(role: &str) -> io::Result<Command> {
    let program = PROGRAM.get_or_init(|| seal().map_err(|error| error.kind()));
    let program = program.as_ref().map_err(|kind| io::Error::from(*kind))?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg(role).env_clear();
    Ok(command)
}

/// Leaves a copy for later processes, if there is none.
pub fn fill_cache(folder: &Path) -> io::Result<()> {
    let path = copy_in(folder);
    if open_trusted(&path).is_ok() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let aside = folder.join(format!(".guest-{FINGERPRINT}-{}", std::process::id()));
    let written = write_program(&aside).and_then(|()| fs::rename(&aside, &path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

fn write_program(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(path)?;
    file.write_all(GUEST)?;
    file.set_permissions(Permissions::from_mode(0o500))?;
    file.sync_all()
}

/// Opens the copy if nobody but this user can have written it and it is whole.
fn open_trusted(path: &Path) -> io::Result<OwnedFd> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let metadata = file.metadata()?;
    let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
    let untouchable = metadata.mode() & 0o7777 == 0o500 && metadata.nlink() == 1;
    match metadata.is_file() && ours && untouchable && metadata.len() == GUEST.len() as u64 {
        true => Ok(file.into()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn seal() -> io::Result<OwnedFd> {
    /// Says that the file is meant to be executed; older kernels do not know it.
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create("hotcell-guest", flags | MFD_EXEC)
        .or_else(|_| memfd_create("hotcell-guest", flags))?;
    let mut file = File::from(file);
    file.write_all(GUEST)?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file.into())
}
