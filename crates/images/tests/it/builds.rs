//! Builds: real ones, with packages from the archive; the others with a fake `mmdebstrap` that fails, writes
//! bad output or records its calls.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use images::{HostPrograms, ImageError, ImageStore, PackageSources, Recipe, Reuse, StoredImage};
use tempfile::TempDir;

use crate::fixtures::{LayerBuilder, error_chain, listing};

const RECIPE: &str = r#"
from = "debian:bookworm"
packages = ["tree"]
run = [
    "tree --version > /opt/version",
    "test -n \"$SSL_CERT_FILE\" && grep -q fake \"$SSL_CERT_FILE\"",
    "echo \"$http_proxy|$HOME|$(id -u)\" > /opt/world; echo this is said",
]

[files."/opt/hello"]
content = "hello\n"
mode = "0755"

[files."/etc/brought"]
source = "brought"
"#;

fn recipe(text: &str) -> (TempDir, Recipe) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("brought"), "along").unwrap();
    let recipe = Recipe::parse("test", text, Some(folder.path())).unwrap();
    (folder, recipe)
}

/// The host's settings, without its proxy, and with a fake certificate.
fn sources() -> PackageSources {
    let mut sources = PackageSources::of_host(Path::new("/etc/apt"), &HostPrograms::default());
    sources.certificates = Some(b"fake".to_vec());
    sources
}

#[test]
fn a_real_build() {
    let folder = tempfile::tempdir().unwrap();
    check_build(folder.path(), &ImageStore::open(folder.path()));
}

/// With `debootstrap`, the fallback, which requires root.
#[test]
fn a_real_build_without_mmdebstrap() {
    let programs = tempfile::tempdir().unwrap();
    for folder in ["/usr/sbin", "/usr/bin"] {
        for program in fs::read_dir(folder).unwrap().flatten() {
            if program.file_name() != "mmdebstrap" {
                let link = programs.path().join(program.file_name());
                let _ = std::os::unix::fs::symlink(program.path(), link);
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = HostPrograms::in_folders([programs.path()]);
    let store = ImageStore::open(folder.path()).with_programs(programs);
    if nix::unistd::geteuid().is_root() {
        return check_build(folder.path(), &store);
    }
    let (_beside, recipe) = recipe(RECIPE);
    let refused = store.build("mine", &recipe, &sources(), Reuse::Allowed, &mut |_| {});
    assert!(
        matches!(refused, Err(ImageError::Unprivileged(_))),
        "{refused:?}"
    );
}

fn check_build(folder: &Path, store: &ImageStore) {
    let (_beside, recipe) = recipe(RECIPE);
    let mut said = Vec::new();
    let image = store
        .build("mine", &recipe, &sources(), Reuse::Allowed, &mut |step| {
            said.push(format!("{step:?}"));
        })
        .unwrap_or_else(|error| panic!("{}\n{}", error_chain(&error), said.join("\n")));
    assert!(
        said.iter().any(|line| line.contains("this is said")),
        "{said:?}"
    );
    let read = |name: &str| fs::read_to_string(image.root.join(name)).unwrap();
    let mode = |name: &str| fs::metadata(image.root.join(name)).unwrap().mode() & 0o7777;
    assert!(read("opt/version").starts_with("tree v"));
    assert_eq!(read("opt/world"), "|/root|0\n");
    assert_eq!(
        (read("opt/hello"), mode("opt/hello")),
        ("hello\n".to_owned(), 0o755)
    );
    assert_eq!(
        (read("etc/brought"), mode("etc/brought")),
        ("along".to_owned(), 0o644)
    );
    assert!(image.root.join("usr/bin/tree").is_file());
    assert_nothing_of_the_host(&image);

    // A second build, with another name, reuses the image.
    let mut steps = Vec::new();
    let again = store
        .build("other", &recipe, &sources(), Reuse::Allowed, &mut |step| {
            steps.push(format!("{step:?}"));
        })
        .unwrap();
    assert_eq!(steps, ["Cached"]);
    assert_eq!((&again.digest, &again.root), (&image.digest, &image.root));
    assert_eq!(fs::read_dir(folder.join("work")).unwrap().count(), 0);
}

fn assert_nothing_of_the_host(image: &StoredImage) {
    let owner = nix::unistd::geteuid().as_raw();
    let mut all = vec![image.root.clone()];
    while let Some(path) = all.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        assert_eq!(about.uid(), owner, "{}", path.display());
        let kind = about.file_type();
        assert!(
            kind.is_dir() || kind.is_file() || kind.is_symlink(),
            "{}",
            path.display()
        );
        if !kind.is_symlink() {
            assert_eq!(about.mode() & 0o6000, 0, "{}", path.display());
            assert_eq!(about.mode() & 0o600, 0o600, "{}", path.display());
        }
        if kind.is_dir() {
            all.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
    }
    for gone in [
        "etc/resolv.conf",
        "etc/hostname",
        "etc/apt/apt.conf.d/99mmdebstrap",
        ".hotcell-build",
    ] {
        assert!(!image.root.join(gone).exists(), "{gone}");
    }
    for empty in [
        "var/log",
        "var/lib/apt/lists",
        "var/cache/apt",
        "tmp",
        "dev",
        "etc/apt/sources.list.d",
    ] {
        let left = fs::read_dir(image.root.join(empty)).unwrap().count();
        assert_eq!(left, 0, "{empty}");
    }
    assert_eq!(fs::read(image.root.join("etc/machine-id")).unwrap(), b"");
    let archives = fs::read_to_string(image.root.join("etc/apt/sources.list")).unwrap();
    assert!(
        archives.starts_with("deb http://deb.debian.org/debian bookworm main\n"),
        "{archives}"
    );
}

/// A folder of programs in which `mmdebstrap` is the given script.
fn fake_mmdebstrap(script: &str) -> (TempDir, HostPrograms) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("mmdebstrap");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // `newuidmap` must be found, or the build fails early for an ordinary user.
    let path = [folder.path().to_str().unwrap(), "/usr/bin", "/bin"];
    let programs = HostPrograms::in_folders(path);
    (folder, programs)
}

fn build_with(script: &str, reuse: Reuse, store: &Path) -> Result<StoredImage, ImageError> {
    let (_folder, programs) = fake_mmdebstrap(script);
    let store = ImageStore::open(store).with_programs(programs);
    let (_beside, recipe) = recipe(RECIPE);
    store.build(
        "mine",
        &recipe,
        &PackageSources::default(),
        reuse,
        &mut |_| {},
    )
}

#[test]
fn builds_that_fail_leave_nothing_and_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let rubbish = folder.path().join("rubbish");
    fs::write(&rubbish, vec![7; 4096]).unwrap();
    let hostile = folder.path().join("hostile.tar");
    fs::write(
        &hostile,
        LayerBuilder::default().file("../../out", "x").end(),
    )
    .unwrap();
    for (script, why) in [
        (
            "echo 'I: one' >&2; echo 'E: Unable to locate package nothing' >&2; echo 'E: setup failed: E: apt-get exited with 100' >&2; exit 1",
            "cannot build the image: mmdebstrap: Unable to locate package nothing",
        ),
        (
            "echo '+ make thing' >&2; echo 'make: no rule' >&2; echo 'E: setup failed: E: command failed: chroot' >&2; exit 2",
            "cannot build the image: mmdebstrap: make: no rule",
        ),
        (
            "exit 3",
            "cannot build the image: mmdebstrap: exit status: 3",
        ),
        (
            "exit 0",
            "cannot accept the new root: it is not a whole tar: there is nothing in it",
        ),
        (
            &format!("cat {}", rubbish.display()),
            "cannot accept the new root: it is not a whole tar: the checksum of a header is wrong",
        ),
        (
            &format!("cat {}", hostile.display()),
            "cannot accept the new root: the entry `../../out` is refused: its name has `..` in it",
        ),
    ] {
        let store = folder.path().join("store");
        let error = build_with(script, Reuse::Allowed, &store).unwrap_err();
        assert_eq!(error_chain(&error), why);
        assert_eq!(fs::read_dir(store.join("work")).unwrap().count(), 0);
        assert!(!store.join("names/mine.json").exists() && !store.join("roots").exists());
    }
}

#[test]
fn a_recipe_is_built_once_unless_it_is_to_be_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let (tar, log) = (folder.path().join("root.tar"), folder.path().join("log"));
    // In a whole root, which has no layers below, `.wh.` names are ordinary names.
    fs::write(
        &tar,
        LayerBuilder::default()
            .file("x", "1")
            .file(".wh.x", "2")
            .end(),
    )
    .unwrap();
    let script = format!("echo run >> {}; cat {}", log.display(), tar.display());
    let store = folder.path().join("store");
    let build = |reuse| build_with(&script, reuse, &store).unwrap();
    let runs = || fs::read_to_string(&log).unwrap().lines().count();
    let first = build(Reuse::Allowed);
    let text = listing(&first.root);
    assert!(
        text.starts_with(".wh.x 644 2\n") && text.ends_with("x 644 1"),
        "{text}"
    );
    assert_eq!(runs(), 1);
    assert_eq!(build(Reuse::Allowed).digest, first.digest);
    assert_eq!(runs(), 1);
    fs::write(&tar, LayerBuilder::default().file("x", "new").end()).unwrap();
    let fresh = build(Reuse::Never);
    assert_ne!(fresh.digest, first.digest);
    assert_eq!(build(Reuse::Allowed).digest, fresh.digest);
    assert_eq!(runs(), 2);
    // A removed image is built again.
    ImageStore::open(&store).remove("mine").unwrap();
    build(Reuse::Allowed);
    assert_eq!(runs(), 3);
}

#[test]
fn two_at_once_build_once() {
    let folder = tempfile::tempdir().unwrap();
    let (tar, log) = (folder.path().join("root.tar"), folder.path().join("log"));
    fs::write(&tar, LayerBuilder::default().file("x", "1").end()).unwrap();
    let (started, go) = (folder.path().join("started"), folder.path().join("go"));
    let mode = nix::sys::stat::Mode::S_IRWXU;
    for pipe in [&started, &go] {
        nix::unistd::mkfifo(pipe, mode).unwrap();
    }
    // Signals that it has started, and waits for a line before it goes on.
    let script = format!(
        "echo run >> {}; echo >> {}; read -r word < {}; cat {}",
        log.display(),
        started.display(),
        go.display(),
        tar.display(),
    );
    let store = folder.path().join("store");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| build_with(&script, Reuse::Allowed, &store).unwrap());
        fs::read(&started).unwrap();
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let place = store.clone();
        let second = scope.spawn(move || {
            let (_folder, programs) = fake_mmdebstrap("exit 9");
            let (_beside, recipe) = recipe(RECIPE);
            let store = ImageStore::open(place).with_programs(programs);
            let mut tell = |step: images::ImageProgress<'_>| drop(waits.send(format!("{step:?}")));
            let sources = PackageSources::default();
            store
                .build("second", &recipe, &sources, Reuse::Allowed, &mut tell)
                .unwrap()
        });
        assert_eq!(is_waiting.recv().unwrap(), "Waiting");
        fs::write(&go, "go\n").unwrap();
        assert_eq!(first.join().unwrap().digest, second.join().unwrap().digest);
    });
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\n");
}

#[test]
fn nothing_to_build_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = ImageStore::open(folder.path().join("store"))
        .with_programs(HostPrograms::in_folders([folder.path()]));
    let (_beside, recipe) = recipe(RECIPE);
    let error = store
        .build(
            "mine",
            &recipe,
            &PackageSources::default(),
            Reuse::Allowed,
            &mut |_| {},
        )
        .unwrap_err();
    assert!(matches!(error, ImageError::NoBuilder), "{error}");
    assert_eq!(error.hint(), Some("install mmdebstrap"));
}
