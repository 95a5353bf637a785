//! Runs each operation through the mount and on a plain folder. Both must have the same result and
//! leave the same tree, seen from inside and from outside.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps,
    fallocate, linkat, mknodat, openat, renameat_with, utimensat,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, umask};

use crate::fixture::{ShareFixture, run_isolated, snapshot_tree};

/// The result as text.
type OperationResult = io::Result<String>;

/// Runs `operation` in the mount and in a plain folder, both set up by `prepare`.
fn check(name: &str, prepare: fn(&Path), operation: fn(&Path) -> OperationResult) {
    let world = ShareFixture::new();
    let plain = world.beside("plain");
    fs::create_dir(&plain).unwrap();
    prepare(&world.outside(""));
    prepare(&plain);
    let say = |outcome: OperationResult| outcome.map_err(|error| error.raw_os_error());
    let inside = say(operation(&world.inside("")));
    let expected = say(operation(&plain));
    assert_eq!(inside, expected, "{name}");
    let expected = snapshot_tree(&plain);
    assert_eq!(
        snapshot_tree(&world.outside("")),
        expected,
        "{name}, outside"
    );
    assert_eq!(snapshot_tree(&world.inside("")), expected, "{name}, inside");
}

fn prepare_nothing(_: &Path) {}

/// Creates a small tree with files of every kind.
fn create_sample_tree(root: &Path) {
    fs::write(root.join("file"), "content").unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    fs::write(root.join("folder/below"), "deeper").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    symlink("file", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    let fifo = FileType::Fifo;
    mknodat(CWD, root.join("fifo"), fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    fs::hard_link(root.join("file"), root.join("twin")).unwrap();
}

fn ok<T: std::fmt::Debug>(value: T) -> OperationResult {
    Ok(format!("{value:?}"))
}

fn set_times(path: &Path, follow: AtFlags) -> io::Result<()> {
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(1_000_000_000, 5),
        last_modification: time(1_234_567_890, 123_456_789),
    };
    Ok(utimensat(CWD, path, &times, follow)?)
}

#[test]
fn files_and_their_content() {
    run_isolated(|| {
        umask(Mode::from_raw_mode(0o022));
        check("write and read", prepare_nothing, |root| {
            fs::write(root.join("new"), "words")?;
            ok(fs::read(root.join("new"))?)
        });
        check("replace", create_sample_tree, |root| {
            fs::write(root.join("file"), "x")?;
            ok(fs::read(root.join("twin"))?)
        });
        check("append", create_sample_tree, |root| {
            let mut file = OpenOptions::new().append(true).open(root.join("file"))?;
            file.write_all(b" and more")?;
            file.write_all(b", and more")?;
            ok(file.stream_position()?)
        });
        check("a large file", prepare_nothing, |root| {
            let content: Vec<u8> = (0..5_000_000u32).map(|i| (i % 251) as u8).collect();
            fs::write(root.join("large"), &content)?;
            let file = File::open(root.join("large"))?;
            let mut part = vec![0; 300_000];
            file.read_exact_at(&mut part, 1_234_567)?;
            assert!(part == content[1_234_567..1_534_567]);
            ok(fs::read(root.join("large"))? == content)
        });
        check("overwrite a part", create_sample_tree, |root| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .open(root.join("file"))?;
            file.write_all_at(b"NTE", 2)?;
            let mut all = [0; 7];
            file.read_exact_at(&mut all, 0)?;
            ok(all)
        });
        check("truncate and extend", create_sample_tree, |root| {
            let file = OpenOptions::new().write(true).open(root.join("file"))?;
            file.set_len(3)?;
            file.set_len(9)?;
            ok(fs::read(root.join("file"))?)
        });
        check("truncate by open", create_sample_tree, |root| {
            OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(root.join("file"))?;
            ok(fs::metadata(root.join("twin"))?.len())
        });
        check("exclusive creation", create_sample_tree, |root| {
            File::create_new(root.join("new"))?;
            ok(File::create_new(root.join("file"))?)
        });
        check("holes", prepare_nothing, |root| {
            let mut file = File::create_new(root.join("sparse"))?;
            file.write_all_at(b"end", 10 << 20)?;
            file.set_len(20 << 20)?;
            let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0))?;
            let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data))?;
            let none = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(hole));
            file.seek(SeekFrom::Start(0))?;
            file.sync_all()?;
            let blocks = file.metadata()?.blocks();
            ok((data, hole, none, blocks < 100))
        });
        check("sync", create_sample_tree, |root| {
            let file = OpenOptions::new().write(true).open(root.join("file"))?;
            (&file).write_all(b"kept")?;
            file.sync_data()?;
            file.sync_all()?;
            ok(File::open(root)?.sync_all()?)
        });
        check("copy", create_sample_tree, |root| {
            fs::write(root.join("big"), vec![7; 3 << 20])?;
            ok(fs::copy(root.join("big"), root.join("copy"))?)
        });
        check("unlinked but open", create_sample_tree, |root| {
            let path = root.join("folder/below");
            let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
            fs::remove_file(&path)?;
            file.write_all(b"still here")?;
            file.set_permissions(Permissions::from_mode(0o640))?;
            file.set_len(5)?;
            file.rewind()?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let metadata = file.metadata()?;
            ok((text, metadata.nlink(), metadata.len(), metadata.mode()))
        });
        check(
            "unlinked and known, but not open",
            create_sample_tree,
            |root| {
                let path = root.join("folder/below");
                let known = openat(CWD, &path, OFlags::PATH, Mode::empty())?;
                fs::remove_file(&path)?;
                fs::write(&path, "another")?;
                let stat = rustix::fs::fstat(&known)?;
                ok((stat.st_nlink, stat.st_size))
            },
        );
        check("a file without a name", create_sample_tree, |root| {
            let flags = OFlags::TMPFILE | OFlags::RDWR;
            let file = openat(CWD, root, flags, Mode::from_raw_mode(0o644))?;
            rustix::io::write(&file, b"made in secret")?;
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            linkat(CWD, path, CWD, root.join("named"), AtFlags::SYMLINK_FOLLOW)?;
            let nameless = openat(CWD, root, flags, Mode::from_raw_mode(0o644))?;
            rustix::io::write(nameless.as_fd(), b"gone")?;
            ok(fs::read(root.join("named"))?)
        });
    });
}

#[test]
fn names_and_links() {
    run_isolated(|| {
        umask(Mode::from_raw_mode(0o022));
        check("what is there", create_sample_tree, |root| {
            ok(snapshot_tree(root))
        });
        check("no such file", create_sample_tree, |root| {
            ok(fs::read(root.join("none/file"))?)
        });
        check("a file is no folder", create_sample_tree, |root| {
            ok(fs::read(root.join("file/x"))?)
        });
        check("a folder is no file", create_sample_tree, |root| {
            ok(fs::write(root.join("folder"), "")?)
        });
        check("hard links are one file", create_sample_tree, |root| {
            fs::hard_link(root.join("folder/below"), root.join("also"))?;
            let inode = |name| fs::metadata(root.join(name)).map(|file| file.ino());
            assert_eq!(inode("also")?, inode("folder/below")?);
            assert_ne!(inode("also")?, inode("file")?);
            fs::write(root.join("also"), "both")?;
            fs::remove_file(root.join("also"))?;
            ok((
                fs::read(root.join("folder/below"))?,
                fs::metadata(root.join("twin"))?.nlink(),
            ))
        });
        check("a hard link of a folder", create_sample_tree, |root| {
            ok(fs::hard_link(root.join("folder"), root.join("no"))?)
        });
        check("a hard link of a symlink", create_sample_tree, |root| {
            linkat(
                CWD,
                root.join("link"),
                CWD,
                root.join("link2"),
                AtFlags::empty(),
            )?;
            ok(fs::read_link(root.join("link2"))?)
        });
        check("symlinks", create_sample_tree, |root| {
            symlink("link", root.join("link of a link"))?;
            symlink("loop", root.join("loop"))?;
            let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe/..//odd\n");
            symlink(odd, root.join("odd"))?;
            symlink("x".repeat(4095), root.join("long"))?;
            fs::read(root.join("loop")).unwrap_err();
            ok((
                fs::read(root.join("link of a link"))?,
                fs::read_link(root.join("odd"))?,
            ))
        });
        check("too long a target", prepare_nothing, |root| {
            ok(symlink("x".repeat(4096), root.join("long"))?)
        });
        check("names of any bytes", prepare_nothing, |root| {
            for length in [1, 255] {
                let mut name: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
                name.resize(length, b'x');
                fs::write(root.join(std::ffi::OsStr::from_bytes(&name)), "")?;
            }
            ok(fs::write(root.join("...."), "")?)
        });
        check("too long a name", prepare_nothing, |root| {
            ok(fs::write(root.join("x".repeat(256)), "")?)
        });
    });
}

#[test]
fn renames_and_removals() {
    run_isolated(|| {
        umask(Mode::from_raw_mode(0o022));
        check("rename", create_sample_tree, |root| {
            fs::rename(root.join("file"), root.join("folder/moved"))?;
            fs::rename(root.join("folder"), root.join("elsewhere"))?;
            fs::rename(root.join("elsewhere/below"), root.join("twin"))?;
            ok((
                fs::read(root.join("elsewhere/moved"))?,
                fs::read(root.join("twin"))?,
            ))
        });
        check("rename onto itself", create_sample_tree, |root| {
            fs::rename(root.join("file"), root.join("twin"))?;
            ok(fs::metadata(root.join("file"))?.nlink())
        });
        check("rename onto a full folder", create_sample_tree, |root| {
            ok(fs::rename(root.join("empty"), root.join("folder"))?)
        });
        check(
            "rename a folder over an empty one",
            create_sample_tree,
            |root| {
                fs::rename(root.join("folder"), root.join("empty"))?;
                ok(fs::read(root.join("empty/below"))?)
            },
        );
        check("rename into itself", create_sample_tree, |root| {
            ok(fs::rename(
                root.join("folder"),
                root.join("folder/below/x"),
            )?)
        });
        check("rename without replacing", create_sample_tree, |root| {
            rename_all(root, RenameFlags::NOREPLACE)
        });
        check("exchange", create_sample_tree, |root| {
            rename_all(root, RenameFlags::EXCHANGE)
        });
        check("both at once", create_sample_tree, |root| {
            rename_all(root, RenameFlags::EXCHANGE | RenameFlags::NOREPLACE)
        });
        check("remove", create_sample_tree, |root| {
            fs::remove_file(root.join("link"))?;
            fs::remove_file(root.join("fifo"))?;
            fs::remove_dir(root.join("empty"))?;
            let full = fs::remove_dir(root.join("folder")).map_err(|error| error.kind());
            let folder = fs::remove_file(root.join("folder")).map_err(|error| error.kind());
            fs::remove_dir_all(root.join("folder"))?;
            ok((full, folder))
        });
        check("a folder that is gone", create_sample_tree, |root| {
            let folder = File::open(root.join("empty"))?;
            fs::remove_dir(root.join("empty"))?;
            let made = openat(&folder, "x", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU);
            ok((
                made.map_err(|error| error.raw_os_error()).map(drop),
                folder.metadata()?.nlink(),
            ))
        });
    });
}

fn rename_all(root: &Path, flags: RenameFlags) -> OperationResult {
    let rename = |from: &str, to: &str| {
        renameat_with(CWD, root.join(from), CWD, root.join(to), flags)
            .map_err(|error| error.raw_os_error())
    };
    let outcomes = [
        rename("folder/below", "file"),
        rename("file", "folder"),
        rename("empty", "fresh"),
        rename("link", "dangling"),
        rename("none", "file"),
    ];
    // After an exchange both names must refer to the other file.
    let content = ["file", "folder/below", "folder"].map(|name| fs::read(root.join(name)).ok());
    ok((outcomes, content))
}

#[test]
fn modes_owners_and_times() {
    run_isolated(|| {
        umask(Mode::from_raw_mode(0o022));
        check("modes", create_sample_tree, |root| {
            for (name, mode) in [("file", 0o640), ("folder", 0o1770), ("fifo", 0o644)] {
                fs::set_permissions(root.join(name), Permissions::from_mode(mode))?;
            }
            ok(fs::metadata(root.join("twin"))?.mode())
        });
        check("modes of what is new", prepare_nothing, |root| {
            umask(Mode::from_raw_mode(0o027));
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o666)
                .open(root.join("file"))?;
            fs::create_dir(root.join("folder"))?;
            umask(Mode::empty());
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o777)
                .open(root.join("all"))?;
            let none = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o000)
                .open(root.join("none"))?;
            (&none).write_all(b"x")?;
            umask(Mode::from_raw_mode(0o022));
            let metadata = none.metadata()?;
            // Without capabilities the server cannot read a file without read permission.
            none.set_permissions(Permissions::from_mode(0o600))?;
            ok((metadata.mode(), metadata.len()))
        });
        check("owners", create_sample_tree, |root| {
            let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
            chown(root.join("file"), Some(uid), Some(gid))?;
            chown(root.join("folder"), Some(uid), None)?;
            ok(std::os::unix::fs::lchown(
                root.join("link"),
                None,
                Some(gid),
            )?)
        });
        check("times", create_sample_tree, |root| {
            for name in ["file", "folder", "fifo"] {
                set_times(&root.join(name), AtFlags::empty())?;
            }
            set_times(&root.join("dangling"), AtFlags::SYMLINK_NOFOLLOW)?;
            let file = fs::metadata(root.join("file"))?;
            ok((
                file.atime(),
                file.atime_nsec(),
                file.mtime(),
                file.mtime_nsec(),
            ))
        });
        check("a write changes the time", create_sample_tree, |root| {
            set_times(&root.join("file"), AtFlags::empty())?;
            fs::write(root.join("file"), "new")?;
            ok(fs::metadata(root.join("file"))?.mtime() > 1_500_000_000)
        });
        check("space", create_sample_tree, |root| {
            let state = rustix::fs::statvfs(root)?;
            ok((state.f_blocks, state.f_namemax))
        });
    });
}

#[test]
fn what_is_refused() {
    run_isolated(|| {
        let world = ShareFixture::new();
        create_sample_tree(&world.outside(""));
        let refused = |what: &str, outcome: rustix::io::Result<()>, error: Errno| {
            assert_eq!(outcome, Err(error), "{what}");
        };
        for bits in [0o4755, 0o2755, 0o6777] {
            let mode = Mode::from_raw_mode(bits);
            let path = world.inside("file");
            refused("chmod", rustix::fs::chmod(&path, mode), Errno::PERM);
            let flags = OFlags::CREATE | OFlags::WRONLY;
            let made = openat(CWD, world.inside("new"), flags, mode).map(drop);
            refused("create", made, Errno::PERM);
            let made = mknodat(CWD, world.inside("new"), FileType::RegularFile, mode, 0);
            refused("mknod", made, Errno::PERM);
        }
        for kind in [FileType::CharacterDevice, FileType::BlockDevice] {
            let made = mknodat(CWD, world.inside("device"), kind, Mode::RWXU, 0x0103);
            refused("a device", made, Errno::PERM);
        }
        for (uid, gid) in [(Some(12345), None), (None, Some(12345))] {
            let given = chown(world.inside("file"), uid, gid);
            // These are not mapped in a user namespace.
            let error = given.unwrap_err().raw_os_error().unwrap();
            assert!([Errno::PERM.raw_os_error(), Errno::INVAL.raw_os_error()].contains(&error));
        }
        let file = OpenOptions::new()
            .write(true)
            .open(world.inside("file"))
            .unwrap();
        let space = fallocate(&file, FallocateFlags::empty(), 0, 1 << 20);
        refused("fallocate", space, Errno::OPNOTSUPP);
        let attribute =
            rustix::fs::fsetxattr(&file, "user.x", b"y", rustix::fs::XattrFlags::empty());
        refused("an extended attribute", attribute, Errno::OPNOTSUPP);
        assert_eq!(
            fs::metadata(world.outside("file")).unwrap().mode() & 0o7777,
            0o644
        );
        assert!(!world.outside("new").exists() && !world.outside("device").exists());
        // An existing bit is removed by the first write, as on a plain folder.
        fs::set_permissions(world.outside("file"), Permissions::from_mode(0o4755)).unwrap();
        (&file).write_all(b"x").unwrap();
        drop(file);
        // The host's kernel removes the bit only if the server has no capabilities.
        assert_eq!(
            fs::metadata(world.outside("file")).unwrap().mode() & 0o7777,
            0o755
        );
    });
}

#[test]
fn sockets_and_fifos_work_inside() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let listener = UnixListener::bind(world.inside("socket")).unwrap();
        let mut client = UnixStream::connect(world.inside("socket")).unwrap();
        client.write_all(b"hello").unwrap();
        drop(client);
        let mut heard = String::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_string(&mut heard)
            .unwrap();
        assert_eq!(heard, "hello");
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, world.inside("fifo"), FileType::Fifo, mode, 0).unwrap();
        let path = world.inside("fifo");
        let writer = std::thread::spawn(move || fs::write(path, "through").unwrap());
        assert_eq!(fs::read(world.inside("fifo")).unwrap(), b"through");
        writer.join().unwrap();
        let kinds: Vec<_> = snapshot_tree(&world.outside("")).into_keys().collect();
        assert_eq!(kinds, [Path::new("fifo"), Path::new("socket")]);
    });
}

#[test]
fn mapped_files_are_one_with_the_others() {
    run_isolated(|| {
        let world = ShareFixture::new();
        fs::write(world.outside("file"), vec![b'a'; 10_000]).unwrap();
        // Python is available on every system and can map files.
        let script = "import mmap,os,sys\n\
            f = os.open(sys.argv[1], os.O_RDWR)\n\
            m = mmap.mmap(f, 0)\n\
            p = mmap.mmap(f, 0, flags=mmap.MAP_PRIVATE)\n\
            assert m[9999:] == b'a'\n\
            m[5000:5003] = b'xyz'\n\
            p[0:1] = b'!'\n\
            m.flush()\n\
            m[6000:6003] = b'uvw'\n\
            m.close()\n\
            os.close(f)\n";
        let status = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(world.inside("file"))
            .status()
            .unwrap();
        assert!(status.success());
        let content = fs::read(world.outside("file")).unwrap();
        assert_eq!(&content[4999..5004], b"axyza");
        assert_eq!(&content[5999..6004], b"auvwa");
        assert_eq!(content[0], b'a');
    });
}

#[test]
fn folders_are_listed_whole_while_they_change() {
    run_isolated(|| {
        let world = ShareFixture::new();
        for number in 0..3000 {
            fs::write(world.outside(format!("stays {number}")), "").unwrap();
            fs::write(world.outside(format!("goes {number}")), "").unwrap();
        }
        let mut stayed = 0;
        let mut listed = std::collections::BTreeSet::new();
        for entry in fs::read_dir(world.inside("")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(listed.insert(name.clone()), "`{name}` twice");
            if name.starts_with("stays") {
                stayed += 1;
                let _ = fs::remove_file(world.inside(format!("goes {stayed}")));
                let _ = fs::write(world.inside(format!("new {stayed}")), "");
            }
        }
        assert_eq!(stayed, 3000);
        // Remove them while listing.
        for entry in fs::read_dir(world.inside("")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        assert_eq!(fs::read_dir(world.outside("")).unwrap().count(), 0);
    });
}

#[test]
fn paths_are_as_deep_as_programs_make_them() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let mut at = File::open(world.inside("")).unwrap();
        // Ten times the maximum length of a path.
        for depth in 0..400 {
            let name = format!("{depth:0100}");
            rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            at = openat(&at, &name, flags, Mode::empty()).unwrap().into();
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&at, "bottom", flags, Mode::RWXU).unwrap();
        rustix::io::write(&file, b"deep").unwrap();
        let found = std::process::Command::new("find")
            .arg(world.outside(""))
            .args(["-name", "bottom", "-size", "4c", "-printf", "%d"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "401");
    });
}
