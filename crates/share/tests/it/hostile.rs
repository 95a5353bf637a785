//! A hostile machine can neither make the server leave its folder nor crash it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::io::Errno;
use tempfile::TempDir;

use crate::peer::{
    CREATE, FakeKernel, GET_ATTRIBUTES, LINK, LOOKUP, MAKE_FOLDER, OPEN, OPEN_FOLDER, READ,
    READ_LINK, RENAME, ROOT, SET_ATTRIBUTES, UNLINK, WRITE, fields, message, number,
};

const SECRET: &str = "what nobody inside may read";

/// A folder with symlinks that lead out of it, and their targets.
struct EscapeScene {
    home: TempDir,
    before: (u64, u64, i64, i64, u32),
}

impl EscapeScene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("folder");
        fs::create_dir_all(folder.join("below/deeper")).unwrap();
        fs::create_dir(home.path().join("outside")).unwrap();
        fs::write(home.path().join("outside/canary"), SECRET).unwrap();
        fs::write(folder.join("file"), "harmless").unwrap();
        fs::write(folder.join("below/canary"), "harmless").unwrap();
        symlink(home.path().join("outside"), folder.join("way")).unwrap();
        symlink("../outside/canary", folder.join("straight")).unwrap();
        let fifo = FileType::Fifo;
        mknodat(CWD, folder.join("fifo"), fifo, Mode::RWXU, 0).unwrap();
        let before = fingerprint(&home.path().join("outside/canary"));
        Self { home, before }
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("folder")
    }

    fn outside(&self) -> PathBuf {
        self.home.path().join("outside")
    }

    /// Asserts that nothing outside was read or changed.
    fn check(&self, answers: &[u8]) {
        let is_told = answers
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes());
        assert!(!is_told, "the canary was read");
        assert_eq!(fingerprint(&self.outside().join("canary")), self.before);
        let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!((names(&self.outside()), names(self.home.path())), (1, 2));
    }
}

fn fingerprint(path: &Path) -> (u64, u64, i64, i64, u32) {
    let file = fs::symlink_metadata(path).unwrap();
    (
        file.ino(),
        file.nlink(),
        file.mtime_nsec(),
        file.ctime_nsec(),
        file.mode(),
    )
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let scene = EscapeScene::new();
    let mut peer = FakeKernel::new(&scene.folder());
    let below = peer.look_up(ROOT, "below").unwrap();
    for name in [
        "",
        ".",
        "..",
        "/",
        "below/canary",
        "../outside",
        "/etc",
        "way/canary",
    ] {
        for (operation, body) in [
            (LOOKUP, format!("{name}\0").into_bytes()),
            (UNLINK, format!("{name}\0").into_bytes()),
            (MAKE_FOLDER, fields(&[0o755, 0], &format!("{name}\0"))),
            (CREATE, fields(&[0o2, 0o644, 0, 0], &format!("{name}\0"))),
            (
                RENAME,
                fields(&[ROOT as u32, 0], &format!("file\0{name}\0")),
            ),
            (
                RENAME,
                fields(&[ROOT as u32, 0], &format!("{name}\0file\0")),
            ),
            (LINK, fields(&[below as u32, 0], &format!("{name}\0"))),
        ] {
            let answer = peer.ask(operation, below, &body);
            assert_eq!(
                answer,
                Err(Errno::INVAL.raw_os_error()),
                "{operation} {name:?}"
            );
        }
    }
    let long = format!("{}\0", "x".repeat(256));
    let answer = peer.ask(LOOKUP, ROOT, long.as_bytes());
    assert_eq!(answer, Err(Errno::NAMETOOLONG.raw_os_error()));
    assert!(peer.end().success());
    scene.check(&[]);
}

#[test]
fn no_symlink_is_followed() {
    let scene = EscapeScene::new();
    let mut peer = FakeKernel::new(&scene.folder());
    let mut told = Vec::new();
    for name in ["way", "straight", "fifo"] {
        let node = peer.look_up(ROOT, name).unwrap();
        assert_ne!(node, 0);
        told.extend(peer.ask(READ_LINK, node, &[]).unwrap_or_default());
        for flags in [0, 1, 2, 0o1000, 0o1002] {
            peer.ask(OPEN, node, &fields(&[flags, 0], "")).unwrap_err();
            let body = fields(&[flags, 0o666, 0, 0], &format!("{name}\0"));
            peer.ask(CREATE, ROOT, &body).unwrap_err();
        }
        peer.ask(OPEN_FOLDER, node, &[0; 8]).unwrap_err();
        peer.look_up(node, "canary").unwrap_err();
        peer.ask(CREATE, node, &fields(&[0o2, 0o644, 0, 0], "new\0"))
            .unwrap_err();
        peer.ask(MAKE_FOLDER, node, &fields(&[0o755, 0], "new\0"))
            .unwrap_err();
        peer.ask(UNLINK, node, b"canary\0").unwrap_err();
        // Truncation of the link itself must fail.
        let mut size = vec![0; 88];
        size[0] = 8;
        peer.ask(SET_ATTRIBUTES, node, &size).unwrap_err();
        // A mode change must not affect the target.
        let mut mode = vec![0; 88];
        mode[0] = 1;
        let _ = peer.ask(SET_ATTRIBUTES, node, &mode);
    }
    assert!(peer.end().success());
    scene.check(&told[..0]);
}

#[test]
fn numbers_that_were_never_given_are_refused() {
    let scene = EscapeScene::new();
    let mut peer = FakeKernel::new(&scene.folder());
    for node in [0, 2, 77, u64::MAX] {
        assert_eq!(peer.look_up(node, "x"), Err(Errno::STALE.raw_os_error()));
        peer.ask(OPEN, node, &[0; 8]).unwrap_err();
    }
    let file = peer.look_up(ROOT, "file").unwrap();
    let open = peer.ask(OPEN, file, &[0; 8]).unwrap();
    let handle = number(&open);
    for (wrong, offset) in [
        (handle + 1, 0),
        (u64::MAX, 0),
        (handle, u64::MAX),
        (handle, 1 << 63),
    ] {
        let mut body = wrong.to_le_bytes().to_vec();
        body.extend_from_slice(&u64::to_le_bytes(offset));
        body.extend_from_slice(&4096u32.to_le_bytes());
        body.extend_from_slice(&[0; 20]);
        peer.ask(READ, file, &body).unwrap_err();
        peer.ask(WRITE, file, &body).unwrap_err();
    }
    // More `Forget`s than lookups.
    peer.look_up(ROOT, "below").unwrap();
    let forget = |node: u64| message(2, 0, node, &u64::MAX.to_le_bytes());
    let bytes = [forget(ROOT), forget(file), forget(99)].concat();
    assert!(peer.send_and_end(&bytes).0.success());
    scene.check(&[]);
}

/// A node number refers to one file, even if its names change, and never to another file of that name.
#[test]
fn a_number_means_a_file_and_not_a_name() {
    let scene = EscapeScene::new();
    let folder = scene.folder();
    let mut peer = FakeKernel::new(&folder);
    let below = peer.look_up(ROOT, "below").unwrap();
    let file = peer.look_up(ROOT, "file").unwrap();
    let inode = fs::metadata(folder.join("file")).unwrap().ino();
    let links = |peer: &mut FakeKernel, node| {
        let answer = peer.ask(GET_ATTRIBUTES, node, &[0; 16])?;
        assert_eq!(number(&answer[16..]), inode);
        Ok::<u32, i32>(u32::from_le_bytes(answer[80..84].try_into().unwrap()))
    };
    assert_eq!(links(&mut peer, file), Ok(1));
    // Move the file and its folder.
    peer.ask(RENAME, ROOT, &fields(&[below as u32, 0], "file\0moved\0"))
        .unwrap();
    peer.ask(
        RENAME,
        ROOT,
        &fields(&[ROOT as u32, 0], "below\0elsewhere\0"),
    )
    .unwrap();
    assert_eq!(links(&mut peer, file), Ok(1));
    // Add a second name, then remove the first.
    peer.ask(LINK, ROOT, &fields(&[file as u32, 0], "again\0"))
        .unwrap();
    peer.ask(UNLINK, below, b"moved\0").unwrap();
    assert_eq!(links(&mut peer, file), Ok(1));
    // The host replaces the file: the number refers to neither.
    fs::write(folder.join("draft"), "not this one").unwrap();
    fs::rename(folder.join("again"), folder.join("aside")).unwrap();
    fs::rename(folder.join("draft"), folder.join("again")).unwrap();
    assert_eq!(links(&mut peer, file), Err(Errno::STALE.raw_os_error()));
    let opened = peer.ask(OPEN, file, &fields(&[2, 0], ""));
    assert_eq!(opened, Err(Errno::STALE.raw_os_error()));
    // Look it up again, and remove it while the kernel knows it.
    assert_eq!(peer.look_up(ROOT, "aside"), Ok(file));
    peer.ask(UNLINK, ROOT, b"aside\0").unwrap();
    assert_eq!(links(&mut peer, file), Ok(0));
    // The host replaces a folder by a symlink.
    let deeper = peer.look_up(below, "deeper").unwrap();
    fs::rename(
        folder.join("elsewhere/deeper"),
        folder.join("elsewhere/old"),
    )
    .unwrap();
    symlink(scene.outside(), folder.join("elsewhere/deeper")).unwrap();
    assert!(
        peer.look_up(deeper, "canary")
            .map_or(true, |node| node == 0)
    );
    assert!(peer.end().success());
    scene.check(&[]);
}

/// A message that is valid or nearly valid.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "file", "below", "way", "straight", "fifo", "canary", "..", "deeper", "new",
    ];
    let name =
        proptest::sample::select(names.to_vec()).prop_map(|name| format!("{name}\0").into_bytes());
    let small = prop_oneof![0..9u32, Just(0o100_644), Just(u32::MAX), any::<u32>()];
    let numbers = vec(
        small.prop_map(|number| number.to_le_bytes().to_vec()),
        0..24,
    );
    let numbers = numbers.prop_map(|numbers| numbers.concat());
    let body = prop_oneof![
        4 => (numbers.clone(), vec(name, 0..3)).prop_map(|(numbers, names)| [numbers, names.concat()].concat()),
        1 => vec(any::<u8>(), 0..200),
    ];
    let node = prop_oneof![8 => 0..9u64, 1 => any::<u64>()];
    let whole = (0..56u32, node, body)
        .prop_map(|(operation, node, body)| message(operation, 7, node, &body));
    prop_oneof![
        20 => whole.clone(),
        // Truncated, or with a wrong length.
        1 => (whole.clone(), 0..60usize).prop_map(|(mut message, length)| {
            message.truncate(length);
            message
        }),
        1 => (whole, any::<u32>()).prop_map(|(mut message, length)| {
            message[..4].copy_from_slice(&length.to_le_bytes());
            message
        }),
    ]
}

#[test]
fn no_bytes_bring_the_server_down_or_out() {
    let config = Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    };
    // The first lookups assign the numbers that the messages use.
    let start: Vec<u8> = ["below", "way", "straight", "fifo", "file"]
        .iter()
        .flat_map(|name| message(LOOKUP, 1, ROOT, format!("{name}\0").as_bytes()))
        .collect();
    TestRunner::new(config)
        .run(&vec(any_message(), 1..60), |messages| {
            let scene = EscapeScene::new();
            let bytes = [start.clone(), messages.concat()].concat();
            let (status, answers) = FakeKernel::new(&scene.folder()).send_and_end(&bytes);
            // A channel error exits with 1. A panic or a signal has another status.
            prop_assert!(matches!(status.code(), Some(0 | 1)), "{}", status);
            scene.check(&answers);
            Ok(())
        })
        .unwrap();
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The host repeatedly exchanges a folder for a symlink that leads out.
#[test]
fn a_race_with_the_host_leads_nowhere() {
    let scene = EscapeScene::new();
    let folder = scene.folder();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let exchange = RenameFlags::EXCHANGE;
                renameat_with(CWD, folder.join("below"), CWD, folder.join("way"), exchange)
                    .unwrap();
            }
        });
        // Also on panic.
        let _ending = StopOnDrop(&is_over);
        let mut peer = FakeKernel::new(&folder);
        let mut worked = 0;
        for round in 0..3000 {
            let name = format!("{round}\0");
            let Ok(below) = peer.look_up(ROOT, "below") else {
                continue;
            };
            if let Ok(canary) = peer.look_up(below, "canary")
                && let Ok(open) = peer.ask(OPEN, canary, &fields(&[2, 0], ""))
            {
                let mut body = number(&open).to_le_bytes().to_vec();
                body.extend_from_slice(&[0; 8]);
                body.extend_from_slice(&4096u32.to_le_bytes());
                body.extend_from_slice(&[0; 20]);
                let content = peer.ask(READ, canary, &body).unwrap();
                assert_eq!(content, b"harmless");
                peer.ask(
                    18,
                    canary,
                    &[number(&open).to_le_bytes(), [0; 8], [0; 8]].concat(),
                )
                .unwrap();
                worked += 1;
            }
            let _ = peer.ask(CREATE, below, &fields(&[2, 0o644, 0, 0], &name));
            let _ = peer.ask(UNLINK, below, name.as_bytes());
            let _ = peer.ask(UNLINK, below, b"nothing\0");
        }
        assert!(worked > 0, "never got through");
        assert!(peer.end().success());
    });
    scene.check(&[]);
}
