//! The guest program as process 1 behind the walls around a VMM, outside the virtual machine.
//!
//! Starts the VMM with the descriptors that the host sends, and serves the workspace to the machine. Ends
//! when the VMM or the host ends, and all processes behind the walls end with it. Does not see the messages
//! between the machine and the host: their ports connect the VMM and the host directly. Entry point:
//! [`serve`].

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use walls::machine::{HelperTask, ProgramExit, VmmProgram, place_descriptors};
use walls::plan::send;

/// Maximum number of stored bytes from the end of the program's standard error.
const MAX_STDERR_BYTES: usize = 4096;

pub(crate) fn serve(link: OwnedFd) -> ExitCode {
    let link = UnixStream::from(link);
    let Ok((errand, mut descriptors)) = HelperTask::receive(&link) else {
        return ExitCode::FAILURE;
    };
    let channel = errand.folder.is_some() && !descriptors.is_empty();
    let channel = channel.then(|| descriptors.remove(0));
    // Start the program before opening any file: its descriptors need fixed numbers.
    let started = errand.program.map(|program| start(&program, descriptors));
    if let (Some(folder), Some(channel)) = (errand.folder, channel)
        && serve_files(&folder, channel).is_err()
    {
        return ExitCode::FAILURE;
    }
    let ending = match started {
        None => {
            wait_readable(&link, None);
            return ExitCode::SUCCESS;
        }
        Some(Ok(child)) => watch(&link, child),
        Some(Err(error)) => Some(ProgramExit {
            status: "not started".into(),
            last_stderr_line: error.to_string(),
        }),
    };
    if let Some(ending) = ending {
        let _ = send(&link, &ending);
    }
    ExitCode::SUCCESS
}

/// Serves the files on separate threads. Exits if that fails, because the machine would wait for its files
/// for ever.
fn serve_files(folder: &Path, channel: OwnedFd) -> io::Result<()> {
    let folder = File::open(folder)?;
    thread::Builder::new().spawn(move || {
        if share::serve(folder.into(), channel).is_err() {
            std::process::exit(1);
        }
    })?;
    Ok(())
}

fn start(program: &VmmProgram, descriptors: Vec<OwnedFd>) -> io::Result<Child> {
    // Dropped after the start, so that only the program holds them.
    let _placed = place_descriptors(descriptors)?;
    Command::new(&program.path)
        .args(&program.arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

/// Waits until the program ends, and returns how; `None` if the host ended first.
fn watch(link: &UnixStream, mut child: Child) -> Option<ProgramExit> {
    let mut stderr = child.stderr.take().map(OwnedFd::from).map(File::from)?;
    let mut said = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        if !wait_readable(link, Some(&stderr)) {
            return None;
        }
        match stderr.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(read) => said.extend_from_slice(&buffer[..read]),
        }
        let excess = said.len().saturating_sub(MAX_STDERR_BYTES);
        said.drain(..excess);
    }
    let status = child.wait().ok()?;
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    Some(ProgramExit {
        status: status.to_string(),
        last_stderr_line: last.unwrap_or_default().to_owned(),
    })
}

/// Waits until `output` is readable. False if the host has ended.
fn wait_readable(link: &UnixStream, output: Option<&File>) -> bool {
    loop {
        let mut ready = vec![PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        ready.extend(output.map(|output| PollFd::new(output.as_fd(), PollFlags::POLLIN)));
        match poll(&mut ready, PollTimeout::NONE) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => return false,
        }
        // The host sends nothing after the first message, so any event means that it has ended.
        return ready[0].any() != Some(true);
    }
}
