//! Starts a program: `posix_spawn`, which shares memory with the parent until the exec and so
//! costs the same however large the parent is.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Pid, access};

/// What to start and with which descriptors.
pub(crate) struct Start<'a> {
    pub(crate) argv: &'a [OsString],
    pub(crate) env: &'a [(OsString, OsString)],
    pub(crate) cwd: &'a Path,
    /// Numbers in the new program and what they lead to here.
    pub(crate) descriptors: &'a [(RawFd, BorrowedFd<'a>)],
    /// A terminal to open as 0, 1 and 2 instead; the new session's controlling one.
    pub(crate) terminal: Option<&'a Path>,
}

/// Starts the program as leader of a session and group of its own.
pub(crate) fn spawn(start: &Start<'_>) -> io::Result<Pid> {
    let program = find_program(start)?;
    match spawn_file(start, &program, start.argv) {
        // A script without an interpreter line: what shells do with it.
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let mut argv = vec![OsString::from("/bin/sh"), program.into_os_string()];
            argv.extend_from_slice(&start.argv[1..]);
            spawn_file(start, Path::new("/bin/sh"), &argv)
        }
        outcome => outcome,
    }
}

/// Looks a bare name up in the command's own PATH.
fn find_program(start: &Start<'_>) -> io::Result<PathBuf> {
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
    Err(io::Error::from_raw_os_error(match denied {
        true => libc::EACCES,
        false => libc::ENOENT,
    }))
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

fn spawn_file(start: &Start<'_>, program: &Path, argv: &[OsString]) -> io::Result<Pid> {
    let program = c_string(program.as_os_str())?;
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
    let argv = pointers(&argv);
    let env = pointers(&env);
    let actions = Actions::new(start)?;
    let attributes = Attributes::new()?;
    let mut pid = 0;
    // SAFETY: every pointer leads to a live, initialised value; both arrays end with null.
    check(unsafe {
        libc::posix_spawn(
            &mut pid,
            program.as_ptr(),
            &actions.0,
            &attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Ok(Pid::from_raw(pid))
}

fn pointers(texts: &[CString]) -> Vec<*mut libc::c_char> {
    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    pointers
}

/// These functions return the error instead of setting it.
fn check(error: libc::c_int) -> io::Result<()> {
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new(start: &Start<'_>) -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init fills the value before it is assumed to be there.
        let mut actions = unsafe {
            check(libc::posix_spawn_file_actions_init(raw.as_mut_ptr()))?;
            Self(raw.assume_init())
        };
        let cwd = c_string(start.cwd.as_os_str())?;
        // SAFETY: the actions are initialised; the path is copied by the call.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut actions.0, cwd.as_ptr()) })?;
        match start.terminal {
            Some(terminal) => {
                actions.open(0, terminal, libc::O_RDWR)?;
                actions.duplicate(0, 1)?;
                actions.duplicate(0, 2)?;
            }
            None => actions.open(0, Path::new("/dev/null"), libc::O_RDONLY)?,
        }
        for (number, file) in start.descriptors {
            actions.duplicate(file.as_raw_fd(), *number)?;
        }
        Ok(actions)
    }

    fn open(&mut self, number: RawFd, path: &Path, flags: libc::c_int) -> io::Result<()> {
        let path = c_string(path.as_os_str())?;
        // SAFETY: the actions are initialised; the path is copied by the call.
        check(unsafe {
            libc::posix_spawn_file_actions_addopen(&mut self.0, number, path.as_ptr(), flags, 0)
        })
    }

    fn duplicate(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, from, to) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new` and destroyed only here.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A new session, no signal blocked, all signals at their defaults.
    fn new() -> io::Result<Self> {
        const POSIX_SPAWN_SETSID: libc::c_int = 0x80;
        let flags = POSIX_SPAWN_SETSID | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        let mut raw = MaybeUninit::uninit();
        let mut set = MaybeUninit::uninit();
        // SAFETY: init and the set functions fill their values before they are used.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut attributes = Self(raw.assume_init());
            libc::sigemptyset(set.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(
                &mut attributes.0,
                set.as_ptr(),
            ))?;
            libc::sigfillset(set.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(
                &mut attributes.0,
                set.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setflags(
                &mut attributes.0,
                flags as libc::c_short,
            ))?;
            Ok(attributes)
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new` and destroyed only here.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}
