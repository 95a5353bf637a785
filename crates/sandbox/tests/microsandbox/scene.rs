//! A place for one test: a cache, an image, a workspace, and an `msb`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use sandbox::{Backend, Provisions, RootSpec, SandboxSpec};
use tempfile::TempDir;

pub(crate) struct Scene {
    place: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Self {
        // Whatever the usual folder for it: `msb` has sockets below, whose paths must be short.
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

    /// With the host's own programs as the image: the folders are only ever read.
    pub(crate) fn spec(&self, msb: &Path) -> SandboxSpec {
        let mut provisions = Provisions {
            cache: self.path("cache"),
            ..Provisions::default()
        };
        provisions.machines.microsandbox = msb.to_owned();
        // Whether a machine runs is for `msb` to find out.
        provisions.machines.kvm = "/dev/null".into();
        SandboxSpec {
            backend: Backend::Microsandbox,
            root: RootSpec::Image(self.path("image")),
            provisions: Arc::new(provisions),
            ..SandboxSpec::new(self.path("workspace"))
        }
    }

    /// What is left of sandboxes.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("cache/microsandbox"));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| !path.ends_with("home"))
            .collect()
    }

    /// A program of this name with this text. Written by another process: while this one has it open to
    /// write, a thread may start something that holds it open too, and then it cannot be run.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let (path, draft) = (self.path(name), self.path("draft"));
        fs::write(&draft, text).unwrap();
        let mut install = Command::new("install");
        let installed = install.arg("--mode=755").args([&draft, &path]).status();
        assert!(installed.unwrap().success(), "{name}");
        path
    }
}

/// The real `msb`, installed if need be.
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
            // Built by somebody else.

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

/// The program itself in an environment of Python's: the script that leads there runs a Python that
/// may be another user's.
fn bundled(place: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(place.join("lib")).ok()?.flatten();
    versions
        .map(|version| {
            let packages = version.path().join("site-packages");
            packages.join("microsandbox/_bundled/bin/msb")
        })
        .find(|program| program.exists())
}

/// An error and its causes, as a person sees them.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
