//! A stand-in for `firecracker` and its `jailer`, for tests on machines that have no KVM: never
//! shipped, and no part of any sandbox.
//!
//! It takes the arguments of these programs, and answers the published API with the checks that it
//! prescribes: paths, methods, required fields and their types, and the allowed requests in each
//! state. It has no machine: a connection to a port goes to `machine.sock`, a socket that the test
//! has put into the shared folder, where the test simulates the machine.
//!
//! Its file name determines its behaviour: `jailer` is the jailer, `firecracker` works normally,
//! `firecracker-mute` never makes its socket, `-dead` ends with an error, `-full` refuses every
//! configuration, `-stale` refuses to load snapshots and ends, `-deaf` connects to no port.

mod api;
mod jailer;
mod vsock;

use std::fs;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Deviations from the behaviour that the API prescribes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Good,
    Mute,
    Dead,
    Full,
    Stale,
    Deaf,
}

impl Behaviour {
    fn of(name: &str) -> Self {
        match name.rsplit('-').next() {
            Some("mute") => Self::Mute,
            Some("dead") => Self::Dead,
            Some("full") => Self::Full,
            Some("stale") => Self::Stale,
            Some("deaf") => Self::Deaf,
            _ => Self::Good,
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let own = Path::new(&arguments[0]).file_name().unwrap_or_default();
    let own = own.to_string_lossy().into_owned();
    let outcome = match own.as_str() {
        "jailer" => jailer::run(&arguments[1..]),
        // Behind native walls its path is always the same; mountinfo has its outside name.
        _ => run(&real_name(own), &arguments[1..]),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "Error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Finds the outside name of the program: walls bind it to one path, and mountinfo has the source.
fn real_name(own: String) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (point == "/firecracker").then(|| root.rsplit('/').next().unwrap_or(root).to_owned())
    });
    mounted.unwrap_or(own)
}

fn run(name: &str, arguments: &[String]) -> Result<(), String> {
    if arguments == ["--version"] {
        let _ = writeln!(stdout(), "Firecracker v1.13.1");
        return Ok(());
    }
    let mut api_socket = None;
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or(format!("`{flag}` needs a value"))?;
        match flag.as_str() {
            "--api-sock" => api_socket = Some(value.clone()),
            "--id" => check_id(value)?,
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    let api_socket = api_socket.unwrap_or("/run/firecracker.socket".into());
    serve(Behaviour::of(name), Path::new("/"), Path::new(&api_socket))
}

/// Letters, digits and hyphens, up to the limit of both programs.
fn check_id(id: &str) -> Result<(), String> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if !id.is_empty() && id.len() <= 64 && id.chars().all(is_good) {
        Ok(())
    } else {
        Err(format!("Invalid instance ID: `{id}`"))
    }
}

/// Runs as Firecracker. `root` is its root folder.
fn serve(manner: Behaviour, root: &Path, api_socket: &Path) -> Result<(), String> {
    match manner {
        Behaviour::Mute => loop {
            std::thread::park();
        },
        Behaviour::Dead => return Err("cannot find a virtual processor".into()),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(api::serve(manner, root, api_socket))
}
