//! Results persist between runs, and are invalidated when anything they depend on changes.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;

struct Fixture {
    folder: tempfile::TempDir,
    provisions: BackendConfig,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runsc = folder.path().join("runsc");
        fs::write(&runsc, "one").unwrap();
        let mut provisions = BackendConfig {
            cache: folder.path().join("cache"),
            ..BackendConfig::default()
        };
        provisions.gvisor.runsc = runsc;
        Self { folder, provisions }
    }

    fn keep(&self, backend: Backend) {
        let proof = ProbeResult {
            works: true,
            memory: Some(7),
            ..ProbeResult::of(backend)
        };
        let mut proofs = ProbeCache::read(&self.provisions);
        proofs.keep(proof, &self.provisions).unwrap();
    }

    fn known(&self) -> Vec<&'static str> {
        let proofs = ProbeCache::read(&self.provisions);
        proofs
            .all()
            .iter()
            .map(|proof| proof.backend.name())
            .collect()
    }
}

#[test]
fn a_verdict_is_kept_once_until_it_is_forgotten() {
    let scene = Fixture::new();
    assert!(scene.known().is_empty());
    for backend in [Backend::Gvisor, Backend::Podman, Backend::Gvisor] {
        scene.keep(backend);
    }
    assert_eq!(scene.known(), ["podman", "gvisor"]);
    let mut proofs = ProbeCache::read(&scene.provisions);
    assert_eq!(proofs.all()[1].memory, Some(7));
    proofs.forget(Backend::Podman, &scene.provisions).unwrap();
    assert_eq!(scene.known(), ["gvisor"]);
    let mut names: Vec<_> = fs::read_dir(&scene.provisions.cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["proofs.json", "proofs.lock"]);
}

#[test]
fn another_program_setting_or_release_voids_it() {
    type Change = fn(&mut Fixture);
    let check = |name: &str, change: Change, is_void: bool| {
        let mut scene = Fixture::new();
        scene.keep(Backend::Gvisor);
        change(&mut scene);
        assert_eq!(scene.known().is_empty(), is_void, "{name}");
    };
    check("nothing", |_| {}, false);
    check(
        "an upgrade",
        |scene| fs::write(scene.folder.path().join("runsc"), "another").unwrap(),
        true,
    );
    check(
        "a removal",
        |scene| fs::remove_file(scene.folder.path().join("runsc")).unwrap(),
        true,
    );
    check(
        "a setting of its own",
        |scene| scene.provisions.gvisor.platform = Some("ptrace".into()),
        true,
    );
    check(
        "another's setting",
        |scene| scene.provisions.machines.kernel = Some("/a/kernel".into()),
        false,
    );
    check(
        "another release's verdict",
        |scene| {
            let file = file(&scene.provisions);
            let text = fs::read_to_string(&file).unwrap();
            let mut written: ProbeCacheFile = serde_json::from_str(&text).unwrap();
            written.proofs[0].stamp = "00".repeat(16);
            fs::write(&file, serde_json::to_vec(&written).unwrap()).unwrap();
        },
        true,
    );
}

#[test]
fn what_is_broken_or_open_to_others_proves_nothing_and_is_replaced() {
    let check = |name: &str, spoil: fn(&Path)| {
        let scene = Fixture::new();
        scene.keep(Backend::Gvisor);
        spoil(&file(&scene.provisions));
        assert!(scene.known().is_empty(), "{name}");
        scene.keep(Backend::Podman);
        assert_eq!(scene.known(), ["podman"], "{name}");
    };
    check("cut off", |file| {
        let text = fs::read(file).unwrap();
        fs::write(file, &text[..text.len() / 2]).unwrap();
    });
    check("empty", |file| fs::write(file, "").unwrap());
    check("another form", |file| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    });
    check("open to others", |file| {
        fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    });
    check("a link", |file| {
        let other = file.with_extension("other");
        fs::rename(file, &other).unwrap();
        std::os::unix::fs::symlink(other, file).unwrap();
    });
}

#[test]
fn many_at_once_lose_nothing() {
    let scene = Fixture::new();
    std::thread::scope(|scope| {
        for backend in Backend::WALLED {
            let scene = &scene;
            scope.spawn(move || scene.keep(backend));
        }
    });
    assert_eq!(scene.known().len(), Backend::WALLED.len());
}

#[test]
fn a_lock_that_somebody_keeps_is_not_waited_for_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lock");
    let held = super::lock_within(super::open_private(&file).unwrap(), Duration::ZERO).unwrap();
    let error = super::lock_within(
        super::open_private(&file).unwrap(),
        Duration::from_millis(20),
    );
    assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    drop(held);
    super::lock_within(super::open_private(&file).unwrap(), Duration::ZERO).unwrap();
}
