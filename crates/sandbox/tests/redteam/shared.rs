//! Lines 83 to 96: resources that exist once per machine, and information about others. Nothing is
//! used up: a few calls show that they are refused.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::scene::{AttackFixture, finish};
use crate::under_test::nature;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(83, "seccomp-filters"),
    Attack::new(84, "socket-filters"),
    Attack::new(85, "allocate-by-ioctl"),
    Attack::new(85, "requests"),
    Attack::new(87, "landlock"),
    Attack::new(89, "asynchronous-io"),
    Attack::new(91, "huge-pages"),
    Attack::new(92, "pipe-buffers"),
    Attack::new(90, "machine-wide"),
    Attack::new(90, "watch-budget"),
    Attack::new(94, "watch-programs")
        .drive(watch)
        .expect(ExpectedEnd::Held),
    Attack::new(95, "lock-programs")
        .drive(lock)
        .expect(ExpectedEnd::Held),
    Attack::new(95, "leases"),
    Attack::new(96, "machine-secrets").outside(nothing_of_the_host),
];

/// Files of the host that every sandbox shows, and their folders.
const SHARED_HOST_PATHS: &[&str] = &["/usr/bin/env", "/usr/bin", "/usr", "/etc/ssl/certs"];

/// The host runs a program that the sandbox watches.
fn watch(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let watched = ("watched", SHARED_HOST_PATHS.join(","));
        let name = scene.attack.name;
        let (running, outcome) = scene.start(name, &[watched], "WATCHING").await?;
        for path in SHARED_HOST_PATHS {
            File::open(path).map_err(|error| format!("{path}: {error}"))?;
        }
        let ran = Command::new("/usr/bin/env").stdout(Stdio::null()).status();
        ran.map_err(|error| format!("run a program: {error}"))?;
        release(scene)?;
        finish(running, outcome).await
    })
}

/// The host locks programs that the sandbox has locked.
fn lock(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let locked = ("locked", SHARED_HOST_PATHS.join(","));
        let name = scene.attack.name;
        let (running, outcome) = scene.start(name, &[locked], "LOCKED").await?;
        for path in SHARED_HOST_PATHS {
            try_lock(path).map_err(|error| format!("the host cannot lock {path}: {error}"))?;
        }
        release(scene)?;
        finish(running, outcome).await
    })
}

fn try_lock(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: the descriptor is open; the lock goes with it.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn release(scene: &AttackFixture) -> CheckResult {
    let go = scene.props.workspace.join("go");
    fs::write(go, "").map_err(|error| format!("release the program: {error}"))
}

fn nothing_of_the_host(scene: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    let text = outcome.text();
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut secrets = vec![
        ("boot id", read("/proc/sys/kernel/random/boot_id")),
        ("kernel command line", read("/proc/cmdline")),
    ];
    if nature::hides_workspace_path() {
        let workspace = scene.props.workspace.to_string_lossy().into_owned();
        secrets.push(("path of the workspace", workspace));
    }
    for (what, secret) in secrets {
        let secret = secret.trim();
        if !secret.is_empty() && text.contains(secret) {
            return Err(format!("the host's {what} is told"));
        }
    }
    Ok(())
}
