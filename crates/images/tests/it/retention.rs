//! How long the store keeps images, and when it removes them.

use std::fs;
use std::os::unix::fs::MetadataExt;

use images::{ImageError, export_oci};

use crate::fixtures::{ImportFixture, LayerBuilder, docker_files, error_chain, listing, tar_of};

fn archive(content: &str) -> Vec<u8> {
    let layer = LayerBuilder::default()
        .folder("bin")
        .file("bin/a", content)
        .hard_link("bin/b", "bin/a")
        .symlink("sh", "/bin/a")
        .file(&"long/".repeat(30), "")
        .file(&format!("{}x", "long/".repeat(30)), "deep");
    tar_of(&docker_files(&[layer.end()]))
}

#[test]
fn an_image_goes_with_its_last_name() {
    let scene = ImportFixture::new();
    let store = &scene.store;
    assert!(store.list().unwrap().is_empty());
    assert!(store.find("test").unwrap().is_none());
    let image = scene.import(&archive("one")).unwrap();
    let path = scene.folder.path().join("archive.tar");
    store.import("again", &path, None, &mut |_| {}).unwrap();
    let names: Vec<String> = store
        .list()
        .unwrap()
        .into_iter()
        .map(|image| image.name)
        .collect();
    assert_eq!(names, ["again", "test"]);
    let disk = store.disk(&image).unwrap();
    assert!(disk.is_file());

    assert_eq!(store.remove("test").unwrap().roots, 0);
    assert!(image.root.exists());
    let cleared = store.remove("again").unwrap();
    assert_eq!((cleared.roots, cleared.disks), (1, 1));
    assert!(!image.root.exists() && !disk.exists());
    scene.assert_nothing_left();
    let error = store.remove("again").unwrap_err();
    assert!(matches!(error, ImageError::Unknown(_)), "{error}");
}

#[test]
fn a_name_can_be_given_anew_and_what_it_meant_is_garbage() {
    let scene = ImportFixture::new();
    let old = scene.import(&archive("one")).unwrap();
    let new = scene.import(&archive("two")).unwrap();
    assert_ne!(old.digest, new.digest);
    assert!(old.root.exists(), "a sandbox may be using it");
    let cleared = scene.store.collect_garbage().unwrap();
    assert_eq!(cleared.roots, 1);
    assert!(cleared.bytes > 0);
    assert!(!old.root.exists() && new.root.exists());
    assert_eq!(scene.store.collect_garbage().unwrap().roots, 0);
}

#[test]
fn what_the_dead_left_is_swept_and_what_the_living_hold_is_not() {
    let scene = ImportFixture::new();
    let work = scene.folder.path().join("store/work");
    for name in ["dead", "dead-without-a-lock", "living"] {
        fs::create_dir_all(work.join(name).join("image/root/etc")).unwrap();
    }
    fs::write(work.join("dead/lock"), "").unwrap();
    let lock = fs::File::create(work.join("living/lock")).unwrap();
    lock.lock().unwrap();
    scene.import(&archive("one")).unwrap();
    let left: Vec<_> = fs::read_dir(&work)
        .unwrap()
        .flatten()
        .map(|one| one.file_name())
        .collect();
    assert_eq!(left, ["living"]);
    drop(lock);
    scene.store.collect_garbage().unwrap();
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
}

#[test]
fn a_store_that_was_tampered_with_says_so() {
    let scene = ImportFixture::new();
    let image = scene.import(&archive("one")).unwrap();
    fs::remove_file(image.root.parent().unwrap().join("about.json")).unwrap();
    let error = scene.store.find("test").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the image `test` is incomplete"),
        "{error}"
    );
    // Importing the image again repairs it.
    scene.import(&archive("one")).unwrap();
    scene.store.get("test").unwrap();
    fs::write(scene.folder.path().join("store/names/test.json"), "{").unwrap();
    let error = scene.store.find("test").unwrap_err();
    assert!(
        error_chain(&error).contains("EOF while parsing"),
        "{}",
        error_chain(&error)
    );
}

#[test]
fn names_that_are_none() {
    let scene = ImportFixture::new();
    for name in ["", "..", "a/b", "-x", "../../etc/passwd"] {
        let error = scene.store.find(name).unwrap_err();
        assert!(matches!(error, ImageError::Name(_)), "{name}: {error}");
        let path = scene.folder.path().join("none");
        let error = scene
            .store
            .import(name, &path, None, &mut |_| {})
            .unwrap_err();
        assert!(matches!(error, ImageError::Name(_)), "{name}: {error}");
    }
}

#[test]
fn an_export_is_always_the_same_and_can_be_imported() {
    let scene = ImportFixture::new();
    let image = scene.import(&archive("one")).unwrap();
    let export = || {
        let mut bytes = Vec::new();
        export_oci(&image, &mut bytes).unwrap();
        bytes
    };
    let bytes = export();
    assert!(bytes == export(), "two exports differ");
    let other = ImportFixture::new();
    let copy = other.import(&bytes).unwrap();
    assert_eq!(listing(&copy.root), listing(&image.root));
    let inode = |name: &str| fs::metadata(copy.root.join(name)).unwrap().ino();
    assert_eq!(inode("bin/a"), inode("bin/b"));
    let mtime = |root: &std::path::Path| fs::metadata(root.join("bin")).unwrap().mtime();
    assert_eq!(
        (mtime(&copy.root), mtime(&image.root)),
        (1_600_000_000, 1_600_000_000)
    );
    // The older form can be imported too.
    let mut tar = tar::Archive::new(bytes.as_slice());
    let names: Vec<String> = tar
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    for name in ["manifest.json", "index.json", "oci-layout"] {
        assert!(names.iter().any(|one| one == name), "{names:?}");
    }
}
