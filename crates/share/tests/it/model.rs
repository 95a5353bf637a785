//! Random operations of the machine and the host, compared with the same operations on a plain folder.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{CWD, Mode, RenameFlags, renameat_with};
use rustix::process::umask;

use crate::fixture::{ServerSetup, ShareFixture, run_isolated, snapshot_tree};

/// Few names, so that operations interact.
const PATHS: &[&str] = &["a", "b", "d", "d/a", "d/b", "d/d", "d/d/a", "e", "e/a"];
const OPEN_SLOTS: usize = 3;

#[derive(Debug, Clone)]
enum ModelOperation {
    Write(&'static str, usize),
    Append(&'static str, usize),
    Truncate(&'static str, u64),
    Remove(&'static str),
    MakeFolder(&'static str),
    RemoveFolder(&'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Link(&'static str, &'static str),
    Symlink(&'static str, &'static str),
    SetMode(&'static str, u32),
    Look(&'static str),
    Read(&'static str),
    List(&'static str),
    Open(usize, &'static str),
    WriteOpen(usize, u64, usize),
    ReadOpen(usize),
    LookOpen(usize),
    Close(usize),
}

/// Who performs an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Actor {
    Machine,
    Host,
}

fn any_operation() -> impl Strategy<Value = (Actor, ModelOperation)> {
    use ModelOperation::*;
    let path = || select(PATHS);
    let length = || prop_oneof![0..20usize, 4000..9000usize];
    let operation = prop_oneof![
        3 => (path(), length()).prop_map(|(path, length)| Write(path, length)),
        2 => (path(), length()).prop_map(|(path, length)| Append(path, length)),
        1 => (path(), 0..9000u64).prop_map(|(path, length)| Truncate(path, length)),
        3 => path().prop_map(Remove),
        3 => path().prop_map(MakeFolder),
        1 => path().prop_map(RemoveFolder),
        3 => (path(), path()).prop_map(|(from, to)| Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Exchange(from, to)),
        2 => (path(), path()).prop_map(|(from, to)| Link(from, to)),
        1 => (select(&["a", "d", "../a", "d/a", "loop"][..]), path()).prop_map(|(to, path)| Symlink(to, path)),
        1 => (path(), select(&[0o600, 0o640, 0o755][..])).prop_map(|(path, mode)| SetMode(path, mode)),
        4 => path().prop_map(Look),
        4 => path().prop_map(Read),
        2 => path().prop_map(List),
        3 => (0..OPEN_SLOTS, path()).prop_map(|(slot, path)| Open(slot, path)),
        3 => (0..OPEN_SLOTS, 0..9000u64, length()).prop_map(|(slot, at, length)| WriteOpen(slot, at, length)),
        3 => (0..OPEN_SLOTS).prop_map(ReadOpen),
        2 => (0..OPEN_SLOTS).prop_map(LookOpen),
        1 => (0..OPEN_SLOTS).prop_map(Close),
    ];
    (
        prop_oneof![2 => Just(Actor::Machine), 1 => Just(Actor::Host)],
        operation,
    )
}

/// The open files of one of the two folders.
struct ModelFolder {
    open: [Option<File>; OPEN_SLOTS],
}

impl ModelFolder {
    fn perform(&mut self, root: &Path, operation: &ModelOperation, mark: u8) -> io::Result<String> {
        let at = |path: &str| root.join(path);
        let content = |length: &usize| vec![mark; *length];
        let mut options = OpenOptions::new();
        options.mode(0o644);
        match operation {
            ModelOperation::Write(path, length) => {
                let file = options
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(at(path))?;
                file.write_all_at(&content(length), 0)?;
            }
            ModelOperation::Append(path, length) => {
                let mut file = options.append(true).open(at(path))?;
                io::Write::write_all(&mut file, &content(length))?;
            }
            ModelOperation::Truncate(path, length) => {
                options.write(true).open(at(path))?.set_len(*length)?;
            }
            ModelOperation::Remove(path) => fs::remove_file(at(path))?,
            ModelOperation::MakeFolder(path) => fs::create_dir(at(path))?,
            ModelOperation::RemoveFolder(path) => fs::remove_dir(at(path))?,
            ModelOperation::Rename(from, to) => fs::rename(at(from), at(to))?,
            ModelOperation::Exchange(from, to) => {
                renameat_with(CWD, at(from), CWD, at(to), RenameFlags::EXCHANGE)?;
            }
            ModelOperation::Link(from, to) => fs::hard_link(at(from), at(to))?,
            ModelOperation::Symlink(to, path) => symlink(to, at(path))?,
            ModelOperation::SetMode(path, mode) => {
                let is_folder = fs::metadata(at(path))?.is_dir();
                let mode = if is_folder { mode | 0o100 } else { *mode };
                fs::set_permissions(at(path), Permissions::from_mode(mode))?;
            }
            ModelOperation::Look(path) => return describe(&fs::symlink_metadata(at(path))?),
            ModelOperation::Read(path) => return Ok(format!("{:?}", fs::read(at(path))?)),
            ModelOperation::List(path) => {
                let mut names: Vec<OsString> = fs::read_dir(at(path))?
                    .map(|entry| entry.map(|entry| entry.file_name()))
                    .collect::<io::Result<_>>()?;
                names.sort();
                return Ok(format!("{names:?}"));
            }
            ModelOperation::Open(slot, path) => {
                self.open[*slot] = Some(options.read(true).write(true).open(at(path))?);
            }
            ModelOperation::WriteOpen(slot, offset, length) => {
                if let Some(file) = &self.open[*slot] {
                    file.write_all_at(&content(length), *offset)?;
                }
            }
            ModelOperation::ReadOpen(slot) => {
                if let Some(file) = &self.open[*slot] {
                    let mut content = vec![0; 20_000];
                    let length = file.read_at(&mut content, 0)?;
                    return Ok(format!("{:?}", &content[..length]));
                }
            }
            ModelOperation::LookOpen(slot) => {
                if let Some(file) = &self.open[*slot] {
                    return describe(&file.metadata()?);
                }
            }
            ModelOperation::Close(slot) => self.open[*slot] = None,
        }
        Ok(String::new())
    }
}

fn describe(metadata: &fs::Metadata) -> io::Result<String> {
    let size = if metadata.is_dir() { 0 } else { metadata.len() };
    Ok(format!("{:o} {size} {}", metadata.mode(), metadata.nlink()))
}

fn empty(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap()
        } else {
            fs::remove_file(entry.path()).unwrap()
        }
    }
}

#[test]
fn any_operations_are_as_on_a_plain_folder() {
    run_isolated(|| {
        umask(Mode::from_raw_mode(0o022));
        let world = ShareFixture::with(ServerSetup {
            is_in_memory: true,
            ..ServerSetup::default()
        });
        let plain = world.beside("plain");
        fs::create_dir(&plain).unwrap();
        let config = Config {
            cases: 400,
            failure_persistence: None,
            ..Config::default()
        };
        let operations = vec(any_operation(), 1..80);
        let outcome = TestRunner::new(config).run(&operations, |operations| {
            empty(&world.outside(""));
            empty(&plain);
            share::settle(&world.inside("")).unwrap();
            let (mut shared, mut single) = (
                ModelFolder {
                    open: Default::default(),
                },
                ModelFolder {
                    open: Default::default(),
                },
            );
            for (number, (actor, operation)) in operations.iter().enumerate() {
                let is_of_open = matches!(
                    operation,
                    ModelOperation::Open(..)
                        | ModelOperation::WriteOpen(..)
                        | ModelOperation::ReadOpen(..)
                        | ModelOperation::LookOpen(..)
                        | ModelOperation::Close(..)
                );
                let root = match actor {
                    Actor::Host if !is_of_open => world.outside(""),
                    _ => world.inside(""),
                };
                let say =
                    |outcome: io::Result<String>| outcome.map_err(|error| error.raw_os_error());
                let mark = b'a' + (number % 26) as u8;
                let seen = say(shared.perform(&root, operation, mark));
                let expected = say(single.perform(&plain, operation, mark));
                prop_assert_eq!(seen, expected, "{} {:?}", number, operation);
                if *actor == Actor::Host {
                    share::settle(&world.inside("")).unwrap();
                }
            }
            let expected = snapshot_tree(&plain);
            prop_assert_eq!(&snapshot_tree(&world.outside("")), &expected);
            prop_assert_eq!(&snapshot_tree(&world.inside("")), &expected);
            Ok(())
        });
        outcome.unwrap();
    });
}
