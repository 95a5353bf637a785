//! `hotcell doctor`: what protects a sandbox here, as text and as JSON.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::place::{Place, assert_code, is_root, run, stderr, stdout};

const NATIVE_ROW: &str = "native        works       namespaces";
const ENFORCER_COLUMN: usize = 32;

/// Replaces numbers and text that depends on the kernel's age.
fn redacted(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with("Landlock")) {
        // The enforcer depends on the user and on the machine.
        let depends = ["memory ", "cpu ", "pids "];
        let line = if depends.iter().any(|name| line.starts_with(name)) {
            &line[..ENFORCER_COLUMN]
        } else {
            line
        };
        // So do times and memory.
        let line = match line.strip_prefix(NATIVE_ROW) {
            Some(_) => NATIVE_ROW,
            None => line,
        };
        let mut shown = String::new();
        for letter in line.chars() {
            match letter.is_ascii_digit() || letter == '.' && shown.ends_with('N') {
                true if shown.ends_with('N') => {}
                true => shown.push('N'),
                false => shown.push(letter),
            }
        }
        lines.push(shown.trim_end().to_owned());
    }
    lines.join("\n")
}

#[test]
fn for_people() {
    let place = Place::new();
    let output = run(&mut place.hotcell(["doctor"]));
    assert_code(&output, 0);
    assert_eq!(stderr(&output), "");
    let said = redacted(&stdout(&output));
    assert_snapshot!(said, @r"
        native  works: verified by starting a sandbox
                start and first command N ms, a further command N ms

        protection            holds  seen inside
        user namespace        yes    user:[N]
        mount namespace       yes    mnt:[N]
        pid namespace         yes    pid:[N]
        network namespace     yes    net:[N]
        ipc namespace         yes    ipc:[N]
        host name namespace   yes    uts:[N]
        cgroup namespace      yes    cgroup:[N]
        ordinary user         yes    uid N, gid N
        no capabilities       yes    NxN
        no new privileges     yes    true
        seccomp filter        yes    mode N
        no network            yes    lo
        read-only root        yes    true

        limit                 default   enforced by
        memory                NG
        cpu                   N
        pids                  N
        disk                  NG        scan (growth of the file system every N ms)
        open files            N      rlimit
        wall time             none set  guest and supervisor
        output                none set  guest

        `hotcell doctor --probe` checks all
        backend       verdict     strength    start       exec      memory    notes
        firecracker   not probed  vm
        microvm       not probed  vm
        microsandbox  not probed  vm
        gvisor        not probed  kernel
        native        works       namespaces
        podman        not probed  namespaces
        docker        not probed  namespaces

        note:   firecracker: written against the API of Firecracker Nx: its requests, jail, snapshots and vsock sockets are tested against stand-ins, a machine of it has not run on real KVM
        note:   microsandbox: written against `msb` N: its calls, its answers and the link over its streams are tested, a machine of it has not run on real KVM

        auto    selects native: not probed: `hotcell doctor --probe` looks for stronger walls
        none    no protection at all; never chosen by `auto`
    ");
}

#[test]
fn for_programs() {
    let place = Place::new();
    let output = run(&mut place.hotcell(["doctor", "--json"]));
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["auto"], "native");
    let native = &report["backends"][0];
    assert_eq!(native["backend"], "native");
    assert_eq!(native["works"], true);
    assert_eq!(native["problem"], Value::Null);
    for protection in native["protections"].as_array().unwrap() {
        let is_optional = protection["name"] == "Landlock";
        assert!(protection["holds"] == true || is_optional, "{protection}");
    }
    let limits = native["limits"].as_array().unwrap();
    let names: Vec<&str> = limits
        .iter()
        .map(|limit| limit["limit"].as_str().unwrap())
        .collect();
    let expect = [
        "memory",
        "cpu",
        "pids",
        "disk",
        "open_files",
        "wall_time",
        "output",
    ];
    assert_eq!(names, expect);
    for limit in limits {
        assert_ne!(limit["enforcer"], "nothing", "{limit}");
        assert!(limit["caveat"] == Value::Null || !is_root(), "{limit}");
    }
}

#[test]
fn it_leaves_nothing_behind() {
    let place = Place::new();
    let temporary = place.here("tmp");
    fs::create_dir(&temporary).unwrap();
    let before = place.everything();
    let output = run(place.hotcell(["doctor"]).env("TMPDIR", &temporary));
    assert_code(&output, 0);
    assert_eq!(place.everything(), before);
}
