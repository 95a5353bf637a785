//! Starts a program in a new process that shares this process's memory until the exec. The cost of a start
//! is therefore independent of the size of this process.
//!
//! The C library's `posix_spawn` works the same way, but it queries every signal from the kernel at each
//! start. On gVisor's kernel these queries take longer than the rest of the start.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::sys::wait::waitpid;
use nix::unistd::{AccessFlags, Pid, access};

use crate::signals;

/// The program to start, with its environment and descriptors.
pub(crate) struct SpawnRequest<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) cwd: &'a Path,
    /// Descriptor numbers in the new program, and the descriptors of this process to put there. Without an
    /// entry for 0, standard input is `/dev/null`.
    pub(crate) descriptors: &'a [(RawFd, BorrowedFd<'a>)],
    /// A terminal to open as 0, 1 and 2 instead. It becomes the new session's controlling terminal.
    pub(crate) terminal: Option<&'a Path>,
}

/// The working folder of this process. Commands that start in the same folder skip the `chdir`.
static CURRENT_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Only for a folder that cannot be replaced by another one, such as a mount point.
pub(crate) fn set_current_folder(folder: &Path) {
    if std::env::set_current_dir(folder).is_ok() {
        let _ = CURRENT_FOLDER.set(folder.to_owned());
    }
}

/// Standard input of commands that get no input. Opened once.
fn dev_null() -> io::Result<BorrowedFd<'static>> {
    static DEV_NULL: OnceLock<File> = OnceLock::new();
    let opened = match DEV_NULL.get() {
        Some(opened) => opened,
        None => {
            let opened = File::open("/dev/null")?;
            DEV_NULL.get_or_init(|| opened)
        }
    };
    Ok(opened.as_fd())
}

/// Starts the program as leader of its own session and process group.
pub(crate) fn spawn(start: &SpawnRequest<'_>) -> io::Result<Pid> {
    let program = find_program(start)?;
    match spawn_file(start, &program, start.argv) {
        // A script without an interpreter line: run it with `/bin/sh`, as shells do.
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let mut argv = vec![OsString::from("/bin/sh"), program.into_os_string()];
            argv.extend_from_slice(&start.argv[1..]);
            spawn_file(start, Path::new("/bin/sh"), &argv)
        }
        outcome => outcome,
    }
}

/// Looks up a bare name in the command's own `PATH`.
fn find_program(start: &SpawnRequest<'_>) -> io::Result<PathBuf> {
    let name = start.argv.first().ok_or(io::ErrorKind::InvalidInput)?;
    if name.is_empty() {
        return Err(io::Error::from_raw_os_error(libc::ENOENT));
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(start.cwd.join(name));
    }
    let path = start.env.iter().rev().find(|(key, _)| key == "PATH");
    let path = path.map_or(OsStr::new("/usr/bin:/bin"), |(_, value)| value);
    let mut denied = false;
    for folder in std::env::split_paths(path) {
        let candidate = start.cwd.join(folder).join(name);
        if candidate.is_file() {
            match access(&candidate, AccessFlags::X_OK) {
                Ok(()) => return Ok(candidate),
                Err(_) => denied = true,
            }
        }
    }
    Err(io::Error::from_raw_os_error(if denied {
        libc::EACCES
    } else {
        libc::ENOENT
    }))
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn spawn_file(start: &SpawnRequest<'_>, program: &Path, argv: &[OsString]) -> io::Result<Pid> {
    let program = c_string(program.as_os_str())?;
    let cwd = c_string(start.cwd.as_os_str())?;
    let argv: Vec<CString> = argv
        .iter()
        .map(|text| c_string(text))
        .collect::<Result<_, _>>()?;
    let env: Vec<CString> = start
        .env
        .iter()
        .map(|(key, value)| {
            let mut pair = key.clone().into_vec();
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            c_string(OsStr::from_bytes(&pair))
        })
        .collect::<Result<_, _>>()?;
    let (argv, env) = (pointers(&argv), pointers(&env));
    let terminal = start.terminal.map(|path| c_string(path.as_os_str()));
    let terminal = terminal.transpose()?;
    let given = start.descriptors.iter();
    let mut duplicates: Vec<_> = given
        .map(|(number, file)| (file.as_raw_fd(), *number))
        .collect();
    let has_input = duplicates.iter().any(|(_, number)| *number == 0);
    if terminal.is_none() && !has_input {
        duplicates.push((dev_null()?.as_raw_fd(), 0));
    }
    let mut orders = ChildSetup {
        program: &program,
        argv: &argv,
        env: &env,
        cwd: (CURRENT_FOLDER.get().map(PathBuf::as_path) != Some(start.cwd)).then_some(&*cwd),
        terminal: terminal.as_deref(),
        duplicates: &duplicates,
        changed: signals::changed(),
        errno: 0,
    };
    start_child(&mut orders)
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    pointers
}

/// Everything that the new process needs, prepared in advance, because it must not allocate.
struct ChildSetup<'a> {
    program: &'a CStr,
    /// Both `argv` and `env` end with a null pointer.
    argv: &'a [*const libc::c_char],
    env: &'a [*const libc::c_char],
    /// `None`: the working folder of this process.
    cwd: Option<&'a CStr>,
    /// The terminal to open as 0, 1 and 2.
    terminal: Option<&'a CStr>,
    /// Pairs of a descriptor in this process and its number in the new program.
    duplicates: &'a [(RawFd, RawFd)],
    changed: &'static [libc::c_int],
    /// Set by the new process if it fails.
    errno: libc::c_int,
}

/// Held while a new process still shares this one's memory. Such a process, like this one, cannot be
/// inspected.
static START_LOCK: Mutex<()> = Mutex::new(());

/// Blocks the start of programs as long as the guard lives.
pub(crate) fn lock_starts() -> MutexGuard<'static, ()> {
    START_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a process that shares this one's memory. This thread is suspended until the new process has executed
/// its program or has ended.
fn start_child(orders: &mut ChildSetup<'_>) -> io::Result<Pid> {
    /// Enough for a few system calls in sequence.
    const STACK_BYTES: usize = 32 * 1024;
    let mut stack = vec![0_u128; STACK_BYTES / size_of::<u128>()];
    // This process has no signal handler that could run in the new process.
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let starting = lock_starts();
    // SAFETY: the stack is aligned and large enough for the function, which makes only system calls. The
    // stack and `orders` outlive the call: this thread continues only when the new process uses neither.
    let pid = unsafe {
        let end = stack.as_mut_ptr().add(stack.len());
        libc::clone(child_main, end.cast(), flags, (&raw mut *orders).cast())
    };
    let made = Errno::result(pid);
    drop(starting);
    let pid = Pid::from_raw(made?);
    match orders.errno {
        0 => Ok(pid),
        errno => {
            // The new process has ended. No other code knows its PID yet, so it is reaped here.
            let _ = waitpid(pid, None);
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Runs in the new process until the exec. Makes only system calls.
extern "C" fn child_main(orders: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start_child` passes a valid pointer, and it does not access the value meanwhile.
    let orders = unsafe { &mut *orders.cast::<ChildSetup<'_>>() };
    orders.errno = match set_up_and_exec(orders) {
        Err(errno) => errno as libc::c_int,
    };
    127
}

/// Returns only if a step fails.
fn set_up_and_exec(orders: &ChildSetup<'_>) -> Result<Infallible, Errno> {
    for signal in orders.changed {
        signals::set_action(*signal, libc::SIG_DFL);
    }
    // SAFETY: every pointer refers to a live, initialised value, and both arrays end with a null pointer.
    unsafe {
        Errno::result(libc::setsid())?;
        if let Some(cwd) = orders.cwd {
            Errno::result(libc::chdir(cwd.as_ptr()))?;
        }
        if let Some(terminal) = orders.terminal {
            // A session leader without a controlling terminal gets the terminal that it opens.
            let opened = Errno::result(libc::open(terminal.as_ptr(), libc::O_RDWR))?;
            for number in 0..3 {
                duplicate(opened, number)?;
            }
            libc::close(opened);
        }
        for (from, to) in orders.duplicates {
            duplicate(*from, *to)?;
        }
        let none = 0_u64;
        let null = std::ptr::null_mut::<u64>();
        let how = libc::SIG_SETMASK;
        libc::syscall(libc::SYS_rt_sigprocmask, how, &none, null, size_of::<u64>());
        let (argv, env) = (orders.argv.as_ptr(), orders.env.as_ptr());
        libc::execve(orders.program.as_ptr(), argv, env);
    }
    Err(Errno::last())
}

/// Copies a descriptor to the number `to`, where it stays open across the exec.
fn duplicate(from: RawFd, to: RawFd) -> Result<(), Errno> {
    // SAFETY: only numbers are passed.
    Errno::result(unsafe {
        if from == to {
            libc::fcntl(to, libc::F_SETFD, 0)
        } else {
            libc::dup2(from, to)
        }
    })?;
    Ok(())
}
