//! Builds with `mmdebstrap`: installs all packages in one step, from several archives, as root or as an
//! ordinary user.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::inputs::{BUILD_FOLDER, BuildInputs};
use crate::error::ImageError;
use crate::programs::HostPrograms;

/// The command that writes a root to stdout as a tar. `None` if the program is not installed.
pub(super) fn command(
    programs: &HostPrograms,
    kitchen: &BuildInputs,
) -> Result<Option<Command>, ImageError> {
    let Some(mmdebstrap) = programs.find("mmdebstrap") else {
        return Ok(None);
    };
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        check_subordinate_ids(programs)?;
    }
    let mut command = command_tied_to_parent(programs, is_root);
    command.arg(mmdebstrap);
    command.arg(if is_root {
        "--mode=root"
    } else {
        "--mode=unshare"
    });
    command.args(["--variant=minbase", "--format=tar"]);
    for option in &kitchen.options {
        command.arg(format!("--aptopt={option}"));
    }
    if !kitchen.packages.is_empty() {
        command.arg(format!("--include={}", kitchen.packages.join(",")));
    }
    command.arg("--customize-hook=tar-in files.tar /");
    if kitchen.has_commands {
        // stdout is the tar, so commands must not write to it.
        command.arg(format!(
            "--customize-hook=chroot \"$1\" /bin/sh /{BUILD_FOLDER}/run >&2"
        ));
    }
    command.arg(format!("--customize-hook=rm -rf \"$1/{BUILD_FOLDER}\""));
    command.args([&kitchen.suite, "-", "archives.sources"]);
    command.current_dir(&kitchen.folder);
    command.env_clear().env("PATH", programs.path_variable());
    command.env("LC_ALL", "C.UTF-8");
    command.env("TMPDIR", &kitchen.scratch);
    command.envs(kitchen.env.iter().map(|(name, value)| (name, value)));
    Ok(Some(command))
}

/// The start of a command that is killed when this process dies. As root it runs in its own PID and mount
/// namespace, so that its children and mounts go too.
pub(super) fn command_tied_to_parent(programs: &HostPrograms, is_root: bool) -> Command {
    let mut words: Vec<PathBuf> = Vec::new();
    let mut add = |all: &[&str]| words.extend(all.iter().map(PathBuf::from));
    if let Some(setpriv) = programs.find("setpriv").as_deref().and_then(Path::to_str) {
        // Without root, mmdebstrap must clean up itself: its files belong to subordinate ids.
        let signal = if is_root { "KILL" } else { "TERM" };
        add(&[setpriv, "--pdeathsig", signal]);
    }
    let unshare = programs.find("unshare");
    if let (true, Some(unshare)) = (is_root, unshare.as_deref().and_then(Path::to_str)) {
        add(&[unshare, "--mount", "--pid", "--fork", "--kill-child"]);
        add(&["--propagation", "private"]);
    }
    match words.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        // `env` just runs the command that follows.
        None => Command::new("/usr/bin/env"),
    }
}

/// Checks that the user has subordinate user and group ids, which builds without root need.
fn check_subordinate_ids(programs: &HostPrograms) -> Result<(), ImageError> {
    if programs.find("newuidmap").is_none() || programs.find("newgidmap").is_none() {
        return Err(ImageError::Unprivileged("newuidmap is not installed"));
    }
    let uid = nix::unistd::geteuid();
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    let name = user.map(|user| user.name).unwrap_or_default();
    for (file, why) in [
        (
            "/etc/subuid",
            "there is no line for this user in /etc/subuid",
        ),
        (
            "/etc/subgid",
            "there is no line for this user in /etc/subgid",
        ),
    ] {
        let text = fs::read_to_string(file).unwrap_or_default();
        let is_mine = |line: &str| {
            let owner = line.split(':').next().unwrap_or_default();
            !owner.is_empty() && (owner == name || owner == uid.to_string())
        };
        if !text.lines().any(is_mine) {
            return Err(ImageError::Unprivileged(why));
        }
    }
    Ok(())
}
