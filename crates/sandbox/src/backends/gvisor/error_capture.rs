//! Captures the error output of `runsc` when it does not start: a small memory file as its standard
//! error, which it can only fill. Entry type: [`ErrorCapture`].

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Space for a few lines; later output is lost.
const CAPTURE_BYTES: u64 = 16 * 1024;

/// Length to which the reported line is cut.
const MAX_LINE_CHARS: usize = 300;

pub(super) struct ErrorCapture(File);

impl ErrorCapture {
    pub(super) fn new() -> io::Result<Self> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("hotcell-complaint", flags)?);
        file.set_len(CAPTURE_BYTES)?;
        let seals = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Self(file))
    }

    pub(super) fn writer(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// The last line of the output, if any.
    pub(super) fn last_words(mut self) -> Option<String> {
        let mut all = Vec::new();
        self.0.rewind().ok()?;
        self.0.read_to_end(&mut all).ok()?;
        last_line(&all)
    }
}

fn last_line(said: &[u8]) -> Option<String> {
    let said: Vec<u8> = said.iter().copied().take_while(|byte| *byte != 0).collect();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(line.chars().take(MAX_LINE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use super::*;

    #[test]
    fn the_last_line_is_what_people_get() {
        let check = |said: &str, expect: Option<&str>| {
            let complaint = ErrorCapture::new().unwrap();
            let mut writer = File::from(complaint.writer().unwrap());
            let _ = writer.write_all(said.as_bytes());
            assert_eq!(complaint.last_words().as_deref(), expect);
        };
        check("", None);
        check("\n \n", None);
        check(
            "starting\nrunning container: no\n\n",
            Some("running container: no"),
        );
        check(&"long ".repeat(8000), Some(&"long ".repeat(60)));
    }
}
