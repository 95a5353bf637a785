//! Closes what gVisor's kernel leaves open and Linux does not: unneeded devices, write access to `/dev`, and
//! the world-readable files of process 1 in `/proc`. Process 1 does this before it gives up its privileges.
//! Has no effect outside: all of it belongs to gVisor's kernel. Entry points: [`restrict_dev_and_proc`], [`enter_user_namespace`].

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::lchown;
use std::path::Path;

use libc::c_int;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, getegid, geteuid, getpid, pipe2};

use crate::plan::SetupStage;
use crate::supervisor::{SetupContext, SetupResult};

/// Owner of the files that commands must not change. No process runs as this user. Commands see it as root.
const RESERVED_UID: u32 = 1;

/// The same as behind native walls. gVisor has more.
const NEEDED_DEVICES: &[&str] = &[
    "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
    "urandom", "zero",
];

/// Files of process 1 in `/proc` that every process can read on gVisor.
const MASKED_PROC_ENTRIES: &[&str] = &["auxv", "environ", "fd", "fdinfo", "maps", "smaps", "task"];

/// Must be called before [`enter_user_namespace`], which drops the privileges that this needs.
pub(crate) fn restrict_dev_and_proc() -> SetupResult<()> {
    restrict_devices(Path::new("/dev")).at(SetupStage::Confinement, "restrict `/dev`")?;
    for name in MASKED_PROC_ENTRIES {
        let target = format!("/proc/{}/{name}", getpid());
        let flags =
            MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let options = format!("mode=0000,uid={RESERVED_UID},gid={RESERVED_UID},size=4096");
        match mount(
            Some("none"),
            &*target,
            Some("tmpfs"),
            flags,
            Some(&*options),
        ) {
            // Some versions of gVisor have fewer of these files.
            Err(Errno::ENOENT) => Ok(()),
            outcome => outcome.at(SetupStage::Confinement, format!("mask `{target}`")),
        }?;
    }
    Ok(())
}

fn restrict_devices(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_needed = NEEDED_DEVICES.iter().any(|name| entry.file_name() == *name);
        match (is_needed, entry.file_type()?.is_dir()) {
            (true, _) => lchown(entry.path(), Some(RESERVED_UID), Some(RESERVED_UID)),
            (false, true) => fs::remove_dir_all(entry.path()),
            (false, false) => fs::remove_file(entry.path()),
        }?;
    }
    lchown(folder, Some(RESERVED_UID), Some(RESERVED_UID))
}

/// Enters a user namespace in which this process is user `number`, and root is [`RESERVED_UID`]: the kernel makes
/// root the owner of the `/proc` files of undumpable processes. A child in the old namespace writes the
/// mapping, because that takes privileges there.
pub(crate) fn enter_user_namespace(number: u32) -> SetupResult<()> {
    let step = || format!("map this process to user {number}");
    let (wait, hold) = pipe2(OFlag::O_CLOEXEC).at(SetupStage::Identity, step())?;
    let file = |name: &str| {
        let path = CString::new(format!("/proc/{}/{name}", getpid()));
        path.map_err(io::Error::from)
            .at(SetupStage::Identity, step())
    };
    let text = |outside: u32| format!("0 {RESERVED_UID} 1\n{number} {outside} 1\n");
    let mapping = IdMapWriter {
        pipe_reader: wait.as_raw_fd(),
        pipe_writer: hold.as_raw_fd(),
        files: [
            (file("gid_map")?, text(getegid().as_raw())),
            (file("uid_map")?, text(geteuid().as_raw())),
        ],
    };
    let child = mapping.spawn().at(SetupStage::Identity, step())?;
    let entered = unshare(CloneFlags::CLONE_NEWUSER);
    drop((wait, hold));
    let mapped = match waitpid(child.process, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(WaitStatus::Exited(_, errno)) => Err(Errno::from_raw(errno)),
        Ok(_) => Err(Errno::EIO),
        Err(error) => Err(error),
    };
    entered.and(mapped).at(SetupStage::Identity, step())
}

/// The files that the child writes, and the pipe that it waits on first.
struct IdMapWriter {
    pipe_reader: RawFd,
    pipe_writer: RawFd,
    /// Path and content. Each takes a single write, because the kernel accepts only one.
    files: [(CString, String); 2],
}

/// A process that shares this one's memory (which saves the kernel a copy), with its stack.
struct IdMapProcess {
    process: Pid,
    _stack: Vec<u128>,
}

impl IdMapWriter {
    /// The caller must wait for the process to end before it drops `self` or the result.
    fn spawn(&self) -> io::Result<IdMapProcess> {
        /// Enough for a few system calls in a row.
        const STACK_BYTES: usize = 32 * 1024;
        let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
        // SAFETY: the stack is aligned and large enough for the function, which only makes system calls.
        // The stack and the mapping outlive the process, because the caller waits for it.
        let made = unsafe {
            let end = stack.as_mut_ptr().add(stack.len());
            let mapping = (&raw const *self).cast_mut();
            let flags = libc::CLONE_VM | libc::SIGCHLD;
            libc::clone(write_id_maps, end.cast(), flags, mapping.cast())
        };
        Ok(IdMapProcess {
            process: Pid::from_raw(Errno::result(made)?),
            _stack: stack,
        })
    }
}

/// The child process. Only makes system calls. Its exit code is 0 or the errno of the failure.
extern "C" fn write_id_maps(mapping: *mut libc::c_void) -> c_int {
    // SAFETY: the parent passes a valid pointer, and does not change the mapping meanwhile.
    let mapping = unsafe { &*mapping.cast::<IdMapWriter>() };
    // SAFETY: the descriptors are copies that belong to this process, and every pointer leads to a live
    // value of the given length.
    let write = || unsafe {
        libc::close(mapping.pipe_writer);
        libc::read(mapping.pipe_reader, (&raw mut *&mut [0_u8]).cast(), 1);
        for (file, text) in &mapping.files {
            let file = Errno::result(libc::open(file.as_ptr(), libc::O_WRONLY))?;
            Errno::result(libc::write(file, text.as_ptr().cast(), text.len()))?;
            libc::close(file);
        }
        Ok(())
    };
    match write() {
        Ok(()) => 0,
        Err::<(), Errno>(errno) => errno as c_int,
    }
}
