//! The audit log of a sandbox: every request in order, without secrets.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;
use sandbox::request::WriteMode;
use sandbox::{ExecCommand, Sandbox, SandboxSpec};
use serde_json::Value;

use crate::under_test;
use crate::world::{TestSandbox, within};

/// The events of this kind in a log.
pub(crate) fn events(log: &Path, kind: &str) -> Vec<Value> {
    all_events(log)
        .into_iter()
        .filter(|event| event["kind"] == kind)
        .collect()
}

fn all_events(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    text.lines()
        .map(|text| line(text)["event"].clone())
        .collect()
}

#[test]
fn everything_is_on_the_record_and_no_secret_is() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.jsonl");
        let audit = Arc::new(AuditLog::open(&log).unwrap());
        let world = TestSandbox::with(|spec| {
            spec.audit = Some(audit.clone());
            spec.env = vec![("TOKEN".into(), "s3cret-of-the-sandbox".into())];
        })
        .await;
        let command = ExecCommand::new(["echo", "hello"])
            .env("PASSWORD", "s3cret-of-the-command")
            .cwd("/tmp");
        world.run(command).await.unwrap();
        let killed = ExecCommand::script("sleep 1000").timeout(Some(Duration::from_millis(50)));
        world.run(killed).await.unwrap();
        world
            .write_file("a/file", "s3cret-content", WriteMode::Replace)
            .await
            .unwrap();
        world.rename("a/file", "b").await.unwrap();
        world.remove("b", false).await.unwrap();
        world.make_folder("c").await.unwrap();
        world.make_link("d", "c").await.unwrap();
        world.set_mode("c", 0o700).await.unwrap();
        let wait = Duration::from_secs(60);
        world
            .shell("main", "cd c; exit 3", wait, |_, _| {})
            .await
            .unwrap();
        let first = world.shell("main", "cat; exit 4", Duration::ZERO, |_, _| {});
        let job = first.await.unwrap().job;
        world.feed(job, "typed\n".into(), true).await.unwrap();
        let ended = world.poll(job, wait, |_, _| {}).await.unwrap();
        assert!(ended.exit.is_some(), "{ended:?}");
        let second = world.shell("main", "sleep 1000", Duration::ZERO, |_, _| {});
        let job = second.await.unwrap().job;
        // A signal that the shell cannot miss while it starts a process.
        world.kill(job, 9).await.unwrap();
        let ended = world.poll(job, wait, |_, _| {}).await.unwrap();
        assert!(ended.exit.is_some(), "{ended:?}");
        let third = world.shell("main", "sleep 2000", Duration::ZERO, |_, _| {});
        third.await.unwrap();
        // Read-only requests are not recorded.
        world.stat("c").await.unwrap();
        world.read_file("/etc/passwd", 0, None).await.unwrap();
        world.end().await;

        let events = all_events(&log);
        let short = |event: &Value| {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            match event["kind"].as_str().unwrap() {
                "exec" => format!("exec {} in {}", event["argv"], text("cwd")),
                "exec_end" => format!("exec_end {}", text("outcome")),
                "input" => format!("input {:?} to command {}", text("text"), event["exec"]),
                "signal" => format!("signal {} to command {}", event["signal"], event["exec"]),
                "file_change" => format!("{} {}", text("operation"), text("path")),
                other => other.to_owned(),
            }
        };
        let lines: Vec<String> = events.iter().map(short).collect();
        let expect = [
            "start",
            r#"exec ["echo","hello"] in /tmp"#,
            "exec_end Code(0)",
            r#"exec ["/bin/sh","-c","sleep 1000"] in /workspace"#,
            "exec_end Signal(9), wall time limit",
            "write a/file",
            "rename a/file",
            "rename to b",
            "remove b",
            "make folder c",
            "make link d",
            "set mode c",
            r#"exec ["bash","-c","cd c; exit 3"] in session main"#,
            "exec_end Code(3)",
            r#"exec ["bash","-c","cat; exit 4"] in session main"#,
            r#"input "typed\n" to command 4"#,
            "exec_end Code(4)",
            r#"exec ["bash","-c","sleep 1000"] in session main"#,
            "signal 9 to command 5",
            "exec_end Signal(9)",
            r#"exec ["bash","-c","sleep 2000"] in session main"#,
            "exec_end ended with the sandbox",
            "end",
        ];
        assert_eq!(lines, expect);
        let ends: Vec<&Value> = events
            .iter()
            .filter(|one| one["kind"] == "exec_end")
            .collect();
        let numbers: Vec<u64> = ends
            .iter()
            .map(|one| one["exec"].as_u64().unwrap())
            .collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        assert_eq!(ends[0]["bytes"], 6);
        assert_eq!(ends[3]["bytes"], 6);
        assert!(ends[1]["millis"].as_u64().unwrap() >= 50);
        assert_eq!(events[1]["env_names"], serde_json::json!(["PASSWORD"]));
        assert_eq!(events[0]["backend"], under_test::backend().name());
        assert_eq!(events[0]["limits"].as_object().unwrap().len(), 7);
        assert!(!fs::read_to_string(&log).unwrap().contains("s3cret"));
        let report = audit::verify(&log).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(report.lines, expect.len() as u64);
    });
}

#[test]
fn sandboxes_share_a_log_and_one_that_is_gone_stops_everything() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.jsonl");
        let audit = Arc::new(AuditLog::open(&log).unwrap());
        let share = |spec: &mut SandboxSpec| spec.audit = Some(audit.clone());
        let (one, two) = tokio::join!(TestSandbox::with(share), TestSandbox::with(share));
        let run = async |world: &TestSandbox| {
            for _ in 0..20 {
                world.text("true").await;
            }
        };
        tokio::join!(run(&one), run(&two));
        assert_ne!(one.id(), two.id());
        two.end().await;
        let report = audit::verify(&log).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        assert_eq!(report.lines, 2 + 80 + 1);

        // An action that cannot be recorded does not happen.
        fs::remove_file(&log).unwrap();
        assert!(one.run(ExecCommand::script("touch done")).await.is_err());
        let write = one.write_file("done", "", WriteMode::Replace).await;
        assert!(write.is_err());
        assert!(!one.path("done").exists());
        one.end().await;
        let mut spec = under_test::spec(folder.path());
        spec.audit = Some(audit);
        assert!(Sandbox::start(spec).await.is_err());
    });
}
