//! A rehearsal before the snapshot: a shell is run. What a kernel does for the first time costs most:
//! it patches its own code, makes its records, reads its files. No restored machine has to do any
//! of that again.
//!
//! Nothing of it is left, and its failure is none.

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, chdir, chroot, execv, fork};

use super::IMAGE;

/// Must be called in a process with a single thread.
pub(super) fn rehearse() {
    // SAFETY: this process has one thread, and the child leaves this function only by its end.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let run = || {
                chroot(IMAGE)?;
                chdir("/")?;
                execv(c"/bin/bash", &[c"bash", c"-c", c"/bin/true; /bin/ls /bin"])
            };
            let _ = run();
            std::process::exit(1)
        }
        Ok(ForkResult::Parent { child }) => {
            let _ = waitpid(child, None);
        }
        Err(_) => {}
    }
}
