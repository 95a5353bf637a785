//! System calls that no dependency wraps: the file-descriptor mount API, `clone3` into a cgroup,
//! capabilities, pidfds. Most of the `unsafe` code of this crate is here.

use std::ffi::{CStr, CString};
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_int, c_long};
use nix::sys::resource::Resource;
use nix::unistd::Pid;

pub(crate) const NAMESPACE_FLAGS: c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS;

/// The C library's constant overflows its type.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

pub(crate) fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn check_result(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned_descriptor(result: c_long) -> io::Result<OwnedFd> {
    let fd = check_result(result)? as RawFd;
    // SAFETY: the kernel just returned this new descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What `clone` returns to each side.
pub(crate) enum CloneSide {
    Parent(libc::pid_t),
    Child,
}

/// Forks into new namespaces and, if given, directly into a version 2 cgroup.
///
/// # Safety
/// The caller has a single thread: the child gets a copy of memory in which no other thread
/// can hold a lock. The child must not return from the function that called this.
pub(crate) unsafe fn clone(flags: c_int, cgroup: Option<BorrowedFd<'_>>) -> io::Result<CloneSide> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    // The C library caches the thread id. As in its own `fork`, the kernel updates that record in the
    // child, so that the child can go on as a normal program, with threads.
    if let Some(record) = thread_id_address() {
        arguments.flags |= (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID) as u64;
        arguments.child_tid = record;
    }
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM and with no stack given this behaves like fork; the structure
    // outlives the call and its size is the one passed.
    let pid = check_result(unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const arguments,
            size_of::<libc::clone_args>(),
        )
    })?;
    Ok(match pid {
        0 => CloneSide::Child,
        pid => CloneSide::Parent(pid as libc::pid_t),
    })
}

/// The address where the C library caches this thread's id. Some kernels do not report it.
pub(crate) fn thread_id_address() -> Option<u64> {
    let mut record = 0u64;
    // SAFETY: the kernel writes one address to `record`, which outlives the call.
    let told = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut record, 0, 0, 0) } == 0;
    (told && record != 0).then_some(record)
}

/// A detached copy of the mount tree at a path.
pub(crate) fn open_tree(source: &Path) -> io::Result<OwnedFd> {
    let source = path(source)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    // SAFETY: the path is NUL-terminated and lives across the call.
    owned_descriptor(unsafe {
        libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, source.as_ptr(), flags)
    })
}

/// The same for a folder. No component of the path may be a symlink.
pub(crate) fn open_tree_no_symlinks(source: &Path) -> io::Result<OwnedFd> {
    let source = path(source)?;
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the path is NUL-terminated, both live across the call, and the size is the structure's.
    let folder = owned_descriptor(unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            source.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    })?;
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | (libc::AT_RECURSIVE | libc::AT_EMPTY_PATH) as u32;
    // SAFETY: the descriptor is open and the empty path is NUL-terminated.
    owned_descriptor(unsafe {
        libc::syscall(libc::SYS_open_tree, folder.as_raw_fd(), c"".as_ptr(), flags)
    })
}

/// Attaches a detached mount tree at a path.
pub(crate) fn move_mount(tree: &OwnedFd, target: &Path) -> io::Result<()> {
    let target = path(target)?;
    // SAFETY: both strings are NUL-terminated and live across the call.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    })?;
    Ok(())
}

/// Adds attributes to a whole mount tree. With a user namespace, also applies its id mapping.
pub(crate) fn mount_setattr(
    tree: &OwnedFd,
    attributes: u64,
    userns: Option<&OwnedFd>,
) -> io::Result<()> {
    let mut request = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    if let Some(userns) = userns {
        request.attr_set |= libc::MOUNT_ATTR_IDMAP;
        request.userns_fd = userns.as_raw_fd() as u64;
    }
    // SAFETY: the structure outlives the call and its size is the one passed.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const request,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// A detached mount of a new file system instance.
pub(crate) fn new_mount(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: u64,
) -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: c_int = 1;
    const FSMOUNT_CLOEXEC: c_int = 1;
    const FSCONFIG_SET_STRING: c_int = 1;
    const FSCONFIG_CMD_CREATE: c_int = 6;
    // SAFETY: the name is NUL-terminated.
    let context = owned_descriptor(unsafe {
        libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC)
    })?;
    for (key, value) in options {
        // SAFETY: both strings are NUL-terminated and live across the call.
        check_result(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                FSCONFIG_SET_STRING,
                key.as_ptr(),
                value.as_ptr(),
                0,
            )
        })?;
    }
    // SAFETY: this command takes neither key nor value.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            std::ptr::null::<u8>(),
            std::ptr::null::<u8>(),
            0,
        )
    })?;
    // SAFETY: only descriptors and numbers are passed.
    owned_descriptor(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes,
        )
    })
}

/// Closes all descriptors in the range.
pub(crate) fn close_range(numbers: RangeInclusive<RawFd>) -> io::Result<()> {
    let (first, last) = numbers.into_inner();
    // SAFETY: the caller no longer uses any owner of these descriptors.
    check_result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    Ok(())
}

/// Duplicates a descriptor to `number`, without close-on-exec.
pub(crate) fn duplicate_to(file: &impl AsRawFd, number: RawFd) -> io::Result<()> {
    // SAFETY: the file is open; the caller intends the old `number` to be closed.
    check_result(c_long::from(unsafe {
        libc::dup2(file.as_raw_fd(), number)
    }))?;
    Ok(())
}

/// A descriptor that becomes readable when the process ends.
pub(crate) fn open_pidfd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: only numbers are passed.
    owned_descriptor(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// Sets the soft and the hard limit of another process.
pub(crate) fn set_process_limit(process: Pid, resource: Resource, value: u64) -> io::Result<()> {
    let limit = libc::rlimit64 {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the kernel reads one limit, which outlives the call, and writes none.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            process.as_raw(),
            resource as libc::c_uint,
            &raw const limit,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    })?;
    Ok(())
}

/// Sends a signal to the process of a pidfd.
pub(crate) fn signal(process: &OwnedFd, signal: c_int) -> io::Result<()> {
    // SAFETY: only numbers and a null pointer are passed.
    check_result(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })?;
    Ok(())
}

/// Irrevocably drops every capability of this process and its descendants.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: prctl with numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            // Past the last capability that this kernel knows.
            if error.raw_os_error() == Some(libc::EINVAL) {
                break;
            }
            return Err(error);
        }
    }
    // `SECBIT_NOROOT` and related bits, all locked: user 0 of the namespace gains no capabilities.
    ignore_unsupported(prctl(libc::PR_SET_SECUREBITS, 0b1110_1111))?;
    clear_capabilities()
}

/// Drops the capabilities of this process. The bounding set stays, because changing it takes a capability.
pub(crate) fn clear_capabilities() -> io::Result<()> {
    ignore_unsupported(prctl(
        libc::PR_CAP_AMBIENT,
        libc::PR_CAP_AMBIENT_CLEAR_ALL as u64,
    ))?;
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: version 3 takes this header and two sets of three words, which outlive the call.
    check_result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) })?;
    Ok(())
}

/// Ignores `EINVAL`: a kernel that does not support the request at all, such as gVisor's, has nothing to
/// drop. Linux never returns `EINVAL` for these requests.
fn ignore_unsupported(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        outcome => outcome,
    }
}

pub(crate) fn prctl(option: c_int, value: u64) -> io::Result<()> {
    // SAFETY: prctl with numbers only.
    check_result(c_long::from(unsafe { libc::prctl(option, value, 0, 0, 0) }))?;
    Ok(())
}

/// Brings up the loopback interface of this network namespace.
pub(crate) fn enable_loopback() -> io::Result<()> {
    // SAFETY: only numbers are passed.
    let socket = owned_descriptor(c_long::from(unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
    }))?;
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request names an interface and outlives the call.
    check_result(c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    }))?;
    Ok(())
}
