//! Shell sessions: the state that is kept between commands, and commands in the background.

use std::time::Duration;

use bytes::Bytes;
use sandbox::request::{CommandStatus, Exit, RefusalKind, ShellProgress};

use crate::under_test::nature::resident;
use crate::world::{TestSandbox, assert_refused, eventually, within};

/// Longer than any command that ends by itself.
const LONG_WAIT: Duration = Duration::from_secs(60);
/// Shorter than any command that does not end by itself.
const SHORT_WAIT: Duration = Duration::from_millis(100);

/// The output of a command, errors marked, and its progress.
#[derive(Debug)]
struct ShellOutput {
    printed: String,
    progress: ShellProgress,
}

impl ShellOutput {
    fn code(&self) -> Option<CommandStatus> {
        self.progress.exit.as_ref().map(|exit| exit.status)
    }
}

async fn run_in_session(
    world: &TestSandbox,
    session: &str,
    script: &str,
    wait: Duration,
) -> ShellOutput {
    let mut printed = String::new();
    let print = printer(&mut printed);
    let progress = world.shell(session, script, wait, print).await.unwrap();
    ShellOutput { printed, progress }
}

async fn poll_output(world: &TestSandbox, job: u32, wait: Duration) -> ShellOutput {
    let mut printed = String::new();
    let progress = world.poll(job, wait, printer(&mut printed)).await.unwrap();
    ShellOutput { printed, progress }
}

fn printer(printed: &mut String) -> impl FnMut(Bytes, bool) {
    move |bytes, is_error| {
        if is_error {
            printed.push('!');
        }
        printed.push_str(&String::from_utf8_lossy(&bytes));
    }
}

/// Polls until the output so far contains the expected text.
async fn poll_until(world: &TestSandbox, job: u32, expect: &str) -> ShellOutput {
    let mut all = String::new();
    loop {
        let seen = poll_output(world, job, SHORT_WAIT).await;
        all.push_str(&seen.printed);
        if all.contains(expect) {
            return ShellOutput {
                printed: all,
                ..seen
            };
        }
        assert_eq!(seen.progress.exit, None, "{all}");
    }
}

/// Runs commands one after the other in a new session; the last one must print the expected text.
async fn check(world: &TestSandbox, commands: &[&str], expect: &str) {
    let (last, before) = commands.split_last().unwrap();
    let session = commands.join("; ");
    for script in before {
        let seen = run_in_session(world, &session, script, LONG_WAIT).await;
        assert_eq!(seen.printed, "", "{script}");
        assert!(seen.progress.exit.is_some(), "{script}");
    }
    let seen = run_in_session(world, &session, last, LONG_WAIT).await;
    assert_eq!(seen.printed, expect, "{commands:?}");
}

#[test]
fn what_a_command_sets_lives_on() {
    within(async {
        let world = TestSandbox::new().await;
        let check = async |commands: &[&str], expect: &str| check(&world, commands, expect).await;
        check(&["pwd"], "/workspace\n").await;
        check(&["mkdir -p c/d; cd c/d", "pwd"], "/workspace/c/d\n").await;
        check(&["cd /tmp; cd /usr", "cd - >/dev/null; pwd"], "/tmp\n").await;
        check(&["x=plain", "echo $x; sh -c 'echo [$x]'"], "plain\n[]\n").await;
        check(&["export x=given", "sh -c 'echo $x'"], "given\n").await;
        check(&["export x=1", "unset x", "echo [${x-unset}]"], "[unset]\n").await;
        check(
            &["x=$'two\\nlines \"$' y=\\'", "echo \"$x\" \"$y\""],
            "two\nlines \"$ '\n",
        )
        .await;
        check(&["a=(1 'b c' 3)", "echo ${#a[@]} \"${a[1]}\""], "3 b c\n").await;
        check(
            &["declare -A m=([k]=v [x\\ y]=z)", "echo ${m[k]} ${m[x y]}"],
            "v z\n",
        )
        .await;
        check(&["declare -i n=4", "n=n+3; echo $n"], "7\n").await;
        check(&["readonly r=1", "echo $r; echo again"], "1\nagain\n").await;
        check(&["f() { echo f $1; }", "f x"], "f x\n").await;
        check(
            &["f() { echo child $1; }; export -f f", "bash -c 'f y'"],
            "child y\n",
        )
        .await;
        check(
            &["shopt -s expand_aliases; alias hi='echo hello'", "hi"],
            "hello\n",
        )
        .await;
        check(&["shopt -s nullglob", "echo none*there"], "\n").await;
        check(&["umask 027", "umask"], "0027\n").await;
        check(&["set -o pipefail", "false | true; echo $?"], "1\n").await;
        check(&["set -f", "echo *"], "*\n").await;
        check(&["set -u", "x=1", "echo $x ${nothing-unset}"], "1 unset\n").await;
        check(&["set -e", "echo on; false; echo never"], "on\n").await;
        check(&["set -e", "false", "set +e; false; echo on"], "on\n").await;
        check(&["set -eu -o pipefail; x=1", "echo $x"], "1\n").await;
        // A trap of the script works, and does not outlive it.
        check(
            &["trap 'exit 0' EXIT; cd /tmp; x=1", "echo $x $PWD"],
            "1 /tmp\n",
        )
        .await;
        check(&["trap 'echo bye' EXIT; exit 4"], "bye\n").await;
        check(&["trap 'echo bye' EXIT; echo go"], "go\nbye\n").await;
        // A removed working folder does not break the session.
        check(
            &["mkdir gone; cd gone; rmdir ../gone", "pwd"],
            "/workspace\n",
        )
        .await;
        world.end().await;
    });
}

#[test]
fn the_exit_code_is_always_the_commands_own() {
    within(async {
        let world = TestSandbox::new().await;
        let check = async |script: &str, expect: CommandStatus| {
            let seen = run_in_session(&world, "codes", script, LONG_WAIT).await;
            assert_eq!(seen.code(), Some(expect), "{script}");
        };
        let code = CommandStatus::Code;
        check("true", code(0)).await;
        check("false", code(1)).await;
        check("x=1; exit 3", code(3)).await;
        check("[ $x = 1 ]", code(0)).await;
        check("(exit 7)", code(7)).await;
        check("sh -c 'exit 200'", code(200)).await;
        check("no-such-command 2>/dev/null", code(127)).await;
        check("if then", code(2)).await;
        check("f() { return 9; }; f", code(9)).await;
        check("", code(0)).await;
        check("# only a comment", code(0)).await;
        check("sh -c 'kill -TERM $$'", code(143)).await;
        check("kill -KILL $$", CommandStatus::Signal(9)).await;
        check("set -e; false; true", code(1)).await;
        check("true", code(0)).await;
        world.end().await;
    });
}

#[test]
fn exit_keeps_what_was_set_and_a_kill_what_was_before() {
    within(async {
        let world = TestSandbox::new().await;
        run_in_session(&world, "s", "x=old; cd /tmp", LONG_WAIT).await;
        let seen = run_in_session(&world, "s", "x=new; cd /usr; exit 3", LONG_WAIT).await;
        assert_eq!(seen.code(), Some(CommandStatus::Code(3)));
        assert_eq!(seen.progress.cwd.unwrap().to_string(), "/usr");
        assert_eq!(
            run_in_session(&world, "s", "echo $x $PWD", LONG_WAIT)
                .await
                .printed,
            "new /usr\n"
        );

        let seen =
            run_in_session(&world, "s", "x=lost; cd /; echo up; sleep 1000", SHORT_WAIT).await;
        world.kill(seen.progress.job, libc::SIGKILL).await.unwrap();
        let seen = poll_output(&world, seen.progress.job, LONG_WAIT).await;
        assert_eq!(seen.code(), Some(CommandStatus::Signal(9)));
        assert_eq!(
            run_in_session(&world, "s", "echo $x $PWD", LONG_WAIT)
                .await
                .printed,
            "new /usr\n"
        );
        world.end().await;
    });
}

#[test]
fn sessions_know_nothing_of_each_other() {
    within(async {
        let world = TestSandbox::new().await;
        run_in_session(&world, "one", "x=1; cd /tmp; f() { echo f; }", LONG_WAIT).await;
        run_in_session(&world, "two", "x=2; cd /usr", LONG_WAIT).await;
        assert_eq!(
            run_in_session(&world, "one", "echo $x $PWD", LONG_WAIT)
                .await
                .printed,
            "1 /tmp\n"
        );
        assert_eq!(
            run_in_session(&world, "two", "echo $x $PWD", LONG_WAIT)
                .await
                .printed,
            "2 /usr\n"
        );
        assert_eq!(
            run_in_session(&world, "two", "f 2>/dev/null", LONG_WAIT)
                .await
                .code(),
            Some(CommandStatus::Code(127))
        );
        // A waiting command blocks neither the other session nor its own.
        let waiting = run_in_session(&world, "one", "read line; echo $line", SHORT_WAIT).await;
        assert_eq!(waiting.progress.exit, None);
        assert_eq!(
            run_in_session(&world, "two", "echo free", LONG_WAIT)
                .await
                .printed,
            "free\n"
        );
        assert_eq!(
            run_in_session(&world, "one", "echo free too", LONG_WAIT)
                .await
                .printed,
            "free too\n"
        );
        world.end().await;
    });
}

#[test]
fn errors_are_marked_and_input_is_not_the_script() {
    within(async {
        let world = TestSandbox::new().await;
        let seen = run_in_session(&world, "s", "echo oops >&2", LONG_WAIT).await;
        assert_eq!(seen.printed, "!oops\n");
        // A program that reads its input does not consume the script.
        let seen = run_in_session(&world, "s", "read a </dev/null; echo rest", LONG_WAIT).await;
        assert_eq!(seen.printed, "rest\n");
        let big = format!("x={}; echo ${{#x}}", "y".repeat(200_000));
        assert_eq!(
            run_in_session(&world, "s", &big, LONG_WAIT).await.printed,
            "200000\n"
        );
        assert_eq!(
            run_in_session(&world, "s", "echo ${#x}", LONG_WAIT)
                .await
                .printed,
            "200000\n"
        );
        world.end().await;
    });
}

#[test]
fn a_command_that_outlives_its_wait_goes_on() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "echo started; while read line; do echo got $line; done; echo over; exit 5";
        let seen = run_in_session(&world, "s", script, SHORT_WAIT).await;
        assert_eq!(seen.progress.exit, None);
        let job = seen.progress.job;
        if !seen.printed.contains("started\n") {
            poll_until(&world, job, "started\n").await;
        }
        world
            .feed(job, Bytes::from_static(b"one\n"), false)
            .await
            .unwrap();
        poll_until(&world, job, "got one\n").await;
        world
            .feed(job, Bytes::from_static(b"two\nthree\n"), true)
            .await
            .unwrap();
        let seen = poll_output(&world, job, LONG_WAIT).await;
        assert_eq!(seen.printed, "got two\ngot three\nover\n");
        assert_eq!(seen.code(), Some(CommandStatus::Code(5)));
        assert!(!seen.progress.output_open);
        // Its end was reported, so it is forgotten.
        let gone = world.poll(job, SHORT_WAIT, |_, _| {}).await;
        assert_refused(
            gone,
            RefusalKind::NotFound,
            "there is no background command",
        );
        for gone in [
            world.kill(job, libc::SIGTERM).await,
            world.feed(job, Bytes::new(), true).await,
        ] {
            assert_refused(
                gone,
                RefusalKind::NotFound,
                "there is no background command",
            );
        }
        world.end().await;
    });
}

#[test]
fn a_background_command_can_be_killed_with_all_it_started() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "trap 'echo bye; exit 8' TERM; echo up; sleep 1000 & wait";
        let seen = run_in_session(&world, "s", script, SHORT_WAIT).await;
        let job = seen.progress.job;
        if !seen.printed.contains("up\n") {
            poll_until(&world, job, "up\n").await;
        }
        world.kill(job, libc::SIGTERM).await.unwrap();
        let seen = poll_output(&world, job, LONG_WAIT).await;
        assert_eq!(seen.printed, "bye\n");
        assert_eq!(seen.code(), Some(CommandStatus::Code(8)));
        eventually("all are gone", async || {
            world.stats().await.unwrap().processes == 1
        })
        .await;
        // Input after the last one is refused.
        let seen = run_in_session(&world, "s", "sleep 1000", SHORT_WAIT).await;
        let job = seen.progress.job;
        world
            .feed(job, Bytes::from_static(b"x"), true)
            .await
            .unwrap();
        let closed = world.feed(job, Bytes::from_static(b"x"), false).await;
        assert_refused(closed, RefusalKind::Invalid, "is closed");
        world.kill(job, libc::SIGKILL).await.unwrap();
        world.end().await;
    });
}

#[test]
fn a_server_in_the_background_keeps_its_output_open() {
    within(async {
        let world = TestSandbox::new().await;
        let script = "mkfifo fifo; (echo serving; read line < fifo; echo $line) & echo shell done";
        let seen = run_in_session(&world, "s", script, LONG_WAIT).await;
        // The shell has ended, but a process that it started has not.
        assert_eq!(seen.code(), Some(CommandStatus::Code(0)));
        assert!(seen.printed.contains("shell done\n"), "{seen:?}");
        assert!(seen.progress.output_open);
        let job = seen.progress.job;
        run_in_session(&world, "s", "echo last words > fifo", LONG_WAIT).await;
        let mut all = seen.printed;
        loop {
            let seen = poll_output(&world, job, LONG_WAIT).await;
            all.push_str(&seen.printed);
            assert_eq!(seen.code(), Some(CommandStatus::Code(0)));
            if !seen.progress.output_open {
                break;
            }
        }
        assert!(
            all.contains("serving\n") && all.ends_with("last words\n"),
            "{all}"
        );
        world.end().await;
    });
}

#[test]
fn what_nobody_asks_for_is_dropped_and_counted() {
    within(async {
        let world = TestSandbox::new().await;
        // 40 MB, of which about the last megabyte is kept; the end is always complete.
        let script = "read go; i=0; while [ $i -lt 40 ]; do head -c 1000000 /dev/zero; \
                      i=$((i+1)); done; echo; echo the end; touch done; read go; exit 2";
        let seen = run_in_session(&world, "s", script, SHORT_WAIT).await;
        let job = seen.progress.job;
        world
            .feed(job, Bytes::from_static(b"go\n"), false)
            .await
            .unwrap();
        eventually("all is printed", async || world.path("done").exists()).await;
        let stats = world.stats().await.unwrap();
        assert!(stats.memory < resident(32 << 20), "{stats:?}");
        world
            .feed(job, Bytes::from_static(b"go\n"), true)
            .await
            .unwrap();
        let mut dropped = 0;
        let mut kept = 0;
        let mut tail = Vec::new();
        let progress = loop {
            let print = |bytes: Bytes, _| {
                kept += bytes.len() as u64;
                tail.extend_from_slice(&bytes);
            };
            let progress = world.poll(job, SHORT_WAIT, print).await.unwrap();
            dropped += progress.dropped;
            if progress.exit.is_some() {
                break progress;
            }
        };
        assert_eq!(
            progress.exit.map(|exit| exit.status),
            Some(CommandStatus::Code(2))
        );
        assert_eq!(kept + dropped, 40_000_000 + "\nthe end\n".len() as u64);
        assert!(kept <= 2 << 20, "{kept}");
        assert!(tail.ends_with(b"\nthe end\n"));
        world.end().await;
    });
}

#[test]
fn while_somebody_waits_nothing_is_dropped() {
    within(async {
        let world = TestSandbox::new().await;
        let mut length = 0;
        let print = |bytes: Bytes, _| length += bytes.len();
        let script = "head -c 30000000 /dev/zero";
        let progress = world.shell("s", script, LONG_WAIT, print).await.unwrap();
        assert_eq!((length, progress.dropped), (30_000_000, 0));
        world.end().await;
    });
}

#[test]
fn one_that_never_stops_printing_holds_nobody() {
    within(async {
        let world = TestSandbox::new().await;
        let seen = run_in_session(&world, "s", "yes", SHORT_WAIT).await;
        assert_eq!(seen.progress.exit, None);
        let job = seen.progress.job;
        let seen = poll_output(&world, job, Duration::ZERO).await;
        assert_eq!(seen.progress.exit, None);
        world.kill(job, libc::SIGKILL).await.unwrap();
        // The same for a process that a command leaves behind.
        let seen = run_in_session(&world, "s", "yes & echo started >&2", LONG_WAIT).await;
        assert_eq!(seen.code(), Some(CommandStatus::Code(0)));
        assert!(seen.printed.contains("!started\n"));
        let seen = poll_output(&world, seen.progress.job, LONG_WAIT).await;
        assert!(seen.progress.output_open);
        world.end().await;
    });
}

#[test]
fn background_commands_are_bounded() {
    within(async {
        let world = TestSandbox::new().await;
        let nothing = Duration::ZERO;
        let mut jobs = Vec::new();
        for _ in 0..64 {
            let seen = run_in_session(&world, "s", "read line", nothing).await;
            assert_eq!(seen.progress.exit, None);
            jobs.push(seen.progress.job);
        }
        let one_more = world.shell("s", "true", LONG_WAIT, |_, _| {}).await;
        assert_refused(one_more, RefusalKind::Limit, "64 commands are running");
        // An ended job frees its slot, polled or not.
        world.kill(jobs[0], libc::SIGKILL).await.unwrap();
        eventually("there is room again", async || {
            world.shell("s", "true", LONG_WAIT, |_, _| {}).await.is_ok()
        })
        .await;
        world.end().await;
    });
}

#[test]
fn a_command_in_the_background_that_a_limit_killed_says_so() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.disk = 8 << 20).await;
        let script = "for i in 1 2 3 4 5 6; do head -c 4000000 /dev/zero > $i; done; sleep 1000";
        let seen = run_in_session(&world, "s", script, LONG_WAIT).await;
        let expect = Exit {
            status: CommandStatus::Signal(9),
            limit: Some(sandbox::request::GuestLimit::Disk),
        };
        assert_eq!(seen.progress.exit, Some(expect));
        world.end().await;
    });
}
