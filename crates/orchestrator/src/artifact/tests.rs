//! Zips of workspaces, checked with other programs.

#![allow(clippy::unwrap_used)]

mod redteam;

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::StreamExt;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;
use zip::ZipArchive;

use super::*;

const MAX_ZIP_BYTES: u64 = 1 << 30;

/// A workspace, and a path next to it for the zip.
struct ArtifactScene {
    home: TempDir,
}

impl ArtifactScene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("workspace")).unwrap();
        Self { home }
    }

    fn workspace(&self) -> PathBuf {
        self.home.path().join("workspace")
    }

    fn output(&self) -> PathBuf {
        self.home.path().join("output.zip")
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn pack(&self, bounds: ZipLimits) -> Artifact {
        let artifact = pack(&self.workspace(), &self.output(), bounds).unwrap();
        check_zip(&self.output(), &artifact);
        artifact
    }
}

/// Checks a zip with other programs and against its record.
fn check_zip(zip: &Path, artifact: &Artifact) {
    check_readable(zip);
    let bytes = fs::read(zip).unwrap();
    assert_eq!(bytes.len() as u64, artifact.bytes);
    use sha2::Digest;
    let hash = hex::encode(sha2::Sha256::digest(&bytes));
    assert_eq!(hash, artifact.sha256);
    let mut archive = ZipArchive::new(File::open(zip).unwrap()).unwrap();
    let mut files = 0;
    for index in 0..archive.len() {
        files += u64::from(archive.by_index(index).unwrap().is_file());
    }
    assert_eq!(files, artifact.files);
    let beside = fs::read_dir(zip.parent().unwrap()).unwrap();
    let partial = beside.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().ends_with(PARTIAL_SUFFIX)
    });
    assert_eq!(partial.count(), 0);
}

/// Checks that two other programs can read the whole zip.
pub(super) fn check_readable(zip: &Path) {
    let script = "
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
bad = archive.testzip()
sys.exit(f'bad: {bad}' if bad else 0)";
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(zip)
        .output();
    let python = python.unwrap();
    assert!(python.status.success(), "{python:?}");
    let unzip = Command::new("unzip")
        .args(["-qt"])
        .arg(zip)
        .output()
        .unwrap();
    // It warns of a zip without entries, which is fine.
    let is_empty = ZipArchive::new(File::open(zip).unwrap())
        .unwrap()
        .is_empty();
    assert!(unzip.status.success() || is_empty, "{unzip:?}");
}

/// Names and contents of the entries of a zip.
fn contents(zip: &Path) -> Vec<(String, String)> {
    let mut archive = ZipArchive::new(File::open(zip).unwrap()).unwrap();
    let mut found = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        found.push((entry.name().unwrap().into_owned(), text));
    }
    found
}

fn names(zip: &Path) -> Vec<String> {
    contents(zip).into_iter().map(|(name, _)| name).collect()
}

fn left_out(artifact: &Artifact) -> Vec<String> {
    let line = |one: &protocol::job::LeftOut| format!("{}: {}", one.path, one.reason);
    artifact.left_out.iter().map(line).collect()
}

#[test]
fn a_zip_holds_the_files_their_modes_and_their_times() {
    let scene = ArtifactScene::new();
    let tool = scene.write("bin/tool", "#!/bin/sh\n");
    fs::set_permissions(&tool, Permissions::from_mode(0o4755)).unwrap();
    let note = scene.write("note.txt", "größe\n".repeat(1000));
    let time = UNIX_EPOCH + Duration::from_secs(1_600_000_001);
    File::options()
        .write(true)
        .open(&note)
        .unwrap()
        .set_modified(time)
        .unwrap();
    scene.write("empty.txt", "");
    scene.write("ünï/cödé", "x");
    fs::create_dir(scene.workspace().join("hollow")).unwrap();
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert_eq!(left_out(&artifact), [""; 0]);
    assert_eq!(artifact.files, 4);
    let expect = ["empty.txt", "note.txt", "bin/tool", "hollow/", "ünï/cödé"];
    assert_eq!(names(&scene.output()), expect);
    // As another program unpacks it.
    let into = scene.home.path().join("unpacked");
    let mut unzip = Command::new("unzip");
    unzip.arg("-q").arg(scene.output()).arg("-d").arg(&into);
    assert!(unzip.status().unwrap().success());
    assert_eq!(
        fs::read(into.join("note.txt")).unwrap(),
        fs::read(&note).unwrap()
    );
    let metadata = into.join("note.txt").metadata().unwrap();
    assert_eq!(metadata.modified().unwrap(), time);
    let mode = into
        .join("bin/tool")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
    assert!(into.join("hollow").is_dir());
    // Packing again gives the same bytes.
    assert_eq!(scene.pack(ZipLimits::of(MAX_ZIP_BYTES)), artifact);
}

#[test]
fn entries_that_are_no_files_are_left_out_and_listed() {
    let scene = ArtifactScene::new();
    scene.write("file", "file");
    symlink("/etc/passwd", scene.workspace().join("out")).unwrap();
    symlink("file", scene.workspace().join("in")).unwrap();
    symlink("..", scene.workspace().join("up")).unwrap();
    mkfifo(&scene.workspace().join("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.workspace().join("socket"));
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert_eq!(
        contents(&scene.output()),
        [("file".to_owned(), "file".to_owned())]
    );
    assert_eq!(
        left_out(&artifact),
        [
            "fifo: neither a file nor a folder",
            "in: a link to `file`",
            "out: a link to `/etc/passwd`",
            "socket: neither a file nor a folder",
            "up: a link to `..`",
        ]
    );
    for number in 0..200 {
        symlink("x", scene.workspace().join(format!("many-{number}"))).unwrap();
    }
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert_eq!(artifact.left_out.len(), 100);
    assert_eq!(left_out(&artifact).last().unwrap(), "…: and 106 more");
}

#[test]
fn limits_leave_out_only_what_exceeds_them() {
    let scene = ArtifactScene::new();
    let noise: Vec<u8> = (0..1 << 20).map(|_| fastrand::u8(..)).collect();
    scene.write("a-small", "small");
    scene.write("b-noise", &noise);
    scene.write("c-text", "text ".repeat(1 << 18));
    scene.write("d-small", "small");
    let all = ZipLimits::of(MAX_ZIP_BYTES);
    let check = |bounds: ZipLimits, expect: &[&str], left: &[&str]| {
        let artifact = scene.pack(bounds);
        assert!(artifact.bytes <= bounds.packed, "{artifact:?}");
        assert_eq!(names(&scene.output()), expect);
        assert_eq!(left_out(&artifact), left);
    };
    check(all, &["a-small", "b-noise", "c-text", "d-small"], &[]);
    let whole = scene.pack(all).bytes;
    assert!(whole < (1 << 20) + (64 << 10), "{whole}");
    // Random data does not compress, but text does.
    let packed = ZipLimits {
        packed: 1 << 20,
        ..all
    };
    let why = "b-noise: the zip may have 1048576 bytes";
    check(packed, &["a-small", "c-text", "d-small"], &[why]);
    let unpacked = ZipLimits {
        unpacked: (1 << 20) + 10,
        ..all
    };
    let why = "c-text: too large: all files may have 1048586 bytes together";
    check(unpacked, &["a-small", "b-noise", "d-small"], &[why]);
    let files = ZipLimits { files: 4, ..all };
    check(files, &["a-small", "b-noise", "c-text", "d-small"], &[]);
    let artifact = scene.pack(ZipLimits { files: 3, ..all });
    assert_eq!(artifact.files, 3);
    assert_eq!(
        left_out(&artifact),
        ["…: the workspace has more than 3 files"]
    );
    let none = ZipLimits { packed: 0, ..all };
    let artifact = pack(&scene.workspace(), &scene.output(), none).unwrap();
    assert_eq!((artifact.files, artifact.left_out.len()), (0, 4));
}

#[test]
fn unpacking_a_zip_is_limited() {
    let scene = ArtifactScene::new();
    scene.write("a-small", "small");
    let sparse = File::create(scene.workspace().join("b-sparse")).unwrap();
    sparse.set_len(200 << 20).unwrap();
    let huge = File::create(scene.workspace().join("c-huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    scene.write("d-small", "small");
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert_eq!(names(&scene.output()), ["a-small", "d-small"]);
    assert_eq!(
        left_out(&artifact),
        [
            "b-sparse: the files would be more than 100 times as large as the zip",
            "c-huge: too large: all files may have 8589934592 bytes together",
        ]
    );
    assert!(artifact.bytes < 1 << 20);
}

#[test]
fn more_entries_than_the_old_format_counts() {
    let scene = ArtifactScene::new();
    for folder in 0..70 {
        let folder = scene.workspace().join(folder.to_string());
        fs::create_dir(&folder).unwrap();
        for file in 0..1000 {
            File::create(folder.join(file.to_string())).unwrap();
        }
    }
    let artifact = scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert_eq!((artifact.files, artifact.left_out.len()), (70_000, 0));
}

/// A writer that fails with a full disk after some bytes.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.checked_sub(bytes.len()) {
            Some(left) => {
                self.0 = left;
                Ok(bytes.len())
            }
            None => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_at_every_byte() {
    let scene = ArtifactScene::new();
    for number in 0..20 {
        scene.write(&number.to_string(), number.to_string().repeat(100));
    }
    let whole = scene.pack(ZipLimits::of(MAX_ZIP_BYTES)).bytes;
    let tree = UntrustedTree::open(&scene.workspace()).unwrap();
    let try_with = |room: u64| {
        let room = FullDisk(usize::try_from(room).unwrap());
        Packer::new(room, ZipLimits::of(MAX_ZIP_BYTES)).pack(&tree)
    };
    for room in 0..whole {
        let error = try_with(room).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(try_with(whole).unwrap().bytes, whole);
}

#[test]
fn a_zip_appears_whole_or_not_at_all() {
    let scene = ArtifactScene::new();
    scene.write("file", "file");
    let leftover = scene.home.path().join("output.zip.0123.partial");
    fs::write(&leftover, "half").unwrap();
    fs::write(scene.home.path().join("output.zip.other"), "kept").unwrap();
    scene.pack(ZipLimits::of(MAX_ZIP_BYTES));
    assert!(!leftover.exists());
    assert!(scene.home.path().join("output.zip.other").exists());
    let gone = scene.home.path().join("gone");
    let error = pack(&gone, &scene.output(), ZipLimits::of(MAX_ZIP_BYTES)).unwrap_err();
    assert_eq!(error.to_string(), "cannot pack the workspace");
    assert_eq!(names(&scene.output()), ["file"]);
}

#[tokio::test]
async fn a_stream_is_the_same_zip() {
    let scene = ArtifactScene::new();
    let noise: Vec<u8> = (0..3 << 20).map(|_| fastrand::u8(..)).collect();
    scene.write("noise", &noise);
    scene.write("text", "text");
    symlink("text", scene.workspace().join("link")).unwrap();
    let bounds = ZipLimits::of(MAX_ZIP_BYTES);
    let pieces: Vec<_> = stream(scene.workspace(), bounds).collect().await;
    let bytes: Vec<u8> = pieces
        .into_iter()
        .flat_map(|piece| piece.unwrap())
        .collect();
    scene.pack(bounds);
    assert!(fs::read(scene.output()).unwrap() == bytes);
    let archive = ZipArchive::new(io::Cursor::new(bytes)).unwrap();
    let comment = String::from_utf8(archive.comment().to_vec()).unwrap();
    assert_eq!(
        comment,
        "Not as in the workspace:\nlink: a link to `text`\n"
    );
    let gone = scene.home.path().join("gone");
    let pieces: Vec<_> = stream(gone, bounds).collect().await;
    assert!(matches!(pieces.as_slice(), [Err(error)] if error.kind() == io::ErrorKind::NotFound));
}

/// The test ends only when the packing thread ends.
#[tokio::test]
async fn a_stream_ends_with_its_reader() {
    let scene = ArtifactScene::new();
    let noise: Vec<u8> = (0..16 << 20).map(|_| fastrand::u8(..)).collect();
    scene.write("noise", &noise);
    let mut pieces = Box::pin(stream(scene.workspace(), ZipLimits::of(MAX_ZIP_BYTES)));
    assert_eq!(pieces.next().await.unwrap().unwrap().len(), 64 << 10);
    drop(pieces);
}
