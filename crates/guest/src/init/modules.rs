//! Loads the kernel modules that the host put into the initial file system, in the order of their
//! names; a kernel that has all built in comes with none.

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::{At, Step};

/// As the host lays them out: a number in front says when.
const FOLDER: &str = "/modules";

pub(super) fn load() -> Step<()> {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return Ok(());
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        load_one(&file)?;
        // The initial file system is memory.
        let _ = fs::remove_file(&file);
    }
    Ok(())
}

fn load_one(path: &Path) -> Step<()> {
    let step = || format!("load kernel module `{}`", path.display());
    let file = File::open(path).at(step())?;
    let is_compressed = path.extension().is_some_and(|ending| ending != "ko");
    let flags = if is_compressed {
        // `MODULE_INIT_COMPRESSED_FILE`, which the crate does not know yet.
        ModuleInitFlags::from_bits_retain(4)
    } else {
        ModuleInitFlags::empty()
    };
    match finit_module(&file, c"", flags) {
        // Built into this kernel after all.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error).at(step()),
    }
}
