//! A program that tries to escape, for the red-team suite (`tests/redteam`).
//!
//! `hostile NAME key=value...` tries one attack by the simplest means and prints one line for each
//! attempt: `BREACH what` if it succeeded, `HELD why` otherwise. Being killed by a signal counts as
//! held. It only attacks the targets that its arguments name, which are canaries of the suite, so
//! it can be run without walls too.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "it does what nobody should do; every call is either refused or hurts only itself"
)]
#![allow(clippy::print_stdout, reason = "its output is its result")]
#![allow(clippy::unwrap_used, reason = "a panic is a failed attempt")]

mod disk;
mod exhaust;
mod files;
mod hidden;
mod kernel;
mod memory;
mod network;
mod output;
mod processes;
mod proxy;
mod shared;
mod sockets;

use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// An attack by its name.
type Attack = (&'static str, fn(&AttackArguments));

fn main() {
    // A closed pipe ends it; a file that is too large is an error to report.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of an attack");
    let world = AttackArguments::from_arguments(arguments);
    for (key, own) in [("root", &OWN_ROOT), ("kernel", &OWN_KERNEL)] {
        own.store(
            world.0.get(key).is_some_and(|whose| whose == "own"),
            Relaxed,
        );
    }
    let all = [
        files::ATTACKS,
        kernel::ATTACKS,
        exhaust::ATTACKS,
        memory::ATTACKS,
        disk::ATTACKS,
        hidden::ATTACKS,
        processes::ATTACKS,
        network::ATTACKS,
        proxy::ATTACKS,
        output::ATTACKS,
        shared::ATTACKS,
        sockets::ATTACKS,
    ];
    let attack = all
        .iter()
        .copied()
        .flatten()
        .find(|(known, _)| *known == name);
    let (_, attack) = attack.unwrap_or_else(|| panic!("no attack is called `{name}`"));
    attack(&world);
}

/// Whether `/` is an image under an overlay of this sandbox: `root=own`.
static OWN_ROOT: AtomicBool = AtomicBool::new(false);

fn has_own_root() -> bool {
    OWN_ROOT.load(Relaxed)
}

/// Whether the sandbox has its own kernel, with its own lists and ids: `kernel=own`.
static OWN_KERNEL: AtomicBool = AtomicBool::new(false);

fn has_own_kernel() -> bool {
    OWN_KERNEL.load(Relaxed)
}

/// Arguments in which the suite describes the host.
struct AttackArguments(HashMap<String, String>);

impl AttackArguments {
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Self {
        let pairs = arguments.filter_map(|argument| {
            let (key, value) = argument.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        });
        Self(pairs.collect())
    }

    fn text(&self, key: &str) -> &str {
        self.0
            .get(key)
            .unwrap_or_else(|| panic!("no argument `{key}`"))
    }

    fn number(&self, key: &str) -> u64 {
        self.text(key).parse().unwrap()
    }

    fn list(&self, key: &str) -> Vec<&str> {
        let text = self.text(key);
        text.split(',').filter(|item| !item.is_empty()).collect()
    }
}

fn breach(what: impl Display) {
    println!("BREACH {what}");
}

fn held(why: impl Display) {
    println!("HELD {why}");
}

/// Judges a result: success is a breach.
fn judge<T>(what: impl Display, result: io::Result<T>) {
    match result {
        Ok(_) => breach(what),
        Err(error) => held(format_args!("{what}: {error}")),
    }
}

/// Judges the return value of a system call: anything not negative is a breach.
fn refused(what: impl Display, returned: i64) {
    judge(what, check(returned));
}

fn check(returned: i64) -> io::Result<i64> {
    match returned {
        0.. => Ok(returned),
        _ => Err(io::Error::last_os_error()),
    }
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Runs something in a child process, and returns its `wait` status.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    match unsafe { libc::fork() } {
        0 => {
            let code = work();
            unsafe { libc::_exit(code) }
        }
        pid => {
            assert!(pid > 0, "cannot fork");
            let mut status = 0;
            unsafe { libc::waitpid(pid, &mut status, 0) };
            status
        }
    }
}

/// A sleeping child that is killed on drop.
struct Sleeper(libc::pid_t);

impl Sleeper {
    fn start() -> Self {
        match unsafe { libc::fork() } {
            0 => loop {
                unsafe { libc::pause() };
            },
            pid => Self(pid),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Gives the walls time to react.
fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}
