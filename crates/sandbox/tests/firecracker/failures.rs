//! A failure is reported on one line, and leaves nothing behind.

use std::path::PathBuf;

use sandbox::{Sandbox, SandboxSpec};

use crate::error_chain::error_chain;
use crate::scene::Fixture;

async fn check(scene: &Fixture, spec: SandboxSpec, expect: &str, hint: Option<&str>) {
    let error = match Sandbox::start(spec).await {
        Ok(_) => panic!("it started, without `{expect}`"),
        Err(error) => error,
    };
    let said = error_chain(&error);
    assert!(said.contains(expect), "`{expect}` is not in: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.len() < 400, "{said}");
    match hint {
        Some(hint) => {
            let given = error.hint().unwrap_or_default();
            assert!(given.contains(hint), "`{hint}` is not in: {given}");
        }
        None => assert_eq!(error.hint(), None),
    }
    assert_eq!(scene.leftovers(), Vec::<PathBuf>::new());
    assert_eq!(scene.processes(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_firecracker_that_fails_says_why() {
    let scene = Fixture::new();
    for (program, expect) in [
        (
            "firecracker-mute",
            "Firecracker's start takes longer than 5 s",
        ),
        (
            "firecracker-dead",
            "Firecracker ended (exit status: 1): Error: cannot find a virtual processor",
        ),
        (
            "firecracker-full",
            "Firecracker refuses `PUT /machine-config`: The memory size (MiB) is invalid, or smaller",
        ),
        (
            "firecracker-deaf",
            "connecting to the machine takes longer than 10 s",
        ),
    ] {
        check(&scene, scene.spec(program), expect, None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named() {
    let scene = Fixture::new();
    check(
        &scene,
        scene.spec("nowhere"),
        "nowhere` is not installed",
        Some("/usr/local/bin"),
    )
    .await;
    let mut spec = scene.spec("firecracker");
    let mut provisions = (*spec.provisions).clone();
    provisions.machines.kvm = scene.path("kvm");
    spec.provisions = provisions.clone().into();
    check(&scene, spec, "this machine has no `", Some("firmware")).await;
    let mut spec = scene.spec("firecracker");
    provisions.machines.kvm = "/dev/null".into();
    provisions.machines.kernel = Some(scene.path("image/etc/hello"));
    spec.provisions = provisions.into();
    check(&scene, spec, "neither ELF nor a `bzImage`", None).await;
}
