//! The initramfs of a machine: the guest as its init, and the kernel modules that it needs. Made
//! once for each guest and kernel, and cached. Entry point: [`initramfs`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::cpio::CpioArchive;
use super::kernel::VmKernel;
use super::{key, modules, stamp};
use crate::backends::confined_guest::guest_digest;
use crate::guest_program::GUEST_PROGRAM;

/// The file, and a key that identifies its content.
#[derive(Debug, Clone)]
pub(crate) struct Initramfs {
    pub(crate) file: PathBuf,
    pub(crate) key: String,
}

/// `more` are modules that a kind of machine needs in addition to the usual ones.
pub(crate) fn initramfs(cache: &Path, kernel: &VmKernel, more: &[&str]) -> io::Result<Initramfs> {
    let listing = kernel
        .modules
        .as_ref()
        .map(|folder| folder.join("modules.dep"));
    let key = key(&[
        guest_digest(),
        listing.as_deref().map(stamp).unwrap_or_default(),
        more.join(" "),
    ]);
    let folder = super::folder(cache)?;
    let file = folder.join(format!("initramfs-{key}"));
    if !file.is_file() {
        let bytes = build(kernel.modules.as_deref(), more)?;
        write_atomically(&folder, &file, &bytes)?;
    }
    Ok(Initramfs { file, key })
}

fn build(folder: Option<&Path>, more: &[&str]) -> io::Result<Vec<u8>> {
    let mut archive = CpioArchive::default();
    for folder in ["dev", "modules"] {
        archive.folder(folder);
    }
    // A program cannot start without these, and the kernel has not mounted its own devices yet.
    archive.character_device("dev/console", 0o600, (5, 1));
    archive.character_device("dev/null", 0o666, (1, 3));
    archive.file("init", 0o755, GUEST_PROGRAM);
    if let Some(folder) = folder {
        let dependencies = fs::read_to_string(folder.join("modules.dep"))?;
        let wanted = [modules::COMMON_MODULES, more].concat();
        let files = modules::load_order(&dependencies, &wanted);
        for (number, file) in files.iter().enumerate() {
            let content = fs::read(folder.join(file))?;
            let name = file.rsplit('/').next().unwrap_or(file);
            archive.file(&format!("modules/{number:02}-{name}"), 0o644, &content);
        }
    }
    Ok(archive.finish())
}

fn write_atomically(folder: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = create_draft(folder)?;
    draft.1.write_all(bytes)?;
    // The monitor may run as another user, so it must be readable whatever the umask.
    draft.1.set_permissions(fs::Permissions::from_mode(0o644))?;
    draft.1.sync_all()?;
    fs::rename(&draft.0, file)
}

/// A temporary file of this process, to be renamed when complete.
fn create_draft(folder: &Path) -> io::Result<(PathBuf, fs::File)> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".draft-{}-{number}", std::process::id()));
    let file = fs::File::create(&path)?;
    Ok((path, file))
}
