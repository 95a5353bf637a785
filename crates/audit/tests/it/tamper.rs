//! `verify` detects and locates any tampering with a log.

use audit::{AuditLog, AuditProblem, AuditRecord};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{TestLog, end, finding_texts};

#[derive(Clone, Debug)]
enum Tampering {
    ChangeByte { at: Index, by: u8 },
    RemoveLines { first: Index, count: usize },
    SwapLines { one: Index, other: Index },
    RepeatLine { line: Index, to: Index },
    InsertLine { text: String, to: Index },
    Truncate { at: Index },
}

fn tampering() -> impl Strategy<Value = Tampering> {
    let index = any::<Index>;
    prop_oneof![
        (index(), 1..=255u8).prop_map(|(at, by)| Tampering::ChangeByte { at, by }),
        (index(), 1..4usize).prop_map(|(first, count)| Tampering::RemoveLines { first, count }),
        (index(), index()).prop_map(|(one, other)| Tampering::SwapLines { one, other }),
        (index(), index()).prop_map(|(line, to)| Tampering::RepeatLine { line, to }),
        ("[ -~]{0,20}", index()).prop_map(|(text, to)| Tampering::InsertLine { text, to }),
        index().prop_map(|at| Tampering::Truncate { at }),
    ]
}

fn apply(tampering: &Tampering, bytes: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    match tampering {
        Tampering::ChangeByte { at, by } => {
            let mut bytes = bytes.to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            return bytes;
        }
        Tampering::Truncate { at } => return bytes[..at.index(bytes.len())].to_vec(),
        Tampering::RemoveLines { first, count } => {
            let first = first.index(lines.len());
            lines.drain(first..lines.len().min(first + count));
        }
        Tampering::SwapLines { one, other } => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
        Tampering::RepeatLine { line, to } => {
            let line = lines[line.index(lines.len())].clone();
            lines.insert(to.index(lines.len() + 1), line);
        }
        Tampering::InsertLine { text, to } => {
            lines.insert(to.index(lines.len() + 1), format!("{text}\n").into_bytes());
        }
    }
    lines.concat()
}

/// Whether only the last newline is missing: the next writer restores it, and nothing is lost.
fn is_repairable(before: &[u8], after: &[u8]) -> bool {
    before.strip_suffix(b"\n") == Some(after)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_tampering_is_found(
        causes in proptest::collection::vec(".{0,40}", 1..12),
        tampering in tampering(),
    ) {
        let log = TestLog::empty();
        let handle = log.open();
        for cause in causes {
            handle.append_blocking("s1", AuditRecord::End { cause }).unwrap();
        }
        prop_assert!(log.report().is_clean(), "{:?}", finding_texts(&log.report()));

        let before = log.bytes();
        let after = apply(&tampering, &before);
        prop_assume!(after != before && !is_repairable(&before, &after));
        log.edit(|_| after);
        prop_assert!(!log.report().is_clean());

        // Further lines must not hide it, neither from the same handle nor from a new one.
        handle.append_blocking("s1", end(0)).unwrap();
        prop_assert!(!log.report().is_clean());
        AuditLog::open(&log.path).unwrap().append_blocking("s1", end(1)).unwrap();
        prop_assert!(!log.report().is_clean());
    }

    #[test]
    fn a_fresh_writer_does_not_cover_tampering_up(tampering in tampering()) {
        let log = TestLog::with(6);
        let before = log.bytes();
        let after = apply(&tampering, &before);
        prop_assume!(after != before && !is_repairable(&before, &after));
        log.edit(|_| after);
        AuditLog::open(&log.path).unwrap().append_blocking("s1", end(6)).unwrap();
        prop_assert!(!log.report().is_clean());
    }

    #[test]
    fn rubbish_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let log = TestLog::with(2);
        log.edit(|_| bytes);
        prop_assert!(!log.report().is_clean());
        log.open().append_blocking("s1", end(2)).unwrap();
    }
}

#[test]
fn a_finding_is_a_sentence() {
    fn check(tamper: impl FnOnce(&TestLog), expect: &[&str]) {
        let log = TestLog::with(9);
        tamper(&log);
        assert_eq!(finding_texts(&log.report()), expect);
    }

    check(|_| {}, &[]);
    check(
        |log| log.keep_lines(|line| line != 5),
        &[
            "line 6: hash of the line before does not match: line 5 or 6 was changed, removed or moved",
        ],
    );
    check(
        |log| log.keep_lines(|line| line > 1),
        &["line 1: is not the beginning of a log: lines before it were removed"],
    );
    check(
        |log| log.keep_lines(|line| line < 8),
        &["line 9: 1 record was removed at the end"],
    );
    check(
        |log| log.keep_lines(|_| false),
        &["line 1: 9 records were removed at the end"],
    );
    check(
        |log| {
            log.edit(|bytes| {
                let text = String::from_utf8(bytes).unwrap();
                text.replace("cause 8", "cause 0").into_bytes()
            });
        },
        &["line 9: the last record is not the one that was written"],
    );
    check(
        |log| log.edit(|bytes| bytes[..bytes.len() - 1].to_vec()),
        &["line 9: ends without a newline: the last write was cut off, or bytes were removed"],
    );
    check(
        |log| std::fs::remove_file(log.head()).unwrap(),
        &[
            "line 10: the head file is missing or unreadable: lines removed at the end cannot be detected",
        ],
    );
    check(
        |log| {
            std::fs::remove_file(log.head()).unwrap();
            log.open().append_blocking("s1", end(9)).unwrap();
        },
        &[
            "line 10: the chain restarts: the head file was missing when this line was written, \
           so lines before it may have been removed",
        ],
    );
}

#[test]
fn one_change_is_found_once_and_the_rest_is_still_checked() {
    let log = TestLog::with(200);
    log.edit(|bytes| {
        let text = String::from_utf8(bytes).unwrap();
        text.replace("cause 50\"", "cause 5O\"")
            .replace("cause 150\"", "cause 15O\"")
            .into_bytes()
    });
    let lines: Vec<u64> = log
        .report()
        .findings
        .iter()
        .map(|finding| finding.line)
        .collect();
    assert_eq!(lines, [52, 152]);
}

#[test]
fn an_old_head_is_noticed() {
    let log = TestLog::with(2);
    let head = std::fs::read(log.head()).unwrap();
    (0..3).for_each(|n| log.open().append_blocking("s1", end(n)).unwrap());
    std::fs::write(log.head(), head).unwrap();
    assert_eq!(
        log.report().findings[0].problem,
        AuditProblem::HeadBehind { records: 3 }
    );
}

#[test]
fn a_file_of_rubbish_is_checked_in_bounded_memory() {
    let log = TestLog::with(1);
    log.edit(|mut bytes| {
        bytes.extend(vec![b'x'; 3 << 20]);
        bytes.extend(b"\n".repeat(5000));
        bytes
    });
    let report = log.report();
    assert_eq!(report.findings.len(), 1000);
    assert_eq!(report.lines, 5001);
    assert_eq!(report.findings.len() as u64 + report.unlisted, 5000);
}
