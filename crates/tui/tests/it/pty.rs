//! A pseudo terminal with a program in it: sends keys and parses the output as a screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;

/// After this time a program counts as hung.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct TestPty {
    master: File,
    slave: OwnedFd,
    parser: vt100::Parser,
    child: Child,
    /// All output of the program.
    pub(crate) written: Vec<u8>,
    /// The original terminal settings.
    before: Termios,
}

impl TestPty {
    /// Starts the example with this editor.
    pub(crate) fn echo(editor: &str) -> Self {
        let mut pty = Self::start(&[echo().to_str().unwrap(), editor]);
        pty.wait_until("it draws", |screen| screen.alternate_screen());
        pty
    }

    /// Starts a program in a terminal of 80 columns and 24 lines.
    pub(crate) fn start(command: &[&str]) -> Self {
        let (master, slave) = open_pty();
        let before = tcgetattr(&slave).unwrap();
        resize(&slave, 80, 24);
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = Command::new("setsid")
            .arg("--ctty")
            .args(command)
            .env("PS1", "$ ")
            .env_remove("PROMPT_COMMAND")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            master,
            slave,
            parser: vt100::Parser::new(size(24), size(80), 0),
            child,
            written: Vec::new(),
            before,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            // Read too: if both sides only write, they block each other.
            self.read(Duration::ZERO);
            let (piece, behind) = rest.split_at(rest.len().min(1024));
            self.master.write_all(piece).unwrap();
            rest = behind;
        }
    }

    pub(crate) fn resize(&mut self, columns: u16, lines: u16) {
        self.read(Duration::ZERO);
        resize(&self.slave, columns, lines);
        self.parser.set_size(size(lines), size(columns));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Closes the terminal while the program runs.
    pub(crate) fn hang_up(mut self) -> ExitStatus {
        let nowhere = || File::open("/dev/null").unwrap();
        drop(std::mem::replace(&mut self.master, nowhere()));
        drop(std::mem::replace(&mut self.slave, nowhere().into()));
        self.child.wait().unwrap()
    }

    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    pub(crate) fn text(&self) -> String {
        self.screen().contents()
    }

    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    #[track_caller]
    pub(crate) fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&vt100::Screen) -> bool) {
        let give_up = Instant::now() + TEST_TIMEOUT;
        while !is_so(self.screen()) {
            assert!(Instant::now() < give_up, "never: {what}\n{}", self.text());
            self.read(Duration::from_millis(100));
        }
    }

    /// Waits for bytes in the output that are not visible on the screen.
    #[track_caller]
    pub(crate) fn wait_for_bytes(&mut self, bytes: &str) {
        let give_up = Instant::now() + TEST_TIMEOUT;
        while !contains_bytes(&self.written, bytes.as_bytes()) {
            assert!(
                Instant::now() < give_up,
                "never: {bytes:?}\n{}",
                self.text()
            );
            self.read(Duration::from_millis(100));
        }
    }

    /// Waits for the end of the program, and asserts that it restored the terminal.
    #[track_caller]
    pub(crate) fn assert_restored(&mut self, code: i32) {
        let give_up = Instant::now() + TEST_TIMEOUT;
        let status = loop {
            self.read(Duration::from_millis(10));
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < give_up, "it hangs\n{}", self.text());
        };
        self.read(Duration::ZERO);
        assert_eq!(status.code(), Some(code), "{}", self.text());
        assert_eq!(tcgetattr(&self.slave).unwrap(), self.before);
        let screen = self.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        let text = String::from_utf8_lossy(&self.written);
        // The first mode is a counter, the second is set to its last value.
        let count = |sequence: &str| text.matches(sequence).count();
        assert_eq!(count("\x1b[>1u"), count("\x1b[<u"));
        assert!(text.rfind("\x1b[>4;0m") > text.rfind("\x1b[>4;1m"));
    }

    /// Reads the available output, or waits a little for some.
    fn read(&mut self, longest: Duration) {
        let mut longest = PollTimeout::try_from(longest).unwrap();
        let mut buffer = [0; 65536];
        loop {
            let mut source = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut source, longest).unwrap() == 0 {
                return;
            }
            longest = PollTimeout::ZERO;
            let Ok(length) = self.master.read(&mut buffer) else {
                return;
            };
            self.parser.process(&buffer[..length]);
            self.written.extend_from_slice(&buffer[..length]);
        }
    }
}

impl Drop for TestPty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of the example's binary.
pub(crate) fn echo() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap().parent().unwrap();
    folder.join("examples/echo")
}

/// Both ends of a pseudo terminal, close-on-exec so that children of other tests do not inherit
/// them.
fn open_pty() -> (File, OwnedFd) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY)
        .open(ptsname_r(&master).unwrap())
        .unwrap();
    (OwnedFd::from(master).into(), slave.into())
}

fn size(value: u16) -> NonZeroU16 {
    NonZeroU16::new(value).unwrap()
}

fn resize(slave: &OwnedFd, columns: u16, lines: u16) {
    let status = Command::new("stty")
        .args(["columns", &columns.to_string(), "rows", &lines.to_string()])
        .stdin(Stdio::from(slave.try_clone().unwrap()))
        .status();
    assert!(status.unwrap().success());
}

fn contains_bytes(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
