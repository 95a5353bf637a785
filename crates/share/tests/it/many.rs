//! Large numbers of files, folders, descriptors and writers.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::thread;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::fixture::{ServerSetup, ShareFixture, run_isolated};

/// Descriptor limit of the server.
const MAX_SERVER_DESCRIPTORS: u32 = 256;

#[test]
fn many_files_need_few_descriptors() {
    run_isolated(|| {
        let world = ShareFixture::with(ServerSetup {
            descriptors: Some(MAX_SERVER_DESCRIPTORS),
            is_in_memory: true,
        });
        const FOLDERS: usize = 500;
        const FILES: usize = 100;
        for folder in 0..FOLDERS {
            fs::create_dir(world.inside(format!("{folder}"))).unwrap();
            for file in 0..FILES {
                let path = world.outside(format!("{folder}/{file}"));
                fs::write(path, format!("{folder} {file}")).unwrap();
            }
        }
        // The kernel inside knows all of them afterwards.
        let mut found = 0;
        for folder in 0..FOLDERS {
            for entry in fs::read_dir(world.inside(format!("{folder}"))).unwrap() {
                let entry = entry.unwrap();
                let length = fs::metadata(entry.path()).unwrap().len() as usize;
                let name = entry.file_name().into_string().unwrap();
                assert_eq!(length, format!("{folder} {name}").len());
                found += 1;
            }
        }
        assert_eq!(found, FOLDERS * FILES);
        // In an order that defeats the descriptor cache.
        for file in (0..FILES).step_by(10) {
            for folder in 0..FOLDERS {
                let path = world.inside(format!("{folder}/{file}"));
                let expected = format!("{folder} {file}");
                assert_eq!(fs::read_to_string(path).unwrap(), expected);
            }
        }
        for folder in 0..FOLDERS {
            fs::remove_dir_all(world.inside(format!("{folder}"))).unwrap();
        }
        assert_eq!(fs::read_dir(world.outside("")).unwrap().count(), 0);
    });
}

#[test]
fn too_many_open_files_are_refused_and_the_others_work() {
    run_isolated(|| {
        let world = ShareFixture::with(ServerSetup {
            descriptors: Some(MAX_SERVER_DESCRIPTORS),
            ..ServerSetup::default()
        });
        let most = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: most.maximum.or(Some(4096)),
            ..most
        };
        setrlimit(Resource::Nofile, raised).unwrap();
        let mut open = Vec::new();
        let refusal = loop {
            let path = world.inside(format!("{}", open.len()));
            match OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)
            {
                Ok(file) => open.push(file),
                Err(error) => break error,
            }
            assert!(
                open.len() < MAX_SERVER_DESCRIPTORS as usize,
                "more open files than descriptors"
            );
        };
        assert_eq!(Errno::from_io_error(&refusal), Some(Errno::NFILE));
        assert!(open.len() > 64, "only {}", open.len());
        // The refused file was not created.
        assert!(!world.outside(format!("{}", open.len())).exists());
        for (number, file) in open.iter_mut().enumerate() {
            fs::remove_file(world.inside(format!("{number}"))).unwrap();
            write!(file, "{number}").unwrap();
            file.rewind().unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            assert_eq!(text, number.to_string());
        }
        // Closed files free their descriptors.
        open.truncate(open.len() / 2);
        for _ in 0..3 * MAX_SERVER_DESCRIPTORS {
            fs::write(world.inside("next"), "x").unwrap();
            fs::remove_file(world.inside("next")).unwrap();
        }
        open.clear();
        fs::write(world.inside("last"), "x").unwrap();
    });
}

#[test]
fn parallel_writers_and_readers_see_whole_files() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let shared = File::create_new(world.inside("shared")).unwrap();
        let log = world.inside("log");
        const WRITERS: usize = 8;
        const ROUNDS: usize = 100;
        const PART: usize = 10_000;
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (world, shared, log) = (&world, &shared, &log);
                scope.spawn(move || {
                    let mark = vec![b'a' + writer as u8; PART];
                    for round in 0..ROUNDS {
                        let at = (round * WRITERS + writer) * PART;
                        shared.write_all_at(&mark, at as u64).unwrap();
                        let mut log = OpenOptions::new()
                            .append(true)
                            .create(true)
                            .open(log)
                            .unwrap();
                        log.write_all(format!("{writer} {round}\n").as_bytes())
                            .unwrap();
                        let path = world.inside(format!("{writer} {round}"));
                        let draft = world.inside(format!("draft {writer}"));
                        fs::write(&draft, &mark).unwrap();
                        fs::rename(&draft, &path).unwrap();
                        assert!(fs::read(&path).unwrap() == mark);
                    }
                });
            }
        });
        let content = fs::read(world.outside("shared")).unwrap();
        for (index, part) in content.chunks(PART).enumerate() {
            let mark = b'a' + (index % WRITERS) as u8;
            assert!(part.iter().all(|byte| *byte == mark), "part {index}");
        }
        let log = fs::read_to_string(world.outside("log")).unwrap();
        let mut lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), WRITERS * ROUNDS);
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), WRITERS * ROUNDS);
    });
}

#[test]
fn host_and_machine_append_to_one_file() {
    run_isolated(|| {
        let world = ShareFixture::new();
        let append = |path| {
            OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .unwrap()
        };
        let (mut inside, mut outside) = (append(world.inside("log")), append(world.outside("log")));
        for number in 0..500 {
            inside
                .write_all(format!("inside {number}\n").as_bytes())
                .unwrap();
            outside
                .write_all(format!("outside {number}\n").as_bytes())
                .unwrap();
        }
        let expected: String = (0..500)
            .map(|number| format!("inside {number}\noutside {number}\n"))
            .collect();
        assert_eq!(fs::read_to_string(world.outside("log")).unwrap(), expected);
        assert_eq!(fs::read_to_string(world.inside("log")).unwrap(), expected);
    });
}
