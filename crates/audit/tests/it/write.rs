//! Opening, appending, sharing, and continuing after a crash.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::time::Duration;

use audit::{AuditError, AuditLog, AuditProblem, AuditRecord, AuditVerdict};

use crate::{TestLog, end, finding_texts, mode};

#[test]
fn every_kind_of_record_is_one_line() {
    let log = TestLog::empty();
    let handle = log.open();
    let records = [
        AuditRecord::Start {
            backend: "native".into(),
            strength: "namespaces".into(),
            reason: "asked for".into(),
            walls: vec!["landlock".into()],
            limits: BTreeMap::from([("memory".into(), "cgroup".into())]),
            workspace: "/src".into(),
        },
        AuditRecord::Exec {
            exec: 1,
            argv: vec!["sh".into(), "-c".into(), "echo \n\u{1b}]52;c;x\u{7}".into()],
            cwd: "/workspace".into(),
            env_names: vec!["PATH".into()],
            terminal: true,
        },
        AuditRecord::Input {
            exec: Some(1),
            job: 1,
            text: "ls\n".into(),
            last: false,
        },
        AuditRecord::Signal {
            exec: None,
            job: 1,
            signal: 15,
        },
        AuditRecord::ExecEnd {
            exec: 1,
            outcome: "exit 0".into(),
            millis: 5,
            bytes: 10,
        },
        AuditRecord::FileChange {
            operation: "write".into(),
            path: "a".into(),
        },
        AuditRecord::Connection {
            host: "example.com".into(),
            port: 443,
            verdict: AuditVerdict::Allowed,
            because: "example.com".into(),
            address: Some("192.0.2.1:443".into()),
            count: 3,
        },
        AuditRecord::Capped {
            what: "connections".into(),
            count: 9,
        },
        AuditRecord::Request {
            id: "1".into(),
            remote: "192.0.2.1:9".into(),
            user: "me".into(),
            key: Some("k".into()),
            method: "POST".into(),
            path: "/v1/jobs".into(),
        },
        AuditRecord::Answer {
            id: "1".into(),
            user: None,
            status: 200,
        },
        AuditRecord::Refusal {
            remote: "192.0.2.1".into(),
            user: String::new(),
            key: None,
            method: "GET".into(),
            route: "/v1/jobs".into(),
            status: 401,
            count: 1,
        },
        AuditRecord::Approval {
            what: "push".into(),
            decision: "denied".into(),
            scope: Some("once".into()),
            by: "person".into(),
        },
        AuditRecord::End {
            cause: "closed".into(),
        },
    ];
    for record in &records {
        handle.append_blocking("s1", record.clone()).unwrap();
    }

    let text = String::from_utf8(log.bytes()).unwrap();
    assert_eq!(text.lines().count(), records.len());
    for (index, line) in text.lines().enumerate() {
        assert!(!line.contains('\u{1b}'), "control characters are escaped");
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["seq"], index as u64 + 1);
        assert_eq!(line["sandbox"], "s1");
        assert_eq!(
            serde_json::from_value::<AuditRecord>(line["event"].clone()).unwrap(),
            records[index]
        );
    }
    let report = log.report();
    assert!(report.is_clean(), "{:?}", finding_texts(&report));
    assert_eq!(report.lines, records.len() as u64);
    assert!(
        std::fs::read_to_string(log.head())
            .unwrap()
            .contains(&report.last)
    );
}

#[test]
fn files_and_folders_are_private() {
    let log = TestLog::empty();
    let path = log.path.with_file_name("new").join("deep").join("log");
    AuditLog::open(&path)
        .unwrap()
        .append_blocking("s1", end(0))
        .unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&path.with_extension("head")), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(path.parent().unwrap().parent().unwrap()), 0o700);
}

#[test]
fn a_symlink_is_never_followed() {
    let log = TestLog::empty();
    let target = log.path.with_file_name("target");
    std::fs::write(&target, "keep").unwrap();
    symlink(&target, &log.path).unwrap();
    assert!(matches!(
        AuditLog::open(&log.path),
        Err(AuditError::Open { .. })
    ));
    assert!(matches!(
        audit::verify(&log.path),
        Err(AuditError::Open { .. })
    ));
    assert_eq!(std::fs::read(&target).unwrap(), b"keep");
}

#[test]
fn only_a_regular_file_is_a_log() {
    let log = TestLog::empty();
    assert!(matches!(
        AuditLog::open("/dev/null"),
        Err(AuditError::NotAFile { .. })
    ));
    std::fs::create_dir(&log.path).unwrap();
    assert!(matches!(
        AuditLog::open(&log.path),
        Err(AuditError::Open { .. })
    ));
}

#[test]
fn many_writers_share_one_log() {
    const WRITERS: usize = 8;
    const LINES: usize = 200;
    let log = TestLog::empty();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let path = &log.path;
            scope.spawn(move || {
                let handle = AuditLog::open(path).unwrap();
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
    assert_eq!(report.lines, (WRITERS * LINES) as u64);
    // All lines of each writer exist, in its order.
    let text = String::from_utf8(log.bytes()).unwrap();
    let mut next = [0; WRITERS];
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let writer: usize = line["sandbox"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(line["event"]["cause"], format!("cause {}", next[writer]));
        next[writer] += 1;
    }
    assert_eq!(next, [LINES; WRITERS]);
}

#[test]
fn clones_of_a_handle_share_it() {
    let log = TestLog::empty();
    let handle = log.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let handle = handle.clone();
            scope
                .spawn(move || (0..50).for_each(|n| handle.append_blocking("s1", end(n)).unwrap()));
        }
    });
    assert!(log.report().is_clean());
    assert_eq!(log.report().lines, 200);
}

#[test]
fn verify_sees_whole_lines_while_others_write() {
    let log = TestLog::with(1);
    std::thread::scope(|scope| {
        let handle = log.open();
        let writer = scope
            .spawn(move || (0..300).for_each(|n| handle.append_blocking("s1", end(n)).unwrap()));
        while !writer.is_finished() {
            let report = log.report();
            assert!(report.is_clean(), "{:?}", finding_texts(&report));
        }
    });
}

#[test]
fn a_torn_line_is_kept_and_the_chain_goes_on_over_it() {
    for cut in [1, 5, 40] {
        let log = TestLog::with(3);
        let whole = log.bytes();
        // A power failure during the write of line 4: part of it was written, the head is still at 3.
        let torn = whole[..cut].to_vec();
        log.edit(|mut bytes| {
            bytes.extend(&torn);
            bytes
        });
        assert!(
            log.report()
                .findings
                .iter()
                .any(|found| found.problem == AuditProblem::NoNewline)
        );

        log.open().append_blocking("s1", end(4)).unwrap();
        assert!(
            log.bytes()
                .starts_with(&[whole, torn, b"\n".to_vec()].concat())
        );
        let report = log.report();
        assert_eq!(report.findings.len(), 1, "{:?}", finding_texts(&report));
        assert_eq!(report.findings[0].problem, AuditProblem::CutOff);
        assert_eq!(report.findings[0].line, 4);
        assert_eq!(report.lines, 5);
    }
}

#[test]
fn a_crash_between_line_and_head_is_healed() {
    let log = TestLog::with(3);
    let head = std::fs::read(log.head()).unwrap();
    log.open().append_blocking("s1", end(3)).unwrap();
    std::fs::write(log.head(), head).unwrap();
    assert!(log.report().is_clean());
    log.open().append_blocking("s1", end(4)).unwrap();
    assert!(log.report().is_clean());
}

#[test]
fn a_replaced_log_is_not_written_to() {
    let log = TestLog::with(1);
    let handle = log.open();
    std::fs::rename(&log.path, log.path.with_extension("old")).unwrap();
    assert!(matches!(
        handle.append_blocking("s1", end(1)),
        Err(AuditError::Replaced { .. })
    ));
    std::fs::write(&log.path, "").unwrap();
    assert!(matches!(
        handle.append_blocking("s1", end(1)),
        Err(AuditError::Replaced { .. })
    ));
}

#[test]
fn what_need_not_be_waited_for_is_written_in_its_order() {
    let log = TestLog::empty();
    let handle = log.open();
    for number in 0..500 {
        handle.append_later("s1", end(number)).unwrap();
    }
    handle.append_blocking("s1", end(500)).unwrap();
    let text = String::from_utf8(log.bytes()).unwrap();
    for (number, line) in text.lines().enumerate() {
        assert!(line.ends_with(&format!("\"cause {number}\"}}}}")), "{line}");
    }
    assert_eq!(text.lines().count(), 501);
    assert!(
        log.report().is_clean(),
        "{:?}",
        finding_texts(&log.report())
    );
}

#[test]
fn a_crash_after_lines_that_were_written_together_is_healed() {
    let log = TestLog::with(3);
    let head = std::fs::read(log.head()).unwrap();
    let handle = log.open();
    // Delayed by the lock, so that they are written together.
    let lock = std::fs::File::open(&log.path).unwrap();
    lock.lock().unwrap();
    for number in 0..20 {
        handle.append_later("s1", end(number)).unwrap();
    }
    lock.unlock().unwrap();
    handle.flush(Duration::from_secs(60)).unwrap();
    let text = String::from_utf8(log.bytes()).unwrap();
    let group = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["group"].as_u64().unwrap_or(1) as usize
    };
    // One may have been written before the others arrived.
    let last = 3 + usize::from(group(text.lines().nth(3).unwrap()) == 1);
    let together = group(text.lines().nth(last).unwrap());
    assert!(together > 1, "{text}");
    // A power failure after the lines and before the head was written.
    log.keep_lines(|line| line < last + together);
    let head = match last {
        3 => head,
        _ => {
            let before = TestLog::empty();
            std::fs::write(
                &before.path,
                text.lines().take(last).collect::<Vec<_>>().join("\n") + "\n",
            )
            .unwrap();
            let seq_and_hash = format!("{last:020} {}\n", before.report().last);
            seq_and_hash.into_bytes()
        }
    };
    std::fs::write(log.head(), head).unwrap();
    assert!(
        log.report().is_clean(),
        "{:?}",
        finding_texts(&log.report())
    );
    log.open().append_blocking("s1", end(99)).unwrap();
    assert!(
        log.report().is_clean(),
        "{:?}",
        finding_texts(&log.report())
    );
}
