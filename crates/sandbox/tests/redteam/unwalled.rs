//! The attacks without walls: an attack that cannot succeed there proves nothing when it fails.
//!
//! Only attacks that affect nothing but their own environment are run here.

use std::process::Command;

use crate::attack::Attack;
use crate::backend;
use crate::scene::{HostSurroundings, hostile_program};
use crate::suite::check;

/// Runs an attack on the host itself and counts its reported breaches.
fn breaches(props: &HostSurroundings, name: &str) -> (usize, String) {
    let output = Command::new(hostile_program())
        .arg(name)
        .args(props.arguments())
        .current_dir(&props.workspace)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (
        text.lines()
            .filter(|line| line.starts_with("BREACH"))
            .count(),
        text,
    )
}

#[tokio::test]
async fn without_walls_the_attacks_succeed() {
    let mut failures = Vec::new();
    for name in [
        "dot-dot",
        "prefix-sibling",
        "symlink-parent",
        "dangling-symlink",
        "hard-link",
        "proc-self-root",
        "leave-setuid",
        "ptrace-child",
        "process-memory-child",
        "unshare-user",
        "clone3",
        "host-tcp",
        "host-abstract",
        "service-sockets",
        "netlink",
        "interfaces",
        "seccomp-filters",
        "allocate-by-ioctl",
        "huge-pages",
        "leases",
    ] {
        let props = HostSurroundings::place();
        let (count, text) = breaches(&props, name);
        if count == 0 {
            failures.push(format!("{name}: {text}"));
        }
    }
    assert!(
        failures.is_empty(),
        "broken attacks:\n{}",
        failures.join("\n")
    );
}

/// The suite itself must fail on a backend without walls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_walls_the_suite_fails() {
    let groups = [
        crate::files::ATTACKS,
        crate::kernel::ATTACKS,
        crate::network::ATTACKS,
    ];
    let chosen = [
        "dot-dot",
        "prefix-sibling",
        "symlink-parent",
        "dangling-symlink",
        "swap-leaf",
        "swap-parent",
        "hard-link",
        "planted-device",
        "leave-setuid",
        "whoami",
        "clone3",
        "host-tcp",
        "host-udp",
        "host-abstract",
        "interfaces",
    ];
    let mut unnoticed = Vec::new();
    for name in chosen {
        let attack: &Attack = groups
            .iter()
            .copied()
            .flatten()
            .find(|attack| attack.name == name)
            .unwrap();
        // Only root can plant a device.
        if name == "planted-device" && !crate::scene::is_root() {
            continue;
        }
        if check(backend::NONE, *attack).await.is_ok() {
            unnoticed.push(name);
        }
    }
    assert!(
        unnoticed.is_empty(),
        "the suite sees no walls missing in {unnoticed:?}"
    );
}
