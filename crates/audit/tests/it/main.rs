//! Tests of the public interface: writing, sharing, tampering, verifying.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod rotate;
mod tamper;
mod write;

use std::path::{Path, PathBuf};

use audit::{AuditLog, AuditRecord, AuditReport, verify};

pub(crate) struct TestLog {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl TestLog {
    pub(crate) fn empty() -> TestLog {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        TestLog { _dir: dir, path }
    }

    pub(crate) fn with(count: usize) -> TestLog {
        let log = TestLog::empty();
        let handle = log.open();
        for number in 0..count {
            handle.append_blocking("s1", end(number)).unwrap();
        }
        log
    }

    pub(crate) fn open(&self) -> AuditLog {
        AuditLog::open(&self.path).unwrap()
    }

    pub(crate) fn head(&self) -> PathBuf {
        self.path.with_extension("jsonl.head")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    /// Changes the file in place, so that a writer that has it open keeps the same file.
    pub(crate) fn edit(&self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        std::fs::write(&self.path, change(self.bytes())).unwrap();
    }

    pub(crate) fn keep_lines(&self, keep: impl Fn(usize) -> bool) {
        self.edit(|bytes| {
            let lines = bytes.split_inclusive(|&byte| byte == b'\n').enumerate();
            lines
                .filter(|(index, _)| keep(*index))
                .flat_map(|(_, line)| line.to_vec())
                .collect()
        });
    }

    pub(crate) fn report(&self) -> AuditReport {
        verify(&self.path).unwrap()
    }
}

pub(crate) fn end(number: usize) -> AuditRecord {
    AuditRecord::End {
        cause: format!("cause {number}"),
    }
}

pub(crate) fn finding_texts(report: &AuditReport) -> Vec<String> {
    report.findings.iter().map(ToString::to_string).collect()
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
