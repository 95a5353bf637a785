//! Running without walls: possible, never silent, and never decided by files in a workspace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::place::{Place, assert_code, run, stderr, stdout};

const NO_SANDBOX_WARNING: &str =
    "hotcell: WARNING: no sandbox: the command can read and change everything that you can\n";

/// Prints user and folder: behind walls uid 1000 in `/workspace`.
const PRINT_USER_AND_FOLDER: [&str; 5] = ["exec", "--", "sh", "-c", "echo $(id -u) $(pwd)"];

#[test]
fn whoever_insists_is_warned_every_time() {
    let place = Place::with_workspace();
    let own = nix::unistd::geteuid();
    let folder = place.here("workspace").canonicalize().unwrap();
    let without = format!("{own} {}\n", folder.display());
    for _ in 0..2 {
        let flag = [&["exec", "--backend", "none"], &PRINT_USER_AND_FOLDER[1..]].concat();
        let output = run(&mut place.hotcell(flag));
        assert_code(&output, 0);
        assert_eq!(
            (stdout(&output), stderr(&output)),
            (without.clone(), NO_SANDBOX_WARNING.into())
        );
        for value in ["false", "0", "no", "off"] {
            let output = run(place
                .hotcell(PRINT_USER_AND_FOLDER)
                .env("USE_SANDBOX", value));
            assert_eq!(
                (stdout(&output), stderr(&output)),
                (without.clone(), NO_SANDBOX_WARNING.into())
            );
        }
    }
    fs::write(place.here(".env"), "USE_SANDBOX=false\n").unwrap();
    // A file that a sandbox may have left cannot disable the walls.
    let behind = "1000 /workspace\n";
    let refused = "hotcell: `.env` cannot set USE_SANDBOX: ignored\n\
                   hint: such a file may set keys and the model only: use a flag, the environment \
                   or the settings file\n";
    let output = run(&mut place.hotcell(PRINT_USER_AND_FOLDER));
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        (behind, refused)
    );

    // A flag overrides the environment.
    fs::remove_file(place.here(".env")).unwrap();
    for backend in ["auto", "native"] {
        let flag = [&["exec", "--backend", backend], &PRINT_USER_AND_FOLDER[1..]].concat();
        let output = run(place.hotcell(flag).env("USE_SANDBOX", "false"));
        assert_eq!(
            (stdout(&output).as_str(), stderr(&output).as_str()),
            (behind, "")
        );
    }
}

#[test]
fn without_walls_the_command_is_the_callers_own() {
    let place = Place::with_workspace();
    let mut command = place.hotcell([
        "exec",
        "--backend",
        "none",
        "--",
        "sh",
        "-c",
        "echo $A; exit 9",
    ]);
    // A variable that is not UTF-8 does no harm.
    command
        .env("A", "inherited")
        .env("ODD", OsStr::from_bytes(b"\xff"));
    let output = run(&mut command);
    assert_code(&output, 9);
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("inherited\n", NO_SANDBOX_WARNING)
    );
    let output = place.exec(&["--backend", "none", "--timeout", "300ms"], "sleep 1000");
    assert_code(&output, 124);
}

#[test]
fn settings_that_lie_in_the_workspace_are_not_obeyed() {
    let behind = "1000 /workspace\n";
    let notice =
        "hotcell: `.env` is not read: it lies inside the workspace, where a sandbox can write\n";
    // Planted by a command, for the next run in that folder.
    for planted in ["USE_SANDBOX=false", "SAFEDIR=/", "no settings at all"] {
        let place = Place::with_workspace();
        let plant = format!("mkdir -p deep; echo '{planted}' | tee .env > deep/.env");
        assert_code(&place.exec(&[], &plant), 0);
        for folder in ["workspace", "workspace/deep"] {
            let workspace = place.here("workspace");
            let workspace = workspace.to_str().unwrap();
            let flag = [
                &["exec", "--workspace", workspace],
                &PRINT_USER_AND_FOLDER[1..],
            ]
            .concat();
            let mut by_flag = place.hotcell(flag);
            let output = run(by_flag.current_dir(place.here(folder)));
            assert_eq!(
                (stdout(&output).as_str(), stderr(&output).as_str()),
                (behind, notice)
            );
            let mut by_variable = place.hotcell(PRINT_USER_AND_FOLDER);
            by_variable
                .current_dir(place.here(folder))
                .env("SAFEDIR", workspace);
            let output = run(&mut by_variable);
            assert_eq!(
                (stdout(&output).as_str(), stderr(&output).as_str()),
                (behind, notice)
            );
        }
    }
}
