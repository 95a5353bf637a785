//! The guest program, embedded as bytes and as an executable file.
//!
//! It is written to a sealed memory file once per process: it is never on disk, cannot be modified,
//! and is in memory once for all sandboxes.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The statically linked guest.
pub static GUEST_PROGRAM: &[u8] = include_bytes!(env!("HOTCELL_GUEST"));

static SEALED_FILE: OnceLock<Result<OwnedFd, io::ErrorKind>> = OnceLock::new();

/// A command that starts the guest program in one of its roles, with an empty environment.
pub(crate) fn command(role: &str) -> io::Result<Command> {
    let program = SEALED_FILE.get_or_init(|| seal().map_err(|error| error.kind()));
    let program = program.as_ref().map_err(|kind| io::Error::from(*kind))?;
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command
        .arg0(format!("hotcell-{role}"))
        .arg(role)
        .env_clear();
    Ok(command)
}

fn seal() -> io::Result<OwnedFd> {
    /// Marks the file as executable. Older kernels do not know this flag.
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = memfd_create("hotcell-guest", flags | MFD_EXEC)
        .or_else(|_| memfd_create("hotcell-guest", flags))?;
    let mut file = File::from(file);
    file.write_all(GUEST_PROGRAM)?;
    add_seals(&file)?;
    Ok(file.into())
}

/// Seals the file. The kernel refuses with `EBUSY` while it holds one of the file's pages, for example to
/// move it, so that is retried.
fn add_seals(file: &File) -> io::Result<()> {
    const MAX_ATTEMPTS: u32 = 50;
    const RETRY_DELAY: Duration = Duration::from_millis(10);
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    let mut attempt = 1;
    loop {
        match fcntl(file, FcntlArg::F_ADD_SEALS(seals)) {
            Err(Errno::EBUSY) if attempt < MAX_ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(RETRY_DELAY);
            }
            outcome => return outcome.map(drop).map_err(io::Error::from),
        }
    }
}
