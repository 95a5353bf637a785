//! The environment of one test: a cache, an image, a workspace, and an `msb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use sandbox::{Backend, BackendConfig, RootSpec, SandboxSpec};
use tempfile::TempDir;

pub(crate) struct Fixture {
    place: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        // In `/tmp`, because `msb` has sockets below, whose paths must be short.
        let place = tempfile::tempdir_in("/tmp").unwrap();
        for folder in ["image/etc", "workspace"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("image/etc/motd"), "of the image").unwrap();
        Self { place }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// With the host's own programs as the image, which are only read.
    pub(crate) fn spec(&self, msb: &Path) -> SandboxSpec {
        let mut provisions = BackendConfig {
            cache: self.path("cache"),
            ..BackendConfig::default()
        };
        provisions.machines.microsandbox = msb.to_owned();
        // Lets `msb` itself find out whether a machine runs.
        provisions.machines.kvm = "/dev/null".into();
        SandboxSpec {
            backend: Backend::Microsandbox,
            root: RootSpec::Image(self.path("image")),
            provisions: Arc::new(provisions),
            ..SandboxSpec::new(self.path("workspace"))
        }
    }

    /// Leftovers of sandboxes.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/microsandbox"));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| !path.ends_with("home"))
            .collect()
    }

    /// Makes a program with this text. Uses another process for writing: while this one has the
    /// file open, another thread may fork and inherit the descriptor, and executing it would fail.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let (path, draft) = (self.path(name), self.path("draft"));
        fs::write(&draft, text).unwrap();
        let mut install = Command::new("install");
        let installed = install.arg("--mode=755").args([&draft, &path]).status();
        assert!(installed.unwrap().success(), "{name}");
        path
    }
}

/// The real `msb`, installed if needed.
pub(crate) fn msb() -> PathBuf {
    static MSB: OnceLock<PathBuf> = OnceLock::new();
    MSB.get_or_init(|| {
        if let Some(named) = std::env::var_os("HOTCELL_TEST_MSB") {
            return named.into();
        }
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("msb");
        let place = if bundled(&shared).is_some() || fs::create_dir_all(&shared).is_ok() {
            shared
        } else {
            // Installed by another process already.

            let user = nix::unistd::geteuid();
            std::env::temp_dir().join(format!("hotcell-msb-{user}"))
        };
        if bundled(&place).is_none() {
            let run = |command: &mut Command| {
                let output = command.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{command:?}: {said}");
            };
            run(Command::new("python3").args(["-m", "venv"]).arg(&place));
            run(Command::new(place.join("bin/pip")).args([
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "microsandbox>=0.7.11,<0.8",
            ]));
        }
        bundled(&place).expect("the package has it")
    })
    .clone()
}

/// The program itself in a Python environment: the wrapper script runs a Python that may belong to
/// another user.
fn bundled(place: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(place.join("lib")).ok()?.flatten();
    versions
        .map(|version| {
            let packages = version.path().join("site-packages");
            packages.join("microsandbox/_bundled/bin/msb")
        })
        .find(|program| program.exists())
}
