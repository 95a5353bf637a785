//! Lines 25 to 41. The hostile program tries each call by its number. Its output shows whether it
//! failed, and the sandbox and the host must keep working.

use crate::attack::{Attack, AttackOutcome, CheckResult};
use crate::scene::AttackFixture;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(25, "ptrace"),
    Attack::new(26, "process-memory"),
    Attack::new(27, "pidfd-getfd"),
    Attack::new(28, "unshare"),
    Attack::new(28, "clone"),
    Attack::new(29, "clone3"),
    Attack::new(30, "mount").outside(the_mounts_are_the_same),
    Attack::new(31, "setns"),
    Attack::new(32, "bpf"),
    Attack::new(33, "userfaultfd"),
    Attack::new(34, "io-uring"),
    Attack::new(35, "perf"),
    Attack::new(36, "keys"),
    Attack::new(37, "i386"),
    Attack::new(37, "x32"),
    Attack::new(38, "device-files"),
    Attack::new(39, "modules"),
    Attack::new(40, "clock"),
    Attack::new(41, "cgroup"),
    Attack::new(30, "handles"),
    Attack::new(39, "machine"),
];

fn the_mounts_are_the_same(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let home = scene.props.path("");
    if mounts.contains(&*home.to_string_lossy()) || mounts.contains("/tmp/point") {
        Err("a mount appeared on the host".into())
    } else {
        Ok(())
    }
}
