//! Archives as tools write them: both forms, compressed and not, with several layers. Inconsistent archives
//! are refused.

use std::fs;
use std::path::Path;

use images::{Digest, ImageError, ImageProgress, StoredImage};
use serde_json::{Value, json};
use tar::EntryType;

use crate::fixtures::{
    ArchiveFiles, ImportFixture, LayerBuilder, config, docker_files, error_chain, gzip, listing,
    oci_files, tar_of, zstd,
};

const EXPECTED_LISTING: &str = "etc/ 755\netc/hosts 644 two\nlib -> usr/lib\nusr/ 755\nusr/lib/ 755\n\
    usr/lib/x 644 through the link\nvar/ 755\nvar/old/ 755\nvar/old/a 644 1";

fn good_layers() -> Vec<Vec<u8>> {
    let first = LayerBuilder::default()
        .folder("etc/")
        .file("etc/hosts", "one")
        .file("etc/motd", "hello")
        .folder("var/")
        .folder("var/old/")
        .file("var/old/a", "1")
        .symlink("lib", "usr/lib");
    let second = LayerBuilder::default()
        .folder("usr/lib")
        .file("etc/.wh.motd", "")
        .file("etc/hosts", "two")
        .file("lib/x", "through the link");
    vec![first.end(), second.end()]
}

#[test]
fn every_form_makes_the_same_image() {
    let layers = good_layers();
    let plain = |bytes: &[u8]| bytes.to_vec();
    let docker = docker_files(&layers);
    let oci = oci_files(&layers, plain, "");
    let mut both = docker.clone();
    both.extend(oci.clone());
    let archives = [
        ("docker", tar_of(&docker)),
        ("docker, packed", gzip(&tar_of(&docker))),
        ("docker, packed with zstd", zstd(&tar_of(&docker))),
        ("oci", tar_of(&oci)),
        ("oci, gzip", tar_of(&oci_files(&layers, gzip, "+gzip"))),
        ("oci, zstd", tar_of(&oci_files(&layers, zstd, "+zstd"))),
        ("both", tar_of(&both)),
    ];
    let expected = Digest::of(&serde_json::to_vec(&config(&layers)).unwrap());
    for (form, archive) in archives {
        let scene = ImportFixture::new();
        let image = scene
            .import(&archive)
            .unwrap_or_else(|error| panic!("{form}: {}", error_chain(&error)));
        assert_eq!(listing(&image.root), EXPECTED_LISTING, "{form}");
        assert_eq!(image.digest, expected, "{form}");
        let env = [("PATH", "/opt/bin"), ("LANG", "C.UTF-8")];
        assert_eq!(
            image.env,
            env.map(|(name, value)| (name.into(), value.into())),
            "{form}"
        );
        let found: StoredImage = scene.store.find("test").unwrap().unwrap();
        assert_eq!(
            (found.digest, found.root),
            (image.digest, image.root),
            "{form}"
        );
    }
}

#[test]
fn gzip_in_several_members_and_a_pipe() {
    let layers = good_layers();
    let halves = |bytes: &[u8]| {
        let (one, two) = bytes.split_at(bytes.len() / 2);
        [gzip(one), gzip(two)].concat()
    };
    let scene = ImportFixture::new();
    let image = scene
        .import(&tar_of(&oci_files(&layers, halves, "+gzip")))
        .unwrap();
    assert_eq!(listing(&image.root), EXPECTED_LISTING);

    let scene = ImportFixture::new();
    let pipe = scene.folder.path().join("pipe");
    let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
    nix::unistd::mkfifo(&pipe, mode).unwrap();
    let (writer, bytes) = (pipe.clone(), tar_of(&docker_files(&layers)));
    let writer = std::thread::spawn(move || fs::write(writer, bytes).unwrap());
    let image = scene
        .store
        .import("test", &pipe, None, &mut |_| {})
        .unwrap();
    writer.join().unwrap();
    assert_eq!(listing(&image.root), EXPECTED_LISTING);
}

#[test]
fn what_a_layer_hides() {
    #[track_caller]
    fn check(layers: &[LayerBuilder], expected: &str) {
        let layers: Vec<Vec<u8>> = layers.iter().cloned().map(LayerBuilder::end).collect();
        let scene = ImportFixture::new();
        let image = scene.import(&tar_of(&docker_files(&layers))).unwrap();
        assert_eq!(listing(&image.root), expected);
    }
    let layer = LayerBuilder::default;
    let below = layer()
        .folder("d")
        .file("d/a", "1")
        .folder("d/e")
        .file("d/e/f", "2")
        .file("g", "3");
    // Whiteouts of a file, of a folder, and of a name that does not exist.
    check(
        &[below.clone(), layer().file("d/.wh.a", "")],
        "d/ 755\nd/e/ 755\nd/e/f 644 2\ng 644 3",
    );
    check(&[below.clone(), layer().file(".wh.d", "")], "g 644 3");
    check(
        &[
            below.clone(),
            layer().file("x/y/.wh.z", ""),
            layer().file(".wh.d", ""),
        ],
        "g 644 3",
    );
    // Removed and created again in one layer, in either order.
    let expected = "d/ 755\nd/new 644 n\ng 644 3";
    check(
        &[
            below.clone(),
            layer().file(".wh.d", "").folder("d").file("d/new", "n"),
        ],
        expected,
    );
    check(
        &[
            below.clone(),
            layer().folder("d").file("d/new", "n").file(".wh.d", ""),
        ],
        expected,
    );
    // An opaque whiteout removes the lower layers' entries and keeps this layer's, in either order.
    let opaque = "d/.wh..wh..opq";
    check(
        &[below.clone(), layer().file(opaque, "").file("d/new", "n")],
        expected,
    );
    check(
        &[
            below.clone(),
            layer().folder("d").file("d/new", "n").file(opaque, ""),
        ],
        expected,
    );
    let deep = "d/ 755\nd/e/ 755\nd/e/new 644 n\ng 644 3";
    check(
        &[below.clone(), layer().file("d/e/new", "n").file(opaque, "")],
        deep,
    );
    // A whiteout of a link does not remove its target.
    let linked = layer().folder("d").file("d/a", "1").symlink("l", "d");
    check(
        &[linked.clone(), layer().file(".wh.l", "")],
        "d/ 755\nd/a 644 1",
    );
    // A whiteout of one of two hard links.
    let twice = layer().file("a", "1");
    check(
        &[twice, layer().hard_link("b", "a").file(".wh.a", "")],
        "b 644 1",
    );
    // Names that are private to tools.
    check(
        &[below, layer().file(".wh..wh.plnk", "").file(".wh.d", "")],
        "g 644 3",
    );
}

#[test]
fn a_whiteout_without_a_name_is_refused() {
    for name in [".wh.", ".wh...", "d/.wh.."] {
        let scene = ImportFixture::new();
        let layer = LayerBuilder::default().file(name, "").end();
        let error = scene.import(&tar_of(&docker_files(&[layer]))).unwrap_err();
        assert!(
            error_chain(&error).ends_with("its name is a whiteout without a name"),
            "{error}"
        );
        scene.assert_nothing_left();
    }
}

#[test]
fn older_archives_have_layers_that_are_links_to_others() {
    let layer = good_layers().swap_remove(0);
    let mut files = docker_files(&[layer.clone(), layer]);
    files.remove("1/layer.tar");
    let mut archive = LayerBuilder::default();
    for (name, content) in &files {
        archive = archive.raw(name, EntryType::Regular, "", 0o644, content);
    }
    let linked = archive.clone().symlink("1/layer.tar", "../0/layer.tar");
    let scene = ImportFixture::new();
    scene.import(&linked.end()).unwrap();

    let out = archive.symlink("1/layer.tar", "../../../../etc/passwd");
    let error = ImportFixture::new().import(&out.end()).unwrap_err();
    assert!(
        error_chain(&error).ends_with("there is no `1/layer.tar`"),
        "{}",
        error_chain(&error)
    );
}

/// Corrupts an archive.
type Corruption = fn(&mut ArchiveFiles);

/// Changes a JSON file of an archive without updating digests.
fn change(files: &mut ArchiveFiles, name: &str, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&files[name]).unwrap();
    change(&mut value);
    files.insert(name.to_owned(), serde_json::to_vec(&value).unwrap());
}

fn config_name(files: &ArchiveFiles) -> String {
    files
        .keys()
        .find(|name| name.ends_with(".json") && *name != "manifest.json")
        .unwrap()
        .clone()
}

#[test]
fn docker_archives_that_are_not_what_they_say() {
    let cases: [(&str, Corruption); 9] = [
        ("where sha256:", |files| {
            let changed = LayerBuilder::default().file("etc/hosts", "evil").end();
            files.insert("1/layer.tar".into(), changed);
        }),
        ("where sha256:", |files| {
            let name = config_name(files);
            change(files, &name, |config| {
                config["created"] = json!("2020-01-01T00:00:00Z")
            });
        }),
        ("there is no `1/layer.tar`", |files| {
            drop(files.remove("1/layer.tar"))
        }),
        (".json`", |files| drop(files.remove(&config_name(files)))),
        ("it has 1 layers where its configuration has 2", |files| {
            change(files, "manifest.json", |manifest| {
                manifest[0]["Layers"] = json!(["0/layer.tar"])
            });
        }),
        ("EOF while parsing a list at line 1 column 1", |files| {
            files.insert("manifest.json".into(), b"[".to_vec());
        }),
        ("in the archive, only some without names", |files| {
            files.insert("manifest.json".into(), b"[]".to_vec());
        }),
        (
            "neither what `docker save` writes nor an OCI layout",
            |files| {
                files.remove("manifest.json");
            },
        ),
        ("missing field `Layers` at line 1 column 14", |files| {
            files.insert("manifest.json".into(), br#"[{"Config":""}]"#.to_vec());
        }),
    ];
    for (why, spoil) in cases {
        let mut files = docker_files(&good_layers());
        spoil(&mut files);
        let scene = ImportFixture::new();
        let error = scene.import(&tar_of(&files)).unwrap_err();
        assert!(
            error_chain(&error).contains(why),
            "{why}: {}",
            error_chain(&error)
        );
        scene.assert_nothing_left();
    }
}

/// Changes the manifest of a layout and updates the digests that refer to it.
fn rewrite_manifest(files: &mut ArchiveFiles, change_manifest: impl Fn(&mut Value)) {
    change(files, "index.json", |_| {});
    let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    let digest = index["manifests"][0]["digest"]
        .as_str()
        .unwrap()
        .replace("sha256:", "");
    let name = format!("blobs/sha256/{digest}");
    let mut manifest: Value = serde_json::from_slice(&files[&name]).unwrap();
    change_manifest(&mut manifest);
    let bytes = serde_json::to_vec(&manifest).unwrap();
    let digest = Digest::of(&bytes);
    change(files, "index.json", |index| {
        index["manifests"][0]["digest"] = json!(digest.to_string());
        index["manifests"][0]["size"] = json!(bytes.len());
    });
    files.insert(format!("blobs/sha256/{}", digest.hex()), bytes);
}

#[test]
fn layouts_that_are_not_what_they_say() {
    let cases: [(&str, Corruption); 9] = [
        ("are promised", |files| {
            // The blob of the largest layer, one byte longer.
            let name = largest_blob(files);
            files.get_mut(&name).unwrap().push(0);
        }),
        ("where sha256:", |files| {
            let name = largest_blob(files);
            let bytes = files.get_mut(&name).unwrap();
            let last = bytes.len() - 9;
            bytes[last] ^= 0xff;
        }),
        ("is incomplete: there is no `blobs/sha256/", |files| {
            drop(files.remove(&largest_blob(files)))
        }),
        ("bytes where", |files| {
            rewrite_manifest(files, |one| one["config"]["size"] = json!(3))
        }),
        (
            "its configuration is of the type `application/vnd.cncf.helm.config.v1+json`",
            |files| {
                rewrite_manifest(files, |one| {
                    one["config"]["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
                });
            },
        ),
        (
            "a layer is of the type `application/vnd.oci.image.layer.v1.tar+encrypted`",
            |files| {
                rewrite_manifest(files, |one| {
                    let kind = "application/vnd.oci.image.layer.v1.tar+encrypted";
                    one["layers"][0]["mediaType"] = json!(kind);
                });
            },
        ),
        ("is not a digest of the form", |files| {
            rewrite_manifest(files, |one| {
                one["layers"][0]["digest"] = json!("sha256:../../../etc/passwd")
            });
        }),
        ("it is for plan9/mips and not for linux/", |files| {
            change(files, "index.json", |index| {
                index["manifests"][0]["platform"] = json!({"os": "plan9", "architecture": "mips"});
                let second = index["manifests"][0].clone();
                index["manifests"] = json!([second]);
            });
        }),
        ("its index is nested too deep", |files| {
            // An index that refers to an index that refers to an index …
            for _ in 0..6 {
                let bytes = files["index.json"].clone();
                let digest = Digest::of(&bytes);
                let top = json!({"schemaVersion": 2, "manifests": [{
                    "mediaType": "application/vnd.oci.image.index.v1+json",
                    "digest": digest.to_string(), "size": bytes.len(),
                }]});
                files.insert(format!("blobs/sha256/{}", digest.hex()), bytes);
                files.insert("index.json".into(), serde_json::to_vec(&top).unwrap());
            }
        }),
    ];
    for (why, spoil) in cases {
        let mut files = oci_files(&good_layers(), gzip, "+gzip");
        spoil(&mut files);
        let scene = ImportFixture::new();
        let error = scene.import(&tar_of(&files)).unwrap_err();
        assert!(
            error_chain(&error).contains(why),
            "{why}: {}",
            error_chain(&error)
        );
        scene.assert_nothing_left();
    }
}

fn largest_blob(files: &ArchiveFiles) -> String {
    let blobs = files
        .iter()
        .filter(|(_, bytes)| bytes.starts_with(&[0x1f, 0x8b]));
    blobs
        .max_by_key(|(_, bytes)| bytes.len())
        .unwrap()
        .0
        .clone()
}

#[test]
fn one_of_several_images_is_chosen_by_name() {
    let layers = good_layers();
    let mut files = docker_files(&layers);
    change(&mut files, "manifest.json", |manifest| {
        let mut second = manifest[0].clone();
        second["RepoTags"] = json!(["example.com/other:2"]);
        manifest.as_array_mut().unwrap().push(second);
    });
    let scene = ImportFixture::new();
    let error = scene.import(&tar_of(&files)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there are several images in the archive: example.com/test:1, example.com/other:2"
    );
    let path = scene.folder.path().join("archive.tar");
    let import = |reference| scene.store.import("x", &path, Some(reference), &mut |_| {});
    import("example.com/other:2").unwrap();
    let error = import("nothing:1").unwrap_err();
    assert!(
        matches!(error, ImageError::NoSuchReference { .. }),
        "{error}"
    );
}

#[test]
fn what_is_no_archive_at_all() {
    let scene = ImportFixture::new();
    for (bytes, why) in [
        (&b""[..], "there is nothing in it"),
        (b"hello", "it is cut off in a header"),
        (&[0; 4096], "there is nothing in it"),
        (&[0x1f, 0x8b, 8, 0], "reading or writing failed: "),
        (
            &[0x28, 0xb5, 0x2f, 0xfd, 0xff],
            "reading or writing failed: ",
        ),
    ] {
        let error = scene.import(bytes).unwrap_err();
        assert!(error_chain(&error).contains(why), "{}", error_chain(&error));
        scene.assert_nothing_left();
    }
    let error = scene
        .store
        .import("x", Path::new("/nonexistent"), None, &mut |_| {})
        .unwrap_err();
    assert!(
        error_chain(&error).contains("No such file"),
        "{}",
        error_chain(&error)
    );
}

#[test]
fn the_same_image_is_unpacked_once() {
    let scene = ImportFixture::new();
    let archive = tar_of(&docker_files(&good_layers()));
    let first = scene.import(&archive).unwrap();
    let mut steps = Vec::new();
    let path = scene.folder.path().join("archive.tar");
    let second = scene
        .store
        .import("second", &path, None, &mut |step| {
            steps.push(format!("{step:?}"))
        })
        .unwrap();
    assert_eq!(second.root, first.root);
    assert_eq!(steps, [format!("{:?}", ImageProgress::Cached)]);
}
