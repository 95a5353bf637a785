//! Background commands: polled, written to, killed, and used by later commands.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fixture::{ToolFixture, eventually, run_test, text};

/// The job number in a result.
fn job_of(says: &str) -> u32 {
    let (_, rest) = says
        .split_once("as job ")
        .unwrap_or_else(|| panic!("{says}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Starts a job and waits until it has printed `expect`.
async fn start(world: &ToolFixture, command: &str, expect: &str) -> u32 {
    let input = json!({"command": command, "background": true});
    let says = world.call_text("bash", input).await;
    let job = job_of(&says);
    if !says.contains(expect) {
        poll_until(world, job, expect).await;
    }
    job
}

/// Polls until the output so far contains `expect`.
async fn poll_until(world: &ToolFixture, job: u32, expect: &str) -> String {
    let mut all = String::new();
    eventually(expect, async || {
        let input = json!({"job": job, "action": "poll", "wait": 0});
        all.push_str(&text(&world.call("bash_job", input).await.unwrap()));
        all.contains(expect)
    })
    .await;
    all
}

#[test]
fn a_command_that_exceeds_its_wait_becomes_a_job() {
    run_test(async {
        let world = ToolFixture::new().await;
        let command = "echo started; while read line; do echo got $line; done; echo over; exit 5";
        let says = world
            .call_text("bash", json!({"command": command, "timeout": 1}))
            .await;
        assert!(
            says.starts_with("started\nrunning in the background as job 1 for 1 s: `bash_job`"),
            "{says}"
        );
        let job = job_of(&says);
        let act = async |action: &str, more: Value| {
            let mut input = json!({"job": job, "action": action});
            for (name, value) in more.as_object().unwrap() {
                input[name] = value.clone();
            }
            world.call("bash_job", input).await.unwrap()
        };
        // Meanwhile the session is free.
        assert_eq!(
            world
                .call_text("bash", json!({"command": "echo free"}))
                .await,
            "free\nexit code: 0"
        );
        let output = act("poll", json!({"wait": 0})).await;
        assert!(text(&output).starts_with("running in the background as job 1 for "));
        let written = text(&act("write", json!({"text": "one\n"})).await);
        let written = if written.starts_with("got one\n") {
            written
        } else {
            poll_until(&world, job, "got one\n").await
        };
        assert!(written.contains("got one\n"), "{written}");
        let output = act("write", json!({"text": "two\n", "end": true, "wait": 60})).await;
        assert_eq!(
            (text(&output).as_str(), output.is_error),
            ("got two\nover\nexit code: 5", true)
        );
        let why = world
            .refused("bash_job", json!({"job": job, "action": "poll"}))
            .await;
        assert_eq!(why, "there is no job 1, nor any other");
        world.end().await;
    });
}

#[test]
fn a_kill_ends_the_whole_process_group_with_sigterm_or_sigkill() {
    run_test(async {
        let world = ToolFixture::new().await;
        let kill = async |job: u32| {
            let input = json!({"job": job, "action": "kill"});
            world.call("bash_job", input).await.unwrap()
        };
        let script = "trap 'echo bye; exit 8' TERM; echo up; sleep 1000 & wait";
        let job = start(&world, script, "up\n").await;
        assert_eq!(text(&kill(job).await), "bye\nexit code: 8");
        world.wait_until_idle().await;
        let script = "trap '' TERM; echo up; sleep 1000; sleep 1000";
        let job = start(&world, script, "up\n").await;
        let output = kill(job).await;
        assert_eq!(text(&output), "killed by signal 9 (SIGKILL)");
        // It ended as it was asked to.
        assert!(!output.is_error);
        world.wait_until_idle().await;
        // Also kills processes that a command left behind.
        let says = world
            .call_text("bash", json!({"command": "sleep 1000 & echo started"}))
            .await;
        assert!(says.ends_with("exit code: 0"), "{says}");
        assert!(
            says.contains("[what it started still runs, as job "),
            "{says}"
        );
        let says = text(&kill(job_of(&says)).await);
        assert_eq!(says, "exit code: 0");
        world.wait_until_idle().await;
        world.end().await;
    });
}

#[test]
fn a_server_in_the_background_answers_later_commands() {
    run_test(async {
        let world = ToolFixture::new().await;
        let server = "mkfifo ask answer; \
                      while read line < ask; do echo \"asked $line\"; echo \"you said $line\" > answer; done &";
        let says = world.call_text("bash", json!({"command": server})).await;
        let job = job_of(&says);
        for word in ["one", "two"] {
            let command = format!("echo {word} > ask; cat answer");
            let says = world.call_text("bash", json!({"command": command})).await;
            assert_eq!(says, format!("you said {word}\nexit code: 0"));
        }
        let all = poll_until(&world, job, "asked two\n").await;
        assert!(all.contains("asked one\n"), "{all}");
        assert!(all.contains("[what it started still runs, as job"), "{all}");
        world
            .call_text("bash_job", json!({"job": job, "action": "kill"}))
            .await;
        world.wait_until_idle().await;
        world.end().await;
    });
}

#[test]
fn a_command_that_prints_endlessly_becomes_a_job() {
    run_test(async {
        let world = ToolFixture::new().await;
        let output = world
            .call("bash", json!({"command": "yes", "timeout": 0}))
            .await;
        let job = job_of(&text(&output.unwrap()));
        poll_until(&world, job, "y\ny\n").await;
        let output = world
            .call("bash_job", json!({"job": job, "action": "kill"}))
            .await;
        assert!(text(&output.unwrap()).ends_with("killed by signal 15 (SIGTERM)"));
        let says = world
            .call_text("bash", json!({"command": "yes & sleep 0.1"}))
            .await;
        assert!(says.ends_with("exit code: 0"));
        world
            .call_text("bash_job", json!({"job": job_of(&says), "action": "kill"}))
            .await;
        world.wait_until_idle().await;
        world.end().await;
    });
}

#[test]
fn a_cancelled_poll_does_not_end_the_job() {
    run_test(async {
        let world = ToolFixture::new().await;
        let job = start(&world, "while read line; do echo $line; done; exit 4", "").await;
        let cancel = CancellationToken::new();
        let look = world.call_with(
            "bash_job",
            json!({"job": job, "action": "poll", "wait": 600}),
            &cancel,
            &|_, _| {},
        );
        let (output, ()) = tokio::join!(look, async { cancel.cancel() });
        assert!(text(&output.unwrap()).starts_with("running"));
        // A job that does not read its input does not block the call forever.
        let deaf = start(&world, "sleep 1000", "").await;
        let much = "x".repeat(1 << 20);
        let why = world
            .refused(
                "bash_job",
                json!({"job": deaf, "action": "write", "text": much}),
            )
            .await;
        assert!(why.contains("does not read its standard input"), "{why}");
        let input = json!({"job": job, "action": "write", "end": true, "wait": 60});
        let output = world.call("bash_job", input).await.unwrap();
        assert_eq!(text(&output), "exit code: 4");
        let why = world
            .refused("bash_job", json!({"job": 77, "action": "kill"}))
            .await;
        assert_eq!(why, format!("there is no job 77; jobs: {deaf}"));
        world.end().await;
    });
}

#[test]
fn dropped_output_is_reported() {
    run_test(async {
        let world = ToolFixture::new().await;
        let script = "read go; head -c 20000000 /dev/zero | tr '\\0' x; echo; \
                      echo the end; : > done; read go";
        let job = start(&world, script, "").await;
        // Not through the tool, which would poll the output.
        let go = Bytes::from_static(b"go\n");
        world.sandbox.feed(job, go, false).await.unwrap();
        eventually("all is printed", async || world.path("done").exists()).await;
        let input = json!({"job": job, "action": "write", "end": true, "wait": 60});
        let says = text(&world.call("bash_job", input).await.unwrap());
        assert!(says.contains("the end\n"), "{says}");
        assert!(
            says.contains("bytes of older output were dropped: they were not polled in time]"),
            "{says}"
        );
        world.end().await;
    });
}

/// The caller is notified of commands that continue, and of nothing else.
#[test]
fn the_caller_is_notified_of_background_jobs() {
    run_test(async {
        let world = ToolFixture::new().await;
        let check = async |input: Value, expect: Option<&str>| {
            world.background.lock().unwrap().clear();
            world.call("bash", input.clone()).await.unwrap();
            let received = world.background.lock().unwrap().clone();
            let commands: Vec<&str> = received
                .iter()
                .map(|(_, command)| command.as_str())
                .collect();
            assert_eq!(commands, expect.into_iter().collect::<Vec<_>>(), "{input}");
        };
        check(json!({"command": "true"}), None).await;
        check(json!({"command": "false"}), None).await;
        check(json!({"command": "true", "background": true}), None).await;
        let long = "sleep 1000";
        check(json!({"command": long, "background": true}), Some(long)).await;
        check(json!({"command": long, "timeout": 0}), Some(long)).await;
        check(json!({"command": "sleep 1000 &"}), Some("sleep 1000 &")).await;
        let quiet = "sleep 1000 >/dev/null 2>&1 &";
        check(json!({"command": quiet}), None).await;
        world.end().await;
    });
}

#[test]
fn a_replacement_sandbox_starts_with_a_new_shell_state() {
    run_test(async {
        let name = |spec: &mut sandbox::SandboxSpec| spec.name = Some("session".to_owned());
        let mut world = ToolFixture::with(name).await;
        let says = world.call_text("bash", json!({"command": "cd /tmp"})).await;
        assert!(says.contains("[the folder is now /tmp]"), "{says}");
        start(&world, "echo up; sleep 1000", "up").await;
        start(&world, "echo up; sleep 1000", "up").await;
        let mut spec = sandbox::SandboxSpec::new(world.folder.path());
        name(&mut spec);
        let new = sandbox::Sandbox::start(spec).await.unwrap();
        std::mem::replace(&mut world.sandbox, new).end().await;
        // The first command runs in the initial folder, which is not reported.
        let says = world.call_text("bash", json!({"command": "pwd"})).await;
        assert_eq!(says.lines().next(), Some("/workspace"), "{says}");
        assert!(!says.contains("the folder is now"), "{says}");
        let poll = json!({"job": 9, "action": "poll", "wait": 0});
        let refused = world.call("bash_job", poll).await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no job 9, nor any other");
    });
}
