//! The backend under test: `HOTCELL_TEST_BACKEND`, or `native`. The tests are the same for all of
//! them; where backends differ on purpose, a function of [`nature`] says how. [`traces`] shows what
//! the host sees of a sandbox, [`leftovers`] what it left there. [`run_test`] runs a test.
//!
//! | variable | means |
//! |---|---|
//! | `HOTCELL_TEST_BACKEND` | the backend |
//! | `HOTCELL_TEST_IMAGE` | a folder with a root file system, for backends that need one |
//! | `HOTCELL_TEST_CACHE` | a folder whose snapshots and disks outlive one test program |
//! | `HOTCELL_TEST_DOCKER_SOCKET` | where the Docker daemon listens |
//! | `HOTCELL_TEST_FRACTION` | divides the numbers of the tests that load the machine: 5 is a fifth |

#![allow(dead_code, reason = "each of the test programs uses a part of it")]

pub(crate) mod leftovers;
pub(crate) mod nature;
pub(crate) mod run_test;
pub(crate) mod traces;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox::{Backend, BackendConfig, SandboxSpec};

/// Panics on an unknown name, so that a typing error does not test another backend.
pub(crate) fn backend() -> Backend {
    let Ok(name) = env::var("HOTCELL_TEST_BACKEND") else {
        return Backend::Native;
    };
    let found = Backend::WALLED.into_iter().find(|one| one.name() == name);
    found.unwrap_or_else(|| panic!("HOTCELL_TEST_BACKEND: there is no backend `{name}`"))
}

/// The default sandbox of that backend on a workspace.
pub(crate) fn spec(workspace: impl AsRef<Path>) -> SandboxSpec {
    SandboxSpec {
        backend: backend(),
        provisions: Arc::new(provisions()),
        ..SandboxSpec::new(workspace.as_ref())
    }
}

/// The folder of the image that is the root, for backends that need one.
pub(crate) fn image() -> Option<PathBuf> {
    env::var_os("HOTCELL_TEST_IMAGE").map(PathBuf::from)
}

fn provisions() -> BackendConfig {
    let mut provisions = BackendConfig {
        default_image: image(),
        ..BackendConfig::default()
    };
    if let Some(cache) = env::var_os("HOTCELL_TEST_CACHE") {
        provisions.cache = cache.into();
    }
    if let Some(socket) = env::var_os("HOTCELL_TEST_DOCKER_SOCKET") {
        provisions.containers.docker_socket = socket.into();
    }
    provisions
}

/// Scales a number of a test that loads the machine.
pub(crate) fn portion(number: u64) -> u64 {
    let fraction = env::var("HOTCELL_TEST_FRACTION");
    let fraction = fraction.map_or(1, |text| text.parse().expect("a whole number"));
    (number / fraction).max(1)
}
