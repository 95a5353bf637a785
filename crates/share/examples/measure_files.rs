//! Measures the overhead of the mount: the same work through it and on a plain folder, and the ratio.
//!
//! Requires the right to mount: root, or `unshare --user --map-root-user --mount`.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FILES: usize = 1000;
const LARGE_FILE_BYTES: usize = 100 << 20;
const CHUNK_BYTES: usize = 128 << 10;

type Benchmark = fn(&Path) -> std::io::Result<()>;

/// In this order: each uses the files of the previous ones.
const BENCHMARKS: &[(&str, Benchmark)] = &[
    ("create 1000 files", |root| {
        (0..FILES).try_for_each(|file| fs::write(root.join(file.to_string()), "some words"))
    }),
    ("list and stat them", |root| {
        fs::read_dir(root)?.try_for_each(|entry| entry?.metadata().map(drop))
    }),
    ("stat each", |root| {
        (0..FILES).try_for_each(|file| fs::metadata(root.join(file.to_string())).map(drop))
    }),
    ("stat each again", |root| {
        (0..FILES).try_for_each(|file| fs::metadata(root.join(file.to_string())).map(drop))
    }),
    ("miss 1000 names", |root| {
        (0..FILES).try_for_each(|file| {
            let found = fs::metadata(root.join(format!("no {file}")));
            found.map_or(Ok(()), |_| Err(std::io::ErrorKind::AlreadyExists.into()))
        })
    }),
    ("miss them again", |root| {
        (0..FILES).try_for_each(|file| {
            let found = fs::metadata(root.join(format!("no {file}")));
            found.map_or(Ok(()), |_| Err(std::io::ErrorKind::AlreadyExists.into()))
        })
    }),
    ("read each", |root| {
        (0..FILES).try_for_each(|file| fs::read(root.join(file.to_string())).map(drop))
    }),
    ("read each again", |root| {
        (0..FILES).try_for_each(|file| fs::read(root.join(file.to_string())).map(drop))
    }),
    ("replace each", |root| {
        (0..FILES).try_for_each(|file| fs::write(root.join(file.to_string()), "other words"))
    }),
    ("remove each", |root| {
        (0..FILES).try_for_each(|file| fs::remove_file(root.join(file.to_string())))
    }),
    ("write 100 MiB", |root| {
        let mut file = File::create(root.join("large"))?;
        let chunk = vec![7; CHUNK_BYTES];
        (0..LARGE_FILE_BYTES / CHUNK_BYTES).try_for_each(|_| file.write_all(&chunk))
    }),
    ("read 100 MiB", |root| {
        let mut file = File::open(root.join("large"))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        (0..LARGE_FILE_BYTES / CHUNK_BYTES).try_for_each(|_| file.read_exact(&mut chunk))
    }),
    ("read 100 MiB again", |root| {
        let mut file = File::open(root.join("large"))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        (0..LARGE_FILE_BYTES / CHUNK_BYTES).try_for_each(|_| file.read_exact(&mut chunk))
    }),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    let home = tempfile::tempdir()?;
    let [folder, mount, plain] = ["folder", "mount", "plain"].map(|name| home.path().join(name));
    for path in [&folder, &mount, &plain] {
        fs::create_dir(path)?;
    }
    let (inside, outside) = UnixStream::pair()?;
    let end = |verb: &str, path: &Path, channel: OwnedFd| {
        let program = std::env::current_exe()?.with_file_name("end");
        let mut command = Command::new(program);
        command.arg(verb).arg(path).stdin(channel);
        command.stdout(Stdio::piped()).spawn()
    };
    let mut server = end("serve", &folder, outside.into())?;
    let mut mounting = end("mount", &mount, inside.into())?;
    let mut said = [0; 8];
    let piped = mounting.stdout.as_mut().ok_or("no output")?;
    piped.read_exact(&mut said)?;
    writeln!(
        out,
        "{:20} {:>10} {:>10} {:>7}",
        "", "mount", "plain", "ratio"
    )?;
    for (name, work) in BENCHMARKS {
        // Recently changed files are not cached.
        std::thread::sleep(Duration::from_millis(100));
        let (through, direct) = (time(*work, &mount)?, time(*work, &plain)?);
        let ratio = through.as_secs_f64() / direct.as_secs_f64();
        writeln!(
            out,
            "{name:20} {through:>10.1?} {direct:>10.1?} {ratio:>7.1}"
        )?;
    }
    rustix::mount::unmount(&mount, rustix::mount::UnmountFlags::empty())?;
    mounting.wait()?;
    server.wait()?;
    Ok(())
}

fn time(work: Benchmark, root: &Path) -> std::io::Result<Duration> {
    let start = Instant::now();
    work(root)?;
    Ok(start.elapsed())
}
