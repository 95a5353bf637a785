//! `hotcell image`: the life of an image in the store, and errors.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use images::Digest;
use insta::assert_snapshot;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::bad_input::errors_for;
use crate::place::{
    Place, assert_code, eventually, feed, is_root, processes_with, run, stderr, stdout,
};

/// An archive as `docker save` writes it, with one layer made of this folder.
fn archive(place: &Place, folder: &Path) -> Vec<u8> {
    let tar = |folder: &Path, names: &[&str]| {
        let mut command = place.program("tar");
        command
            .arg("-C")
            .arg(folder)
            .args(["--sort=name", "-cf", "-"]);
        let output = run(command.args(names));
        assert_code(&output, 0);
        output.stdout
    };
    let parts = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(parts.path().join(name), bytes).unwrap();
    let layer = tar(folder, &["."]);
    let architecture = match std::env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let config = json!({
        "architecture": architecture, "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": [Digest::of(&layer).to_string()] },
    });
    write("layer.tar", &layer);
    write("config.json", config.to_string().as_bytes());
    let manifest = json!([{
        "Config": "config.json", "RepoTags": ["example.com/tools:1"], "Layers": ["layer.tar"],
    }]);
    write("manifest.json", manifest.to_string().as_bytes());
    tar(parts.path(), &["config.json", "layer.tar", "manifest.json"])
}

/// A root with one static program.
fn small_archive(place: &Place) -> Vec<u8> {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("opt")).unwrap();
    fs::write(root.path().join("opt/hello"), "from the image\n").unwrap();
    archive(place, root.path())
}

#[test]
fn the_way_of_an_image() {
    let place = Place::new();
    let image = |arguments: &[&str]| {
        let output = run(&mut place.hotcell([&["image"], arguments].concat()));
        assert_code(&output, 0);
        stdout(&output)
    };
    assert_eq!(
        image(&["list"]),
        "no images yet: `hotcell image build base` builds one\n"
    );
    assert_eq!(image(&["list", "--json"]), "");
    fs::write(place.here("tools.tar"), small_archive(&place)).unwrap();
    let said = image(&["import", "tools", "tools.tar"]);
    assert!(
        said.starts_with("tools  ") && said.ends_with("  5 kB\n"),
        "{said}"
    );
    let listed = image(&["list"]);
    assert!(
        listed.ends_with("  imported, example.com/tools:1\n"),
        "{listed}"
    );
    let shown: Value = serde_json::from_str(&image(&["show", "tools", "--json"])).unwrap();
    assert_eq!(shown["origin"]["reference"], "example.com/tools:1");
    let root = Path::new(shown["root"].as_str().unwrap());
    assert!(root.starts_with(place.home()), "{root:?}");
    assert_eq!(
        fs::read_to_string(root.join("opt/hello")).unwrap(),
        "from the image\n"
    );

    // Exported, and imported again through a pipe.
    image(&["export", "tools", "out.tar"]);
    image(&["export", "tools", "disk", "--format", "disk"]);
    assert!(fs::metadata(place.here("disk")).unwrap().len() > 0);
    let exported = run(&mut place.hotcell(["image", "export", "tools", "-"]));
    assert!(
        exported.stdout == fs::read(place.here("out.tar")).unwrap(),
        "two exports differ"
    );
    let again = feed(
        &mut place.hotcell(["image", "import", "again", "-"]),
        &exported.stdout,
    );
    assert_code(&again, 0);
    let again: Value = serde_json::from_str(&image(&["show", "again", "--json"])).unwrap();
    assert_eq!(
        again["origin"]["reference"],
        "localhost/hotcell/tools:latest"
    );
    let copy = Path::new(again["root"].as_str().unwrap());
    assert_eq!(
        fs::read_to_string(copy.join("opt/hello")).unwrap(),
        "from the image\n"
    );

    let output = run(&mut place.hotcell(["image", "export", "tools", "out.tar"]));
    assert_code(&output, 2);
    assert!(stderr(&output).starts_with("hotcell: `out.tar` already exists\nhint: "));
    image(&["export", "tools", "out.tar", "--force"]);

    assert_eq!(
        image(&["remove", "tools", "again"]),
        "removed tools\nremoved again\n"
    );
    assert!(!root.exists() && !copy.exists());
    assert_eq!(image(&["prune"]), "removed 0 images without a name, 0 kB\n");
}

#[test]
fn wrong_words() {
    let said = errors_for(&[
        "image build nothing",
        "image build ./missing.toml",
        "image build base --name a/b",
        "image import a/b file",
        "image import x missing",
        "image import x folder",
        "image pull :1",
        "image pull x --name -y",
        "image show nothing",
        "image show ..",
        "image remove nothing",
        "image export nothing out",
        "image export nothing out --format zip",
    ]);
    assert_snapshot!(said, @r"
        $ image build nothing
        hotcell: there is no recipe `nothing`
        hint: there are base, desktop; a file is written as `./nothing.toml`

        $ image build ./missing.toml
        hotcell: cannot read the recipe `./missing.toml`: No such file or directory (os error 2)

        $ image build base --name a/b
        hotcell: cannot call an image `a/b`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins with a letter or a digit

        $ image import a/b file
        hotcell: cannot call an image `a/b`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins with a letter or a digit

        $ image import x missing
        hotcell: cannot read the archive `missing`: No such file or directory (os error 2)
        hint: `docker save -o FILE IMAGE` and `podman save -o FILE IMAGE` write one

        $ image import x folder
        hotcell: cannot read the archive `folder`: it is a folder
        hint: `docker save -o FILE IMAGE` and `podman save -o FILE IMAGE` write one

        $ image pull :1
        hotcell: cannot understand the reference `:1`: invalid reference format
        hint: a reference has the form `registry.example/team/image:tag`

        $ image pull x --name -y
        hotcell: unexpected argument '-y' found
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage

        $ image show nothing
        hotcell: there is no image `nothing`
        hint: `hotcell image list` shows those there are

        $ image show ..
        hotcell: cannot call an image `..`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins with a letter or a digit

        $ image remove nothing
        hotcell: there is no image `nothing`
        hint: `hotcell image list` shows those there are

        $ image export nothing out
        hotcell: there is no image `nothing`
        hint: `hotcell image list` shows those there are

        $ image export nothing out --format zip
        hotcell: invalid value 'zip' for '--format <FORMAT>'
        hint: one of oci, disk
    ");
}

#[test]
fn what_cannot_be_imported() {
    let place = Place::new();
    let whole = small_archive(&place);
    let mut changed = whole.clone();
    // In the content of the layer's file.
    let at = changed
        .windows(14)
        .position(|bytes| bytes == b"from the image")
        .unwrap();
    changed[at] ^= 1;
    for (bytes, why) in [
        (&b""[..], "it is not a whole tar: there is nothing in it"),
        (b"hello", "it is not a whole tar: it is cut off in a header"),
        (
            &whole[..whole.len() / 2],
            "it is not a whole tar: it is cut off",
        ),
        (&changed, "where sha256:"),
    ] {
        let output = feed(&mut place.hotcell(["image", "import", "x", "-"]), bytes);
        assert_code(&output, 1);
        let said = stderr(&output);
        let complaint = said
            .lines()
            .find(|line| line.starts_with("hotcell: cannot "));
        assert!(complaint.is_some_and(|line| line.contains(why)), "{said}");
        assert_eq!(
            stdout(&run(&mut place.hotcell(["image", "list", "--json"]))),
            ""
        );
    }
}

#[test]
fn a_registry_that_is_not_there() {
    let place = Place::new();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let reference = format!("{closed}/tools:1");
    let output = run(&mut place.hotcell(["image", "pull", &reference]));
    assert_code(&output, 1);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    let expected = format!("hotcell: cannot fetch `{reference}`: ");
    assert!(
        said.starts_with(&expected) && said.contains("refused"),
        "{said}"
    );
}

/// A build killed in the middle leaves no process, and no files after the next prune.
#[test]
fn a_build_that_is_killed() {
    let place = Place::new();
    fs::write(place.here("my.toml"), "from = \"debian:bookworm\"\n").unwrap();
    let mut command = place.hotcell(["image", "build", "./my.toml"]);
    if !is_root() {
        // Whether an ordinary user can build depends on the machine; in `test-as-user` it cannot.
        let output = run(&mut command);
        assert_code(&output, 1);
        let said = stderr(&output);
        assert!(
            said.contains("cannot build an image as an ordinary user: "),
            "{said}"
        );
        assert!(said.contains("\nhint: "), "{said}");
        return;
    }
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = std::io::BufRead::lines(errors);
    let is_under_way = lines.any(|line| line.unwrap().contains("running apt-get update"));
    assert!(is_under_way, "it ended before it began");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    let images = place.home().join(".local/share/hotcell/images");
    let marker = images.to_str().unwrap();
    eventually("its processes are gone", || {
        let alive = processes_with(marker);
        alive.is_empty()
    });
    assert!(fs::read_dir(images.join("work")).unwrap().count() > 0);
    assert!(!images.join("names").exists() && !images.join("roots").exists());
    let output = run(&mut place.hotcell(["image", "prune"]));
    assert_code(&output, 0);
    assert_eq!(fs::read_dir(images.join("work")).unwrap().count(), 0);
}
