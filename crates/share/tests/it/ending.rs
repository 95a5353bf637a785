//! When one side ends during operations, they fail and do not hang.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::thread;

use rustix::fs::statfs;
use rustix::io::Errno;

use crate::fixture::{ShareFixture, run_isolated};

#[test]
fn operations_fail_when_the_server_is_gone() {
    run_isolated(|| {
        let mut world = ShareFixture::new();
        fs::write(world.inside("file"), "content").unwrap();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(world.inside("file"))
            .unwrap();
        let busy: Vec<_> = (0..4)
            .map(|number| {
                let path = world.inside(format!("busy {number}"));
                let (started, has_started) = std::sync::mpsc::channel();
                let writer = thread::spawn(move || {
                    let mut file = File::create_new(path).unwrap();
                    let content = vec![number; 100_000];
                    loop {
                        if let Err(error) = file.write_all(&content) {
                            return error;
                        }
                        let _ = started.send(());
                    }
                });
                has_started.recv().unwrap();
                writer
            })
            .collect();
        world.kill_server();
        let expected = [Errno::NOTCONN, Errno::CONNABORTED, Errno::IO].map(Some);
        for writer in busy {
            let error = writer.join().unwrap();
            assert!(expected.contains(&Errno::from_io_error(&error)), "{error}");
        }
        for outcome in [
            fs::read(world.inside("file")).map(drop),
            fs::write(world.inside("new"), "x"),
            file.write_all_at(b"x", 0),
            file.sync_all(),
            fs::read_dir(world.inside("")).map(drop),
            statfs(world.inside("")).map(drop).map_err(Into::into),
        ] {
            let error = outcome.unwrap_err();
            assert!(expected.contains(&Errno::from_io_error(&error)), "{error}");
        }
        // What was written is on the host.
        assert_eq!(fs::read(world.outside("file")).unwrap(), b"content");
        for number in 0..4 {
            let written = fs::metadata(world.outside(format!("busy {number}"))).unwrap();
            assert!(written.len() >= 100_000);
        }
    });
}

#[test]
fn what_was_written_is_on_the_host_at_once() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let mut file = File::create_new(world.inside("file")).unwrap();
        let mut expected = Vec::new();
        for number in 0..300u32 {
            let part = number.to_le_bytes().repeat(500);
            file.write_all(&part).unwrap();
            expected.extend_from_slice(&part);
            let mut seen = Vec::new();
            let mut outside = File::open(world.outside("file")).unwrap();
            outside.read_to_end(&mut seen).unwrap();
            assert!(seen == expected, "after {number}");
        }
    });
}
