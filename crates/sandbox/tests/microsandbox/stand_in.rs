//! A stand-in for `msb`: a mount namespace where the machine would be.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::{ExecCommand, Sandbox, SandboxSpec};

use crate::error_chain::error_chain;
use crate::scene::Fixture;

/// Accepts only the calls of the backend. `run` stores its arguments and holds the "machine" until
/// its input ends; `exec` makes the mounts and runs the command there.
const MSB_SCRIPT: &str = r#"#!/bin/bash
set -euo pipefail
PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ "$HOME" = "$MSB_HOME" ] || { echo "error: not a home of its own" >&2; exit 2; }
call=$1; shift
case $call in
--version) echo "msb 0.0-stand-in" ;;
list)
    [ "$*" = "--format json" ]
    names=$(cd "$MSB_HOME" && ls -d *.machine 2>/dev/null || true)
    sep=; printf '['
    for name in $names; do printf '%s{"name":"%s","status":"Running"}' "$sep" "${name%.machine}"; sep=,; done
    echo ']' ;;
inspect)
    [ "$1 $2" = "--format json" ]
    [ -e "$MSB_HOME/$3.machine" ] || { echo "error: sandbox not found: $3" >&2; exit 1; }
    echo '{"status":"Running"}' ;;
logs) ;;
remove)
    [ "$1 $2" = "--force --quiet" ]
    rm -f "$MSB_HOME/$3.machine" ;;
run)
    printf '%s\0' "$@" > "$MSB_HOME/run"
    while [ $# -gt 0 ]; do [ "$1" = --name ] && name=$2; [ "$1" = -- ] && break; shift; done
    mv "$MSB_HOME/run" "$MSB_HOME/$name.machine"
    # The command of the real one is a guest that waits for the end of its input, too.
    cat > /dev/null
    rm -f "$MSB_HOME/$name.machine" ;;
exec)
    [ "$1 $2 $3 $4 $5 $6" = "--quiet --stream --user 1000:1000 --workdir /" ]
    name=$7; shift 7; [ "$1" = -- ]; shift
    exec unshare --map-root-user --mount "$0" inside "$MSB_HOME/$name.machine" "$@" ;;
inside)
    mapfile -d '' -t told < "$1"; shift
    for ((at = 0; at < ${#told[@]}; at++)); do [ "${told[at]}" = -- ] && root=${told[at - 1]} && break; done
    mount --rbind "$root" "$root"
    for name in dev proc; do mkdir -p "$root/$name"; mount --rbind "/$name" "$root/$name"; done
    for ((at = 0; at < ${#told[@]}; at++)); do
        IFS=: read -r first second third <<< "${told[at + 1]:-}"
        case ${told[at]} in
        --mount-dir) mkdir -p "$root$second"; mount --bind "$first" "$root$second" ;;
        --mount-file) mkdir -p "$root${second%/*}"; touch "$root$second"; mount --bind "$first" "$root$second" ;;
        --tmpfs) mkdir -p "$root$first"; mount -t tmpfs -o "size=$second" tmpfs "$root$first"; continue ;;
        *) continue ;;
        esac
        case ",$third," in *,ro,*) mount -o remount,bind,ro "$root$second" 2>/dev/null || true ;; esac
    done
    exec chroot "$root" "$@" ;;
*) echo "error: unknown call $call" >&2; exit 2 ;;
esac
"#;

/// A shell, `cat`, and their libraries, laid out as an image.
fn programs(image: &Path) {
    const PROGRAMS: &[&str] = &["/bin/sh", "/bin/cat"];
    let listed = std::process::Command::new("ldd").args(PROGRAMS).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let libraries = listed
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'));
    for file in PROGRAMS.iter().copied().chain(libraries) {
        let target = image.join(&file[1..]);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}

fn spec(scene: &Fixture) -> SandboxSpec {
    programs(&scene.path("image"));
    scene.spec(&scene.script("msb", MSB_SCRIPT))
}

async fn start(spec: SandboxSpec) -> Sandbox {
    let started = Sandbox::start(spec).await;
    started.unwrap_or_else(|error| panic!("{}", error_chain(&error)))
}

async fn run_script(sandbox: &Sandbox, script: &str) -> String {
    let ran = sandbox
        .run(ExecCommand::new(["/bin/sh", "-c", script]))
        .await;
    let ran = ran.unwrap();
    assert!(ran.verdict.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_link_over_the_streams_carries_everything() {
    let scene = Fixture::new();
    let sandbox = start(spec(&scene)).await;
    assert_eq!(run_script(&sandbox, "pwd").await, "/workspace\n");
    assert_eq!(run_script(&sandbox, "cat /etc/motd").await, "of the image");
    run_script(&sandbox, "echo inside > made").await;
    assert_eq!(
        fs::read_to_string(scene.path("workspace/made")).unwrap(),
        "inside\n"
    );
    // Every byte value, in both directions, and more data than a pipe holds.
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    fs::write(scene.path("workspace/bytes"), &bytes).unwrap();
    let ran = sandbox
        .run(ExecCommand::new(["/bin/cat", "bytes"]))
        .await
        .unwrap();
    assert!(ran.stdout == bytes);
    let walls = &sandbox.info().walls;
    assert_eq!(walls[0], "virtual machine (KVM, msb 0.0-stand-in)");
    assert!(
        walls.contains(&"seccomp allow-list".to_owned()),
        "{walls:?}"
    );
    assert_eq!(sandbox.inspect().await.unwrap().seccomp, 2);
    sandbox.end().await;
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_sandbox_goes_too() {
    let scene = Fixture::new();
    let sandbox = start(spec(&scene)).await;
    assert_eq!(scene.leftovers().len(), 1);
    drop(sandbox);
    let give_up = Instant::now() + Duration::from_secs(30);
    while !scene.leftovers().is_empty() {
        assert!(Instant::now() < give_up, "{:?}", scene.leftovers());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_host_left_is_swept() {
    let scene = Fixture::new();
    let spec = spec(&scene);
    // A process that never existed: no process started at that time.
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
    let namespace = namespace
        .to_str()
        .unwrap()
        .trim_matches(|letter: char| !letter.is_ascii_digit());
    let dead = format!("hotcell-{namespace}-1-1-0");
    let home = scene.path("cache/microsandbox/home");
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(scene.path("cache/microsandbox").join(&dead)).unwrap();
    let machine = home.join(format!("{dead}.machine"));
    fs::write(&machine, "").unwrap();
    let sandbox = start(spec).await;
    let is_swept = !machine.exists() && scene.leftovers().len() == 1;
    sandbox.end().await;
    assert!(is_swept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_in_its_own_words() {
    let scene = Fixture::new();
    let check = async |msb: &str, expect: &str| {
        let mut spec = spec(&scene);
        let mut provisions = (*spec.provisions).clone();
        provisions.machines.microsandbox = scene.script("refusing", msb);
        spec.provisions = provisions.into();
        let error = Sandbox::start(spec).await.unwrap_err();
        let said = error_chain(&error);
        assert!(said.contains(expect), "`{expect}` is not in: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
    };
    let refuses_run = "#!/bin/sh\ncase $1 in --version) echo x ;; list) echo '[]' ;; \
                       run) echo 'error: no space left' >&2; exit 1 ;; *) exit 1 ;; esac\n";
    check(
        refuses_run,
        "`msb` started no virtual machine: no space left",
    )
    .await;
    let refuses_exec = "#!/bin/sh\ncase $1 in --version) echo x ;; list) echo '[]' ;; \
                        inspect) echo '{\"status\":\"Running\"}' ;; run) cat >/dev/null ;; \
                        exec) echo 'error: agent is gone' >&2; exit 1 ;; esac\n";
    check(refuses_exec, "`msb` started no guest: agent is gone").await;
    check("#!/bin/sh\nexit 3\n", "`msb` failed: exit status: 3").await;
}
