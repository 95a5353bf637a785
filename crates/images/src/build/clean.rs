//! Removes traces of the host and of the build from a new root, so that an image does not reveal where it
//! was built.

use super::inputs::BUILD_FOLDER;
use crate::recipe::Recipe;
use crate::unpack::UnpackError;
use crate::unpack::tree::RootTree;

/// Files and folders that are removed.
const REMOVED_PATHS: &[&str] = &[
    BUILD_FOLDER,
    "etc/resolv.conf",
    "etc/hostname",
    "etc/hosts",
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "etc/apt/sources.list",
    "etc/apt/auth.conf",
    "etc/apt/apt.conf",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/apt.conf.d/99hotcell",
    "root/.npm",
    "root/.cache",
    "root/.bash_history",
    "root/.wget-hsts",
];

/// Folders that are emptied but kept.
const EMPTIED_FOLDERS: &[&str] = &[
    "dev",
    "proc",
    "sys",
    "run",
    "tmp",
    "var/tmp",
    "var/log",
    "var/lib/apt/lists",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/ldconfig",
    "var/cache/man",
    "etc/apt/sources.list.d",
    "etc/apt/auth.conf.d",
];

pub(super) fn remove_host_traces(tree: &mut RootTree, recipe: &Recipe) -> Result<(), UnpackError> {
    // Files of the recipe are kept.
    let is_asked_for = |path: &str| {
        let inside = |file: &String| {
            let file = file.trim_start_matches('/');
            file == path
                || file
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        recipe.files.keys().any(inside)
    };
    for path in REMOVED_PATHS.iter().filter(|path| !is_asked_for(path)) {
        tree.remove(path)?;
    }
    for path in EMPTIED_FOLDERS.iter().filter(|path| !is_asked_for(path)) {
        tree.empty(path)?;
    }
    // An empty `machine-id` is filled in on first boot.
    for (path, content) in [
        ("etc/machine-id", String::new()),
        (
            "etc/hosts",
            "127.0.0.1 localhost\n::1 localhost\n".to_owned(),
        ),
        ("etc/apt/sources.list", public_sources_list(recipe)),
    ] {
        if !is_asked_for(path) {
            tree.write(path, 0o644, content.as_bytes())?;
        }
    }
    Ok(())
}

/// A `sources.list` with Debian's public archives for the suite.
fn public_sources_list(recipe: &Recipe) -> String {
    let suite = &recipe.suite;
    format!(
        "deb http://deb.debian.org/debian {suite} main\n\
         deb http://deb.debian.org/debian {suite}-updates main\n\
         deb http://deb.debian.org/debian-security {suite}-security main\n"
    )
}
