//! The backend under test for [`crate::any_walls`], as flags and variables of the program:
//! `HOTCELL_TEST_BACKEND`, default `native`. The other variables are those of the `sandbox` tests;
//! `HOTCELL_TEST_CACHE` is a folder called `hotcell`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The backend's name.
pub(crate) fn backend() -> String {
    env::var("HOTCELL_TEST_BACKEND").unwrap_or_else(|_| "native".into())
}

/// The flags of `exec`, `run` and `serve` that select it.
pub(crate) fn flags() -> Vec<String> {
    let mut flags = vec!["--backend".to_owned(), backend()];
    if let Ok(image) = env::var("HOTCELL_TEST_IMAGE") {
        flags.extend(["--rootfs".to_owned(), image]);
    }
    flags
}

/// Variables that describe the machine.
pub(crate) fn variables() -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    if let Ok(socket) = env::var("HOTCELL_TEST_DOCKER_SOCKET") {
        variables.push(("DOCKER_HOST", format!("unix://{socket}")));
    }
    if let Some(cache) = env::var_os("HOTCELL_TEST_CACHE").map(PathBuf::from) {
        assert!(cache.ends_with("hotcell"), "{}", cache.display());
        let above = cache.parent().unwrap().display().to_string();
        variables.push(("XDG_CACHE_HOME", above));
    }
    variables
}

/// The host's kernel, from `uname`.
pub(crate) fn host_kernel() -> String {
    let output = Command::new("uname").arg("-rv").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether commands run on that kernel.
pub(crate) fn shares_kernel() -> bool {
    !["gvisor", "microvm", "firecracker", "microsandbox"].contains(&&*backend())
}
