//! Writes an initramfs archive in the `cpio` "newc" format. Supports only folders, files and device
//! nodes; everything belongs to root and has no timestamp.

/// An archive under construction.
#[derive(Debug, Default)]
pub(super) struct CpioArchive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER_MODE: u32 = 0o040_000;
const FILE_MODE: u32 = 0o100_000;
const CHARACTER_DEVICE_MODE: u32 = 0o020_000;

impl CpioArchive {
    /// Parents must be added before their content.
    pub(super) fn folder(&mut self, name: &str) {
        self.entry(name, FOLDER_MODE | 0o755, (0, 0), &[]);
    }

    pub(super) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, FILE_MODE | mode, (0, 0), content);
    }

    pub(super) fn character_device(&mut self, name: &str, mode: u32, number: (u32, u32)) {
        self.entry(name, CHARACTER_DEVICE_MODE | mode, number, &[]);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let (number, owner, group, links, time) = (self.entries, 0, 0, 1, 0);
        let (disk_major, disk_minor, checksum) = (0, 0, 0);
        let fields = [
            number,
            mode,
            owner,
            group,
            links,
            time,
            content.len() as u32,
            disk_major,
            disk_minor,
            device.0,
            device.1,
            name.len() as u32 + 1,
            checksum,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        let whole = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(whole, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Uses the `cpio` program for reading.
    #[test]
    fn an_archive_is_what_cpio_reads() {
        let mut archive = CpioArchive::default();
        archive.folder("dev");
        archive.character_device("dev/null", 0o666, (1, 3));
        archive.file("init", 0o755, b"#!");
        archive.file("empty", 0o644, b"");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let mut cpio = Command::new("cpio")
            .args(["--list", "--verbose", "--numeric-uid-gid", "--quiet"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<String> = text
            .lines()
            .map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                format!("{} {}", fields[0], fields[fields.len() - 1])
            })
            .collect();
        assert_eq!(
            lines,
            [
                "drwxr-xr-x dev",
                "crw-rw-rw- dev/null",
                "-rwxr-xr-x init",
                "-rw-r--r-- empty"
            ]
        );
    }
}
