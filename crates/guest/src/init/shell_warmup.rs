//! Runs a shell once before the snapshot, to warm up the kernel. The first process start is the slowest:
//! the kernel patches its code, allocates its structures and reads files. Restored machines need not repeat
//! that.
//!
//! Leaves no process or file behind. A failure is ignored.

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, chdir, chroot, execv, fork};

use super::IMAGE_MOUNT;

/// Must be called in a process with a single thread.
pub(super) fn run_shell_once() {
    // SAFETY: this process has one thread, and the child never returns from this function.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let run = || {
                chroot(IMAGE_MOUNT)?;
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
