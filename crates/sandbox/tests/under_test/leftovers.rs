//! Leftovers of an owner of sandboxes outside of any process: folders and containers that carry its
//! pid. Removes nothing. Entry point: [`leftovers`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::Backend;

/// Everything with this pid in its name, in the places that sandboxes use.
pub(crate) fn leftovers(owner: u32) -> Vec<String> {
    let user = nix::unistd::geteuid();
    let places = [
        super::provisions().cache,
        std::env::temp_dir(),
        PathBuf::from("/tmp"),
        PathBuf::from("/run"),
        PathBuf::from(format!("/run/user/{user}")),
        PathBuf::from("/dev/shm"),
        PathBuf::from("/var/tmp"),
    ];
    let mut found = Vec::new();
    for place in places {
        look(&place, owner, 3, &mut found);
    }
    found.sort();
    found.dedup();
    found.extend(containers(owner));
    found
}

/// Numbers within a name: `run-4711-88` has two.
fn numbers(name: &str) -> impl Iterator<Item = u32> {
    name.split(|one: char| !one.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
}

fn look(folder: &Path, owner: u32, depth: u32, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = path.to_string_lossy().contains("hotcell");
        if is_ours && numbers(&name).any(|number| number == owner) {
            found.push(path.display().to_string());
        } else if is_ours && depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&path, owner, depth - 1, found);
        }
    }
}

/// Containers of an engine, running or not, with the label of that owner.
fn containers(owner: u32) -> Vec<String> {
    let mut command = match super::backend() {
        Backend::Podman => Command::new(super::provisions().containers.podman),
        Backend::Docker => {
            let socket = super::provisions().containers.docker_socket;
            let mut docker = Command::new("docker");
            docker
                .arg("--host")
                .arg(format!("unix://{}", socket.display()));
            docker
        }
        _ => return Vec::new(),
    };
    let format = "{{.ID}} {{.Labels}}";
    command.args([
        "ps",
        "--all",
        "--no-trunc",
        "--filter",
        "label=hotcell.owner",
        "--format",
        format,
    ]);
    let listed = command.output().expect("the engine's program is installed");
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let owned = listed.lines().filter(|line| {
        let (_, labels) = line.split_once("hotcell.owner").unwrap_or_default();
        numbers(labels).next() == Some(owner)
    });
    owned.map(str::to_owned).collect()
}
