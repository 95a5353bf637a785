//! Choosing a backend: names, required strength, missing programs, and what `doctor --probe` proves.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use crate::bad_input::errors_for;
use crate::place::{Place, assert_code, run, stderr, stdout};

/// The strongest first.
const STRENGTH_ORDER: [&str; 7] = [
    "firecracker",
    "microvm",
    "microsandbox",
    "gvisor",
    "native",
    "podman",
    "docker",
];

#[test]
fn what_cannot_be_is_said_before_anything_starts() {
    let said = errors_for(&[
        "exec --backend lxc -- true",
        "exec --require walls -- true",
        "exec --require none -- true",
        "exec --backend native --require vm -- true",
        "exec --backend podman --require kernel -- true",
        "exec --backend gvisor --require vm -- true",
        "exec --backend none --require namespaces -- true",
        "USE_SANDBOX=false exec --require namespaces -- true",
        "demo --backend docker --require kernel",
        "serve --backend native --require kernel",
        "exec --image nothing -- true",
        "exec --image ../escape -- true",
        "exec --image '' -- true",
        "exec --image base --rootfs folder -- true",
        "exec --backend none --image base -- true",
        "DOCKER_HOST=tcp://10.0.0.1:2375 exec --backend docker -- true",
    ]);
    assert_snapshot!(said, @r"
        $ exec --backend lxc -- true
        hotcell: invalid value 'lxc' for '--backend <WALLS>'
        hint: one of auto, native, podman, docker, gvisor, microvm, firecracker, microsandbox, none

        $ exec --require walls -- true
        hotcell: invalid value 'walls' for '--require <STRENGTH>'
        hint: one of namespaces, kernel, vm

        $ exec --require none -- true
        hotcell: invalid value 'none' for '--require <STRENGTH>'
        hint: one of namespaces, kernel, vm

        $ exec --backend native --require vm -- true
        hotcell: the walls of `native` are `namespaces`, and `vm` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ exec --backend podman --require kernel -- true
        hotcell: the walls of `podman` are `namespaces`, and `kernel` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ exec --backend gvisor --require vm -- true
        hotcell: the walls of `gvisor` are `kernel`, and `vm` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ exec --backend none --require namespaces -- true
        hotcell: there are no walls, and `namespaces` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ USE_SANDBOX=false exec --require namespaces -- true
        hotcell: there are no walls, and `namespaces` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ demo --backend docker --require kernel
        hotcell: the walls of `docker` are `namespaces`, and `kernel` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ serve --backend native --require kernel
        hotcell: the walls of `native` are `namespaces`, and `kernel` is required
        hint: `--backend auto` selects a backend that is strong enough

        $ exec --image nothing -- true
        hotcell: there is no image `nothing`
        hint: `hotcell image list` lists images

        $ exec --image ../escape -- true
        hotcell: cannot call an image `../escape`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins with a letter or a digit
        hint: `hotcell image list` lists images

        $ exec --image '' -- true
        hotcell: a value is required for '--image <NAME>' but none was supplied
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --image base --rootfs folder -- true
        hotcell: the argument '--image <NAME>' cannot be used with '--rootfs <FOLDER>'
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ exec --backend none --image base -- true
        hotcell: `--image` requires walls
        hint: drop it, or drop `--backend none`

        $ DOCKER_HOST=tcp://10.0.0.1:2375 exec --backend docker -- true
        hotcell: `DOCKER_HOST` is `tcp://10.0.0.1:2375`: it must be a socket on this machine
        hint: a sandbox's folder is here: name a daemon of this machine, such as `unix:///var/run/docker.sock`
    ");
}

/// A place with these settings.
fn place_with(settings: &str) -> Place {
    let place = Place::with_workspace();
    let folder = place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), settings).unwrap();
    place
}

#[test]
fn settings_are_held_to_the_same() {
    let mut all = String::new();
    for settings in [
        "backend = \"lxc\"",
        "backend = \"none\"",
        "require = \"much\"",
        "require = \"vm\"\nbackend = \"native\"",
        "image = \"nothing\"",
        "[backends]\nlxc = \"/usr/bin/lxc\"",
    ] {
        let place = place_with(settings);
        let output = run(&mut place.hotcell(["exec", "--", "true"]));
        assert_code(&output, 2);
        let said = stderr(&output).replace(place.home().to_str().unwrap(), "HOME");
        // The list of all settings is tested elsewhere.
        let said = said.split("hint: there are").next().unwrap();
        all.push_str(&format!("{}\n{said}\n", settings.replace('\n', " ⏎ ")));
    }
    assert_snapshot!(all, @r#"
        backend = "lxc"
        hotcell: `backend` from `HOME/.config/hotcell/config.toml` is `lxc`: there is no such backend
        hint: `hotcell config` shows all settings and where they come from

        backend = "none"
        hotcell: `backend` from `HOME/.config/hotcell/config.toml` is `none`: to run without walls, set `sandbox = false`
        hint: `hotcell config` shows all settings and where they come from

        require = "much"
        hotcell: `require` from `HOME/.config/hotcell/config.toml` is `much`: it must be namespaces, kernel or vm
        hint: `hotcell config` shows all settings and where they come from

        require = "vm" ⏎ backend = "native"
        hotcell: the walls of `native` are `namespaces`, and `vm` is required
        hint: `--backend auto` selects a backend that is strong enough

        image = "nothing"
        hotcell: there is no image `nothing`
        hint: `hotcell image list` lists images

        [backends] ⏎ lxc = "/usr/bin/lxc"
        hotcell: cannot read the settings `HOME/.config/hotcell/config.toml`: there is no setting `backends.lxc`
    "#);
    // A flag overrides the file, and must meet what the file requires.
    let place = place_with("require = \"namespaces\"\nbackend = \"docker\"");
    let output = place.exec(&["--backend", "native"], "echo $(id -u)");
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("1000\n", "")
    );
    let output = place.exec(&["--backend", "none"], "true");
    assert_code(&output, 2);
}

/// No other backend is installed here.
const NO_OTHER_BACKENDS: &str = r#"
[backends]
podman = "/nowhere/podman"
docker_socket = "/nowhere/docker.sock"
runsc = "/nowhere/runsc"
qemu = "/nowhere/qemu"
firecracker = "/nowhere/firecracker"
jailer = "/nowhere/jailer"
microsandbox = "/nowhere/msb"
"#;

#[test]
fn what_is_missing_is_one_line_and_nothing_weaker_is_taken() {
    let mut all = String::new();
    for flags in [
        "--backend podman",
        "--backend docker",
        "--backend gvisor",
        "--backend microvm",
        "--backend firecracker",
        "--backend microsandbox",
        "--backend microvm --rootfs /usr",
        "--backend firecracker --rootfs /usr",
        "--backend microsandbox --rootfs /usr",
        "--require kernel",
        "--require vm",
    ] {
        let place = place_with(NO_OTHER_BACKENDS);
        let words: Vec<&str> = flags.split(' ').collect();
        let output = place.exec(&words, "echo ran; touch ran");
        assert_code(&output, 125);
        assert_eq!(stdout(&output), "", "{flags}");
        assert!(!place.here("workspace/ran").exists(), "{flags}");
        let said = stderr(&output);
        let lines: Vec<&str> = said.lines().collect();
        assert!(matches!(lines.len(), 1 | 2), "{flags}: {said}");
        assert!(lines[0].starts_with("hotcell: "), "{flags}: {said}");
        all.push_str(&format!("$ exec {flags}\n{said}\n"));
    }
    assert_snapshot!(all, @r"
        $ exec --backend podman
        hotcell: cannot use the `podman` backend: `/nowhere/podman` is not installed
        hint: `apt install podman`

        $ exec --backend docker
        hotcell: cannot use the `docker` backend: there is no socket `/nowhere/docker.sock`
        hint: `apt install docker.io`, and start its daemon

        $ exec --backend gvisor
        hotcell: cannot use the `gvisor` backend: `/nowhere/runsc` is not installed
        hint: `apt install runsc`

        $ exec --backend microvm
        hotcell: cannot use the `microvm` backend: a virtual machine needs an image
        hint: `hotcell image build base`, or name one with `--image` or `--rootfs`

        $ exec --backend firecracker
        hotcell: cannot use the `firecracker` backend: a virtual machine needs an image
        hint: `hotcell image build base`, or name one with `--image` or `--rootfs`

        $ exec --backend microsandbox
        hotcell: cannot use the `microsandbox` backend: a virtual machine needs an image
        hint: `hotcell image build base`, or name one with `--image` or `--rootfs`

        $ exec --backend microvm --rootfs /usr
        hotcell: cannot use the `microvm` backend: `/nowhere/qemu` is not installed
        hint: `apt install qemu-system-x86`

        $ exec --backend firecracker --rootfs /usr
        hotcell: cannot use the `firecracker` backend: `/nowhere/firecracker` is not installed
        hint: a release of Firecracker has `firecracker` and `jailer`: put both in `/usr/local/bin`

        $ exec --backend microsandbox --rootfs /usr
        hotcell: cannot use the `microsandbox` backend: `msb` is not installed
        hint: `pip install microsandbox` brings it

        $ exec --require kernel
        hotcell: nothing here is as strong as `kernel`, which is required: firecracker: it needs an image; microvm: it needs an image; microsandbox: it needs an image; gvisor: `/nowhere/runsc` is not installed
        hint: `hotcell doctor --probe` looks again, and says what each needs

        $ exec --require vm
        hotcell: nothing here is as strong as `vm`, which is required: firecracker: it needs an image; microvm: it needs an image; microsandbox: it needs an image
        hint: `hotcell image build base` makes an image
    ");
}

/// The last start in the audit log: backend, strength and reason.
fn last_start(place: &Place) -> (String, String, String) {
    let log = fs::read_to_string(place.home().join(".local/state/hotcell/audit.jsonl")).unwrap();
    let is_start = |line: &&str| line.contains("\"kind\":\"start\"");
    let last = log.lines().rfind(is_start).unwrap();
    let start: Value = serde_json::from_str(last).unwrap();
    let text = |name: &str| find(&start, name).as_str().unwrap().to_owned();
    (text("backend"), text("strength"), text("reason"))
}

/// A field at any depth.
fn find<'a>(value: &'a Value, name: &str) -> &'a Value {
    let within = |inner: &'a Value| Some(find(inner, name)).filter(|found| !found.is_null());
    match value {
        Value::Object(fields) => fields
            .get(name)
            .or_else(|| fields.values().find_map(within))
            .unwrap_or(&Value::Null),
        _ => &Value::Null,
    }
}

#[test]
fn without_proofs_it_is_native_and_says_why() {
    let place = Place::with_workspace();
    assert_code(&place.exec(&[], "true"), 0);
    let unproved = "not probed: `hotcell doctor --probe` looks for stronger walls";
    assert_eq!(
        last_start(&place),
        ("native".into(), "namespaces".into(), unproved.into())
    );
    // Nothing was probed.
    assert!(!place.home().join(".cache").exists());
    assert_code(&place.exec(&["--backend", "native"], "true"), 0);
    assert_eq!(last_start(&place).2, "asked for");
}

#[test]
fn a_probe_proves_what_auto_then_takes() {
    let place = Place::with_workspace();
    let output = run(&mut place.hotcell(["doctor", "--probe", "--json"]));
    assert_code(&output, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let backends = report["backends"].as_array().unwrap();
    let names: Vec<&str> = backends
        .iter()
        .map(|one| one["backend"].as_str().unwrap())
        .collect();
    assert_eq!(names, STRENGTH_ORDER);
    let mut strongest = None;
    for one in backends {
        let name = one["backend"].as_str().unwrap();
        if one["works"].as_bool().unwrap() {
            assert_eq!(one["problem"], Value::Null, "{one}");
            assert!(one["start"].is_object() && one["exec"].is_object(), "{one}");
            if one["is_emulated"] == false {
                strongest = strongest.or(Some(name));
            }
        } else {
            let problem = one["problem"].as_str().unwrap();
            assert!(!problem.is_empty() && !problem.contains('\n'), "{one}");
        }
    }
    let native = &backends[4];
    assert_eq!(native["works"], true);
    let memory = native["memory"].as_u64();
    assert!(
        memory.is_none_or(|bytes| bytes > 100 << 10 && bytes < 100 << 20),
        "{native}"
    );
    assert_eq!(report["auto"], strongest.unwrap());

    // The proof applies to the next start and is shown without starting the backend again.
    assert_code(&place.exec(&[], "true"), 0);
    let (backend, _, reason) = last_start(&place);
    assert_eq!(backend, strongest.unwrap());
    assert!(
        reason.starts_with("the strongest that was proved here"),
        "{reason}"
    );
    let output = run(&mut place.hotcell(["doctor"]));
    assert_code(&output, 0);
    let said = stdout(&output);
    assert!(said.contains("\nas of 20"), "{said}");
    assert!(
        said.contains(&format!("\nauto    selects {backend}: ")),
        "{said}"
    );
}

#[test]
fn where_only_native_walls_work_a_probe_says_what_the_others_lack() {
    let place = place_with(NO_OTHER_BACKENDS);
    let output = run(&mut place.hotcell(["doctor", "--probe"]));
    assert_code(&output, 0);
    let said = stdout(&output);
    let words = |line: &str| {
        line.split_whitespace()
            .take(3)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let verdicts: Vec<String> = said.lines().skip(1).take(7).map(words).collect();
    assert_eq!(
        verdicts,
        [
            "firecracker NO vm",
            "microvm NO vm",
            "microsandbox NO vm",
            "gvisor NO kernel",
            "native works namespaces",
            "podman NO namespaces",
            "docker NO namespaces",
        ]
    );
    let auto = "auto    selects native: the strongest that was proved here";
    assert!(said.lines().any(|line| line.starts_with(auto)), "{said}");
    // A release or program other than the probed one invalidates it.
    let file = place.home().join(".cache/hotcell/proofs.json");
    let proofs = fs::read_to_string(&file).unwrap();
    fs::write(&file, proofs.replace("\"stamp\": \"", "\"stamp\": \"0")).unwrap();
    let said = stdout(&run(&mut place.hotcell(["doctor"])));
    assert!(
        said.contains("\n`hotcell doctor --probe` checks all\n"),
        "{said}"
    );
    assert!(
        said.contains("\nauto    selects native: not probed: "),
        "{said}"
    );
}
