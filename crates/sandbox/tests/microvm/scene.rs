//! Test environment: an image with a few programs of this machine, a cache, and machines made of
//! both.

use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command as Program;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sandbox::{Backend, BackendConfig, ExecCommand, Sandbox, SandboxSpec};
use tempfile::TempDir;

use crate::run_test::run_with_timeout;

/// Timeout of a test: booting an emulated machine on a busy host is slow.
const TEST_TIMEOUT: Duration = Duration::from_secs(500);

const PROGRAMS: &[&str] = &["bash", "sh", "true", "cat", "date", "uname", "od", "head"];

/// Runs a test with a timeout.
pub(crate) fn within(test: impl Future<Output = ()>) {
    run_with_timeout(TEST_TIMEOUT, test);
}

/// Copies programs with the libraries that the loader reports.
fn make_image(root: &Path) {
    let mut files = BTreeSet::new();
    for name in PROGRAMS {
        let program = format!("/usr/bin/{name}");
        let listed = Program::new("ldd").arg(&program).output().unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        let words = text.split_whitespace().filter(|word| word.starts_with('/'));
        files.extend(words.map(PathBuf::from));
        files.insert(program.into());
    }
    for file in files {
        for place in ["/usr", ""] {
            // On most systems one is a link to the other; an image may have both.
            let bare = file
                .strip_prefix("/usr")
                .or(file.strip_prefix("/"))
                .unwrap();
            let target = root.join(format!("{place}/{}", bare.display()).trim_start_matches('/'));
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(&file, &target).unwrap();
        }
    }
}

/// One image for all tests of this program.
pub(crate) fn image() -> &'static Path {
    static IMAGE: OnceLock<TempDir> = OnceLock::new();
    IMAGE
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            make_image(folder.path());
            folder
        })
        .path()
}

/// A folder that other users cannot read, like root's home.
fn cache() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

/// A cache and the machines that use it.
pub(crate) struct Fixture {
    pub(crate) cache: PathBuf,
    image: PathBuf,
    /// Removed with the last user.
    _folder: Option<TempDir>,
}

impl Fixture {
    /// A cache that all tests of this program share, so that only a few of them boot.
    pub(crate) fn shared() -> Self {
        static CACHE: OnceLock<TempDir> = OnceLock::new();
        let folder = CACHE.get_or_init(cache);
        Self {
            cache: folder.path().to_owned(),
            image: image().to_owned(),
            _folder: None,
        }
    }

    /// With its own cache.
    pub(crate) fn new() -> Self {
        let folder = cache();
        Self {
            cache: folder.path().to_owned(),
            image: image().to_owned(),
            _folder: Some(folder),
        }
    }

    /// With the cache and image of another process.
    pub(crate) fn from_other_process(cache: PathBuf, image: PathBuf) -> Self {
        Self {
            cache,
            image,
            _folder: None,
        }
    }

    /// The smallest machine, on a workspace.
    pub(crate) fn spec(&self, workspace: &Path) -> SandboxSpec {
        let mut spec = SandboxSpec::new(workspace);
        spec.backend = Backend::Microvm;
        spec.limits.memory = 128 << 20;
        spec.limits.cpus = 1.0;
        spec.provisions = Arc::new(BackendConfig {
            cache: self.cache.clone(),
            default_image: Some(self.image.clone()),
            ..BackendConfig::default()
        });
        spec
    }

    /// Folders of snapshots in the cache.
    pub(crate) fn snapshots(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache.join("machines")).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.join("memory").is_file())
            .collect()
    }
}

/// The output of a script, which must succeed.
pub(crate) async fn text(sandbox: &Sandbox, script: &str) -> String {
    let captured = sandbox.run(ExecCommand::script(script)).await.unwrap();
    assert!(captured.verdict.success(), "{script}: {captured:?}");
    String::from_utf8(captured.stdout).unwrap()
}

/// QEMU processes that have a mount from this folder. Other tests of this program have their own.
pub(crate) fn machines_on(folder: &Path) -> BTreeSet<u32> {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read("comm").starts_with("qemu") && read("mountinfo").contains(name)
        })
        .collect()
}
