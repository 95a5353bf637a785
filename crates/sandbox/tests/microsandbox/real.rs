//! The real `msb`: it accepts the arguments, and its result on this machine.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use sandbox::Sandbox;
use serde_json::Value;

use crate::error_chain::error_chain;
use crate::scene::{Fixture, msb};

fn ask(scene: &Fixture, arguments: &[&str]) -> Output {
    let home = scene.path("cache/microsandbox/home");
    let mut command = Command::new(msb());
    command.args(arguments).env("MSB_HOME", &home);
    command.env("HOME", &home).output().unwrap()
}

fn json(output: &Output) -> Option<Value> {
    serde_json::from_slice(&output.stdout).ok()
}

/// The only sandbox that `msb` lists, once it does.
async fn configuration(scene: &Fixture) -> Value {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        let listed = json(&ask(scene, &["list", "--format", "json"]));
        let name = listed.and_then(|all| Some(all.get(0)?["name"].as_str()?.to_owned()));
        if let Some(name) = name
            && let Some(found) = json(&ask(scene, &["inspect", "--format", "json", &name]))
        {
            return found["config"].clone();
        }
        assert!(Instant::now() < give_up, "`msb` never knew of a sandbox");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// With KVM the sandbox works. Without it, `msb` reports that, on one line.
#[tokio::test(flavor = "multi_thread")]
async fn msb_takes_what_it_is_told_and_its_own_error_is_one_line() {
    let scene = Fixture::new();
    let mut spec = scene.spec(&msb());
    spec.limits.memory = 300 << 20;
    spec.limits.cpus = 0.5;
    spec.limits.wall = Some(Duration::from_secs(600));
    let workspace = scene.path("workspace").canonicalize().unwrap();
    let starting = tokio::spawn(Sandbox::start(spec));
    let config = configuration(&scene).await;
    assert_eq!(config["resources"]["memory_mib"], 300);
    assert_eq!(config["resources"]["cpus"], 1);
    assert_eq!(config["lifecycle"]["max_duration_secs"], 606);
    assert_eq!(config["runtime"]["user"], "1000:1000");
    assert_eq!(config["security_profile"], "restricted");
    let policy = &config["network"]["policy"];
    assert_eq!(policy["default_egress"], "deny");
    assert_eq!(policy["default_ingress"], "deny");
    assert_eq!(policy["rules"], Value::Array(Vec::new()));
    let root = config["image"]["Bind"]["path"].as_str().unwrap();
    assert!(Path::new(root).starts_with(scene.path("cache")), "{root}");
    for mount in config["mounts"].as_array().unwrap() {
        let is_workspace = mount["guest"] == "/workspace";
        assert_eq!(mount["options"]["nosuid"], true, "{mount}");
        assert_eq!(mount["options"]["nodev"], true, "{mount}");
        if mount["type"] == "Bind" {
            assert_eq!(mount["options"]["readonly"], !is_workspace, "{mount}");
        }
        if is_workspace {
            assert_eq!(mount["host"], workspace.to_str().unwrap());
            assert_eq!(mount["options"]["override_uid"], 1000);
        }
    }
    match starting.await.unwrap() {
        Ok(sandbox) => {
            let ran = sandbox.run(sandbox::ExecCommand::new(["/bin/true"])).await;
            assert!(ran.unwrap().verdict.success());
            sandbox.end().await;
        }
        Err(error) => {
            let said = error_chain(&error);
            let begin = "cannot use the `microsandbox` backend: `msb` started no virtual machine: ";
            let cause = said.strip_prefix(begin).unwrap_or_else(|| panic!("{said}"));
            assert!(!cause.is_empty() && cause.len() < 300, "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(error.hint().unwrap().contains("msb doctor"));
        }
    }
    let listed = json(&ask(&scene, &["list", "--format", "json"])).unwrap();
    assert_eq!(listed, Value::Array(Vec::new()), "nothing is left of it");
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let scene = Fixture::new();
    let check = async |spec, expect: &str, hint: &str| {
        let error = Sandbox::start(spec).await.unwrap_err();
        let (said, given) = (error_chain(&error), error.hint().unwrap_or_default());
        assert!(said.contains(expect), "{said}");
        assert!(given.contains(hint), "{given}");
        assert_eq!(said.lines().count(), 1, "{said}");
    };
    let nowhere = scene.spec(&scene.path("nowhere/msb"));
    check(
        nowhere,
        "`msb` is not installed",
        "pip install microsandbox",
    )
    .await;
    let mut closed = scene.spec(&msb());
    let mut provisions = (*closed.provisions).clone();
    provisions.machines.kvm = scene.path("kvm");
    closed.provisions = provisions.into();
    check(closed, "this machine has no `", "virtualization").await;
    let mut colon = scene.spec(&msb());
    colon.workspace = scene.path("a:b");
    std::fs::create_dir(&colon.workspace).unwrap();
    check(colon, "takes no folder like `", "without colons").await;
}
