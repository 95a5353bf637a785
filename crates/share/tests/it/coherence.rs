//! The machine sees changes that the host makes to files it has cached.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use share::settle;

use crate::fixture::{ServerSetup, ShareFixture, run_isolated};

/// Enough rounds to hit effects of the clock granularity.
const ROUNDS: u32 = 300;

/// Waits until the last change of a file is older than the granularity of its timestamps.
fn wait_for_stable_timestamp(path: &Path) {
    let old = Duration::from_millis(50);
    let age = || {
        let file = fs::symlink_metadata(path).unwrap();
        let changed = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
        SystemTime::now()
            .duration_since(UNIX_EPOCH + changed)
            .unwrap_or_default()
    };
    while age() < old {
        thread::sleep(old.saturating_sub(age()));
    }
}

/// The kernel answers from its cache while the server is stopped.
#[test]
fn what_rests_is_not_asked_for_again() {
    run_isolated(|| {
        let world = ShareFixture::new();
        for name in ["a", "b"] {
            fs::write(world.outside(name), name).unwrap();
        }
        fs::create_dir(world.outside("folder")).unwrap();
        wait_for_stable_timestamp(&world.outside("folder"));
        let look = || {
            let look = |name: &str| fs::metadata(world.inside(name)).ok().map(|file| file.len());
            (
                ["a", "b", "none", "folder/none"].map(look),
                fs::metadata(world.inside("folder")).is_ok(),
            )
        };
        // The first lookup registers the file, the second may be cached.
        look();
        let told = look();
        let server = Pid::from_raw(world.server_id() as i32).unwrap();
        kill_process(server, Signal::STOP).unwrap();
        let (sender, receiver) = mpsc::channel();
        let seen = thread::scope(|scope| {
            scope.spawn(|| sender.send(look()).unwrap());
            let seen = receiver.recv_timeout(Duration::from_secs(4));
            kill_process(server, Signal::CONT).unwrap();
            seen
        });
        assert_eq!(seen.expect("the kernel asked again"), told);
        // Changes of the host invalidate the cache.
        fs::write(world.outside("a"), "longer").unwrap();
        fs::remove_file(world.outside("b")).unwrap();
        fs::write(world.outside("none"), "new").unwrap();
        fs::write(world.outside("folder/none"), "").unwrap();
        settle(&world.inside("")).unwrap();
        assert_eq!(look().0, [Some(6), None, Some(3), Some(0)]);
        // Also without `settle`, a little later.
        wait_for_stable_timestamp(&world.outside("a"));
        look();
        fs::write(world.outside("a"), "other!").unwrap();
        let mut seen = String::new();
        while seen != "other!" {
            seen = fs::read_to_string(world.inside("a")).unwrap();
        }
    });
}

/// More changes than the inotify queue holds.
#[test]
fn too_many_changes_to_tell_are_told_nevertheless() {
    run_isolated(|| {
        let world = ShareFixture::with(ServerSetup {
            is_in_memory: true,
            ..ServerSetup::default()
        });
        const FILES: usize = 12_000;
        for number in 0..FILES {
            fs::write(world.outside(number.to_string()), "old").unwrap();
        }
        wait_for_stable_timestamp(&world.outside(""));
        let length =
            |number: usize| fs::metadata(world.inside(number.to_string())).map(|file| file.len());
        for number in 0..FILES {
            assert_eq!(length(number).unwrap(), 3);
        }
        let server = Pid::from_raw(world.server_id() as i32).unwrap();
        kill_process(server, Signal::STOP).unwrap();
        for number in 0..FILES {
            let path = world.outside(number.to_string());
            match number % 3 {
                0 => fs::remove_file(path).unwrap(),
                _ => fs::write(path, "and new").unwrap(),
            }
        }
        kill_process(server, Signal::CONT).unwrap();
        settle(&world.inside("")).unwrap();
        for number in 0..FILES {
            match number % 3 {
                0 => assert!(length(number).is_err(), "{number}"),
                _ => assert_eq!(length(number).unwrap(), 7, "{number}"),
            }
        }
    });
}

#[test]
fn a_folder_that_is_made_again_and_entered_has_its_path() {
    run_isolated(|| {
        let world = ShareFixture::new();
        for _ in 0..200 {
            let folder = world.inside("again");
            fs::create_dir(&folder).unwrap();
            env::set_current_dir(&folder).unwrap();
            settle(&folder).unwrap();
            assert_eq!(env::current_dir().unwrap(), folder);
            env::set_current_dir(world.inside("")).unwrap();
            fs::remove_dir(&folder).unwrap();
            assert!(!folder.exists());
        }
        env::set_current_dir("/").unwrap();
    });
}

#[test]
fn what_the_host_changes_is_seen_inside() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let settled = || settle(&world.inside("")).unwrap();
        fs::create_dir(world.outside("folder")).unwrap();
        fs::write(world.outside("open"), "0000000000").unwrap();
        let mut open = File::open(world.inside("open")).unwrap();
        for round in 0..ROUNDS {
            // The same length each time, and the same file.
            let text = format!("round {round:04}");
            fs::write(world.outside("folder/file"), &text).unwrap();
            settled();
            let seen = fs::read_to_string(world.inside("folder/file")).unwrap();
            assert_eq!(seen, text);
            let mut outside = File::options()
                .write(true)
                .open(world.outside("open"))
                .unwrap();
            outside.write_all(text.as_bytes()).unwrap();
            settled();
            let mut seen = String::new();
            open.rewind().unwrap();
            open.read_to_string(&mut seen).unwrap();
            assert_eq!(seen, text);
            // Another file under the same name.
            fs::write(world.outside("draft"), format!("other {round:04}")).unwrap();
            fs::rename(world.outside("draft"), world.outside("folder/file")).unwrap();
            settled();
            let seen = fs::read_to_string(world.inside("folder/file")).unwrap();
            assert_eq!(seen, format!("other {round:04}"));
        }
    });
}

#[test]
fn what_the_host_makes_and_takes_away_comes_and_goes_inside() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let settled = || settle(&world.inside("")).unwrap();
        let exists = |name: &str| fs::symlink_metadata(world.inside(name)).is_ok();
        let names = || {
            let entries = fs::read_dir(world.inside("")).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names.join(" ")
        };
        for round in 0..ROUNDS {
            assert!(!exists("a") && !exists("b") && !exists("folder/x"));
            fs::write(world.outside("a"), "").unwrap();
            settled();
            assert!(exists("a"), "round {round}");
            assert_eq!(names(), "a");
            fs::rename(world.outside("a"), world.outside("b")).unwrap();
            settled();
            assert!(!exists("a") && exists("b"), "round {round}");
            fs::remove_file(world.outside("b")).unwrap();
            // Of another kind, under the same name.
            fs::create_dir(world.outside("b")).unwrap();
            settled();
            assert!(fs::metadata(world.inside("b")).unwrap().is_dir());
            fs::write(world.inside("b/below"), "x").unwrap();
            fs::remove_dir_all(world.outside("b")).unwrap();
            symlink("nowhere", world.outside("b")).unwrap();
            settled();
            assert!(!exists("b/below"));
            assert_eq!(
                fs::read_link(world.inside("b")).unwrap().to_str(),
                Some("nowhere")
            );
            fs::remove_file(world.outside("b")).unwrap();
            settled();
            assert_eq!(names(), "");
            fs::create_dir_all(world.outside("folder")).unwrap();
            fs::write(world.outside("folder/x"), "").unwrap();
            settled();
            assert!(exists("folder/x"), "round {round}");
            fs::rename(world.outside("folder"), world.outside("other")).unwrap();
            settled();
            assert!(!exists("folder/x") && exists("other/x"), "round {round}");
            fs::remove_dir_all(world.outside("other")).unwrap();
            settled();
        }
    });
}

#[test]
fn attributes_that_the_host_changes_are_seen_inside() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let settled = || settle(&world.inside("")).unwrap();
        fs::write(world.outside("file"), "").unwrap();
        fs::create_dir(world.outside("folder")).unwrap();
        for round in 0..ROUNDS {
            let mode = 0o600 + round % 64;
            for name in ["file", "folder"] {
                let permissions = Permissions::from_mode(mode);
                fs::set_permissions(world.outside(name), permissions).unwrap();
            }
            let link = world.outside(format!("{round}"));
            fs::hard_link(world.outside("file"), link).unwrap();
            settled();
            for name in ["file", "folder"] {
                let metadata = fs::metadata(world.inside(name)).unwrap();
                assert_eq!(metadata.mode() & 0o777, mode, "{name}, round {round}");
            }
            let links = fs::metadata(world.inside("file")).unwrap().nlink();
            assert_eq!(links, u64::from(round) + 2);
            // Through a name that was never looked up.
            fs::write(world.outside("0"), vec![b'x'; round as usize]).unwrap();
            settled();
            let length = fs::metadata(world.inside("file")).unwrap().len();
            assert_eq!(length, u64::from(round));
        }
    });
}

#[test]
fn an_open_file_stays_itself_whatever_the_host_does_with_its_name() {
    run_isolated(|| {
        let world = ShareFixture::new();
        fs::create_dir(world.outside("folder")).unwrap();
        fs::write(world.outside("folder/file"), "before").unwrap();
        let mut file = File::options()
            .read(true)
            .write(true)
            .open(world.inside("folder/file"))
            .unwrap();
        fs::remove_file(world.outside("folder/file")).unwrap();
        symlink("/etc/passwd", world.outside("folder/file")).unwrap();
        settle(&world.inside("")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 6);
        file.write_all(b"after!").unwrap();
        file.set_len(5).unwrap();
        file.set_permissions(Permissions::from_mode(0o600)).unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "after");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    });
}
