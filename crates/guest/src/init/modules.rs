//! Loads the kernel modules of the initial file system, in the order of their names. A kernel with all
//! drivers built in comes with none.

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::{InitContext, InitResult};

/// The host prefixes each name with a number, so that the order of names is the order of loading.
const MODULE_DIR: &str = "/modules";

pub(super) fn load_all() -> InitResult<()> {
    let Ok(entries) = fs::read_dir(MODULE_DIR) else {
        return Ok(());
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        load_one(&file)?;
        // Frees memory: the initial file system is in memory.
        let _ = fs::remove_file(&file);
    }
    Ok(())
}

fn load_one(path: &Path) -> InitResult<()> {
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
        // Already built into this kernel.
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(error) => Err(error).at(step()),
    }
}
