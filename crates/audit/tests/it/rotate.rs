//! A full log is rotated, and the chain continues in the new file.

use std::path::PathBuf;

use audit::{AuditLog, RotationPolicy};

use crate::{TestLog, end, finding_texts};

const SMALL_ROTATION: RotationPolicy = RotationPolicy {
    bytes: 2_000,
    keep: 3,
};

fn open(log: &TestLog) -> AuditLog {
    AuditLog::open_with(&log.path, SMALL_ROTATION).unwrap()
}

/// The rotated files, oldest first.
fn rotated_files(log: &TestLog) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(log.path.parent().unwrap()).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| *path != log.path && *path != log.head());
    found.sort();
    found
}

#[test]
fn a_full_log_goes_on_in_a_new_file() {
    let log = TestLog::empty();
    let handle = open(&log);
    let mut written = 0;
    while rotated_files(&log).len() < 2 {
        handle.append_blocking("s1", end(written)).unwrap();
        written += 1;
    }
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    // Each new file has one additional line.
    assert_eq!(report.lines, written as u64 + 2);
    assert_eq!((report.files_aside, report.rotated_away), (2, 0));
    let first: serde_json::Value =
        serde_json::from_slice(log.bytes().split(|&byte| byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(first["event"]["kind"], "rotated");
    let previous = first["event"]["previous"].as_str().unwrap();
    assert!(rotated_files(&log)[1].ends_with(previous), "{previous}");
    for file in rotated_files(&log) {
        assert!(std::fs::metadata(file).unwrap().len() < 2 * SMALL_ROTATION.bytes);
    }
}

#[test]
fn the_oldest_files_go_and_the_rest_is_whole() {
    let log = TestLog::empty();
    let handle = open(&log);
    for number in 0..100 {
        handle.append_blocking("s1", end(number)).unwrap();
    }
    assert_eq!(rotated_files(&log).len(), SMALL_ROTATION.keep);
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    assert!(report.rotated_away > 0);
    let last: serde_json::Value = serde_json::from_slice(
        log.bytes()
            .trim_ascii_end()
            .rsplit(|&byte| byte == b'\n')
            .next()
            .unwrap(),
    )
    .unwrap();
    assert_eq!(
        report.rotated_away + report.lines,
        last["seq"].as_u64().unwrap()
    );
}

#[test]
fn a_file_that_somebody_removed_or_changed_is_missed() {
    fn check(tamper: impl FnOnce(&[PathBuf]), expect: &str) {
        let log = TestLog::empty();
        let handle = open(&log);
        for number in 0..100 {
            handle.append_blocking("s1", end(number)).unwrap();
        }
        tamper(&rotated_files(&log));
        let found = finding_texts(&log.report());
        assert!(found.iter().any(|text| text.contains(expect)), "{found:?}");
    }
    let remove = |path: &PathBuf| std::fs::remove_file(path).unwrap();
    check(
        |files| remove(&files[0]),
        "files of the log that should still be there were removed",
    );
    check(
        |files| files.iter().for_each(remove),
        "files of the log that should still be there were",
    );
    check(
        |files| remove(&files[1]),
        "line 1: was changed, or lines before it removed",
    );
    check(
        |files| {
            let text = std::fs::read_to_string(&files[1]).unwrap();
            std::fs::write(&files[1], text.replacen("cause", "Cause", 1)).unwrap();
        },
        "hash of the line before does not match",
    );
    check(
        |files| {
            let text = std::fs::read_to_string(&files[1]).unwrap();
            let cut = text.trim_end().rfind('\n').unwrap() + 1;
            std::fs::write(&files[1], &text[..cut]).unwrap();
        },
        "line 1: was changed, or lines before it removed",
    );
}

#[test]
fn writers_of_one_log_follow_it_into_new_files() {
    const WRITERS: usize = 4;
    const LINES: usize = 100;
    let log = TestLog::empty();
    let all = RotationPolicy {
        keep: 1000,
        ..SMALL_ROTATION
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &log.path;
            scope.spawn(move || {
                let handle = AuditLog::open_with(path, all).unwrap();
                for line in 0..LINES {
                    handle
                        .append_blocking(&format!("s{writer}"), end(line))
                        .unwrap();
                }
            });
        }
    });
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    assert!(report.files_aside > 10);
    assert_eq!(report.lines, (WRITERS * LINES) as u64 + report.files_aside);
}

#[test]
fn a_crash_during_rotation_loses_nothing() {
    let log = TestLog::empty();
    let handle = open(&log);
    let mut number = 0;
    while std::fs::metadata(&log.path).unwrap().len() < SMALL_ROTATION.bytes {
        handle.append_blocking("s1", end(number)).unwrap();
        number += 1;
    }
    // The hard link exists and the new file is partly written, but not renamed yet.
    let mut second = log.path.clone().into_os_string();
    second.push(format!(".{number:020}"));
    std::fs::hard_link(&log.path, second).unwrap();
    std::fs::write(log.path.with_extension("jsonl.next"), "{\"seq").unwrap();
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    assert_eq!((report.lines, report.files_aside), (number as u64, 0));
    for handle in [handle, open(&log)] {
        handle.append_blocking("s1", end(number)).unwrap();
        number += 1;
    }
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    assert_eq!((report.lines, report.files_aside), (number as u64 + 1, 1));
}
