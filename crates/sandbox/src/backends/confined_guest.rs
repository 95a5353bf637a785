//! The host's side of a guest behind an external engine's walls: sends it its confinement, and
//! stores the guest as a file for engines that execute files.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use walls::plan::{self, Confinement, LandlockStatus, SetupFailure};

use crate::guest_program::GUEST_PROGRAM;

/// Path of the guest inside.
pub(crate) const GUEST_PATH: &str = "/.hotcell/guest";

/// Why a guest could not be confined.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    #[error("cannot talk to the guest")]
    Link(#[from] io::Error),
    #[error("the guest cannot confine itself")]
    Refused(#[from] SetupFailure),
}

/// Makes the guest at the other end confine itself. Must be the first exchange on the link.
pub(crate) async fn confine(
    link: &mut UnixStream,
    confinement: &Confinement,
) -> Result<Option<LandlockStatus>, ConfineError> {
    let mut message = Vec::new();
    plan::send(&mut message, confinement)?;
    link.write_all(&message).await?;
    let length = link.read_u32_le().await?;
    // A valid answer is a step's name and a number.
    const MAX_ANSWER_BYTES: u32 = 64 * 1024;
    if length > MAX_ANSWER_BYTES {
        return Err(ConfineError::Link(io::ErrorKind::InvalidData.into()));
    }
    let mut answer = length.to_le_bytes().to_vec();
    answer.resize(4 + length as usize, 0);
    link.read_exact(&mut answer[4..]).await?;
    let outcome: Result<Option<LandlockStatus>, SetupFailure> = plan::receive(&answer[..])?;
    Ok(outcome?)
}

/// The guest as a complete file in the cache that belongs to this program; created if missing.
pub(crate) fn guest_file(cache: &Path) -> io::Result<PathBuf> {
    let folder = own_folder(&cache.join("guest"))?;
    let file = folder.join(format!("hotcell-guest-{}", guest_digest()));
    if fs::metadata(&file).is_ok_and(|found| found.len() == GUEST_PROGRAM.len() as u64) {
        return Ok(file);
    }
    // Another thread may be making it too. The last rename wins, with the same content.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let made = folder.join(format!(
        ".{}-{number}-{}",
        std::process::id(),
        guest_digest()
    ));
    let _ = fs::remove_file(&made);
    let mut writing = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o555)
        .open(&made)?;
    writing.write_all(GUEST_PROGRAM)?;
    writing.sync_all()?;
    fs::rename(&made, &file)?;
    Ok(file)
}

/// Identifies a build of the guest.
pub(crate) fn guest_digest() -> String {
    use std::sync::OnceLock;
    static DIGEST: OnceLock<String> = OnceLock::new();
    DIGEST
        .get_or_init(|| {
            use sha2::Digest;
            let digest = sha2::Sha256::digest(GUEST_PROGRAM);
            hex::encode(&digest[..12])
        })
        .clone()
}

/// A folder that belongs to this user and that no other user can write to; created if missing.
/// Others may traverse it, because a container's user has to.
pub(crate) fn own_folder(folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let found = fs::symlink_metadata(folder)?;
    let is_own = found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw();
    if !is_own {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("`{}` belongs to somebody else", folder.display()),
        ));
    }
    if found.mode() & 0o022 != 0 {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(folder.to_owned())
}
