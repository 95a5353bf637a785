//! Limits: reaching each of them, and its enforcer on this machine.

use std::fs;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use sandbox::request::{CommandStatus, RefusalKind};
use sandbox::{
    CommandResult, ExecCommand, LimitEnforcement, LimitEnforcer, LimitKind, Sandbox, SandboxError,
};

use crate::under_test::{self, nature};
use crate::world::{
    TestSandbox, assert_refused, ended, eventually, is_root, rest, text, until, within,
};

fn enforcement(world: &TestSandbox, limit: LimitKind) -> LimitEnforcement {
    let all = world.limits();
    all.iter().find(|one| one.limit == limit).unwrap().clone()
}

fn killed(limit: LimitKind) -> CommandResult {
    CommandResult {
        status: CommandStatus::Signal(9),
        limit: Some(limit),
    }
}

#[test]
fn every_limit_names_its_enforcer() {
    within(async {
        let world = TestSandbox::new().await;
        let all = world.limits();
        let names: Vec<_> = all.iter().map(|one| one.limit.name()).collect();
        let expect = [
            "memory",
            "cpu",
            "pids",
            "disk",
            "open files",
            "wall time",
            "output",
        ];
        assert_eq!(names, expect);
        for one in all {
            assert_ne!(one.enforcer, LimitEnforcer::Nothing, "{one:?}");
            // As root, cgroups are available; the known exceptions are listed.
            let is_known = !is_root() || nature::partial_limits().contains(&one.limit);
            assert!(one.is_full() || is_known, "{one:?}");
        }
        world.end().await;
    });
}

/// The guest must survive the memory use of its commands.
#[test]
fn commands_are_the_first_to_be_killed_when_memory_runs_out() {
    within(async {
        let world = TestSandbox::new().await;
        let score = world.text("cat /proc/self/oom_score_adj").await;
        assert_eq!(score.trim(), nature::oom_score());
        world.end().await;
    });
}

#[test]
fn memory() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.memory = 96 << 20).await;
        let hungry = "perl -e '$x = \"x\" x (400 << 20); print length $x'";
        let captured = world.sh(hungry).await;
        let enforcer = enforcement(&world, LimitKind::Memory).enforcer;
        let is_counted = enforcer != LimitEnforcer::Rlimit;
        if !is_counted {
            // The allocation fails, and the program reports it.
            assert!(!is_root());
            assert!(!captured.verdict.success() && captured.verdict.limit.is_none());
            assert!(
                text(&captured.stderr).contains("Out of memory"),
                "{captured:?}"
            );
        } else {
            assert_eq!(
                captured.verdict.limit,
                Some(LimitKind::Memory),
                "{captured:?}"
            );
            // Files in memory count too: a tmpfs does not bypass the limit.
            let script = "head -c 40M /dev/zero > /tmp/a; head -c 40M /dev/zero > ~/b; \
                          perl -e '$x = \"x\" x (40 << 20); print length $x'";
            let captured = world.sh(script).await;
            assert_eq!(
                captured.verdict.limit,
                Some(LimitKind::Memory),
                "{captured:?}"
            );
        }
        assert!(!text(&captured.stdout).contains("419430400"));
        // A command that fails by itself is not blamed for a kill before it started.
        world.sh(&format!("{hungry}; true")).await;
        let later = world.sh("exit 3").await;
        assert_eq!(later.verdict.limit, None, "{later:?}");
        // Only the command was killed, and commands within the limit still run.
        world.text("rm -f /tmp/a ~/b; echo still here").await;
        assert_eq!(
            world
                .text("perl -e '$x = \"x\" x (20 << 20); print length $x'")
                .await,
            "20971520"
        );
        let ending = world.sandbox.end().await;
        // Kills by a kernel; the guest reports its own with each command.
        let by_kernel = is_counted && enforcer != LimitEnforcer::Guest;
        assert_eq!(ending.memory_kills > 0, by_kernel);
    });
}

#[test]
fn processes() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.pids = 20).await;
        // The shell itself is one process; it waits for its children at the end.
        let script = "i=0; while [ $i -lt 40 ]; do sleep 1000 & i=$((i+1)); done; wait";
        let captured = world.sh(script).await;
        assert!(!captured.verdict.success());
        assert!(text(&captured.stderr).contains("fork"), "{captured:?}");
        let stats = world.stats().await.unwrap();
        // The guest's own processes and threads are added.
        assert!((18..=24).contains(&stats.processes), "{stats:?}");
        // The limit is reached: no further command starts, but the owner can still inspect and
        // clean up.
        let mut more = Vec::new();
        let refused = loop {
            let mut running = world
                .exec(ExecCommand::new(["sleep", "1000"]))
                .await
                .unwrap();
            tokio::select! {
                outcome = running.next() => break outcome,
                () = eventually("it runs", async || {
                    world.stats().await.unwrap().processes > stats.processes + more.len() as u32
                }) => more.push(running),
            }
            assert!(more.len() < 8);
        };
        assert_refused(refused, RefusalKind::Limit, "cannot start `sleep`");
        let mode = sandbox::request::WriteMode::Replace;
        world.write_file("file", "x", mode).await.unwrap();
        assert_eq!(world.read_file("file", 0, None).await.unwrap().1, b"x");
        world.end().await;
    });
}

#[test]
fn open_files() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.open_files = 64).await;
        let script = "perl -e 'my @all; while (open my $f, \"<\", \"/dev/null\") { push @all, $f } \
                      print scalar(@all) > 50, \" $!\"'";
        assert_eq!(world.text(script).await, "1 Too many open files");
        assert_eq!(world.text("ulimit -n; ulimit -Hn").await, "64\n64\n");
        assert!(!world.sh("ulimit -n 65").await.verdict.success());
        world.end().await;
    });
}

#[test]
fn disk() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.disk = 16 << 20).await;
        fs::write(world.path("before"), vec![0; 8 << 20]).unwrap();
        // Usage below the limit is allowed.
        world.text("head -c 8M /dev/zero > fits").await;
        let many = "i=0; while :; do head -c 1M /dev/zero > f$i; i=$((i+1)); done";
        assert_eq!(world.sh(many).await.verdict, killed(LimitKind::Disk));
        // The written data is bounded, and cleaning up is possible afterwards.
        let size = |world: &TestSandbox| -> u64 {
            let entries = fs::read_dir(world.folder.path()).unwrap().flatten();
            entries
                .map(|entry| entry.metadata().map_or(0, |found| found.len()))
                .sum()
        };
        assert!(size(&world) < 1 << 30, "{}", size(&world));
        world.text("rm -f f*").await;
        world.end().await;

        // A single file reaches the limit as a signal; a removed file that is open still counts.
        let world = TestSandbox::with(|spec| spec.limits.disk = 16 << 20).await;
        let captured = world
            .run(ExecCommand::new(["dd", "if=/dev/zero", "of=one", "bs=1M"]))
            .await;
        assert_eq!(captured.unwrap().verdict.limit, Some(LimitKind::Disk));
        assert_eq!(fs::metadata(world.path("one")).unwrap().len(), 16 << 20);
        world.text("rm one").await;
        let hidden = "exec 3>a 4>b; rm a b; head -c 12M /dev/zero >&3; head -c 12M /dev/zero >&4; \
                      sleep 1000";
        assert_eq!(world.sh(hidden).await.verdict, killed(LimitKind::Disk));
        world.end().await;

        // Many empty files count too.
        let world = TestSandbox::with(|spec| spec.limits.disk = 4 << 20).await;
        let script = "mkdir many; cd many; seq 20000 | xargs touch; sleep 1000";
        assert_eq!(world.sh(script).await.verdict, killed(LimitKind::Disk));
        world.end().await;
    });
}

/// Total disk usage hardly grows, because another process frees as much as the sandbox writes.
#[test]
fn a_disk_that_others_free_hides_nothing() {
    const LIMIT: u64 = 16 << 20;
    const HEAP: u64 = LIMIT / 4 * 3;
    const HEAPS: u64 = 12;
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.disk = LIMIT).await;
        let beside = world.folder.path().parent().unwrap();
        let mut ballast = tempfile::NamedTempFile::new_in(beside).unwrap();
        let content = vec![1; HEAP as usize];
        for _ in 0..HEAPS {
            ballast.write_all(&content).unwrap();
        }
        // The sleep lets the guest scan before the space is freed.
        let script = format!(
            "for i in $(seq {HEAPS}); do head -c {HEAP} /dev/zero > part$i; sleep 0.2; \
             : > full$i; until [ -e freed$i ]; do sleep 0.02; done; done"
        );
        let free = async {
            for number in 1..=HEAPS {
                let full = world.path(format!("full{number}"));
                eventually("a heap is written", async || full.exists()).await;
                ballast.as_file().set_len((HEAPS - number) * HEAP).unwrap();
                fs::write(world.path(format!("freed{number}")), "").unwrap();
            }
            std::future::pending().await
        };
        let captured = tokio::select! {
            captured = world.sh(&script) => captured,
            () = free => unreachable!("it waits for ever"),
        };
        assert_eq!(captured.verdict, killed(LimitKind::Disk));
        world.end().await;
    });
}

#[test]
fn processors() {
    within(async {
        for (cpus, quota) in [(1.0, 100_000), (0.5, 50_000)] {
            let world = TestSandbox::with(|spec| spec.limits.cpus = cpus).await;
            let mut running = world.exec(ExecCommand::new(["cat"]).stdin()).await.unwrap();
            let cpu = enforcement(&world, LimitKind::Cpu);
            match cpu.enforcer {
                LimitEnforcer::Affinity => {
                    assert!(!is_root());
                    let allowed = world.text("taskset -cp $$").await;
                    let list = allowed.split_whitespace().last().unwrap();
                    assert!(list.parse::<u32>().is_ok(), "{allowed}");
                    // A program must not be able to raise its own limit.
                    let all = world.sh("taskset -p ffffffff $$").await;
                    assert!(!all.verdict.success());
                    assert_eq!(cpu.is_full(), cpus.fract() == 0.0, "{cpu:?}");
                }
                // Other enforcers set the quota in a cgroup of the host.
                _ => {
                    let groups = world.traces().groups;
                    let set: Vec<_> = groups.iter().filter_map(|group| quota_of(group)).collect();
                    let expect = format!("{quota} 100000");
                    assert!(set.contains(&expect), "{set:?} in {groups:?}");
                    assert!(cpu.is_full());
                }
            }
            drop(running.take_input());
            rest(&mut running).await;
            drop(running);
            world.end().await;
        }
    });
}

/// Microseconds of CPU time and the period.
fn quota_of(group: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let version_1 = || {
        let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
        Some(format!("{} {}", quota.trim(), period.trim()))
    };
    let version_2 = || Some(read("cpu.max")?.trim().to_owned());
    version_1().or_else(version_2)
}

#[test]
fn strict_limits_start_only_where_all_hold() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.cpus = 1.0).await;
        let weak = world.limits().iter().find(|one| !one.is_full());
        let mut spec = under_test::spec(world.folder.path());
        spec.strict_limits = true;
        spec.limits.cpus = 1.0;
        match (Sandbox::start(spec).await, weak) {
            (Ok(sandbox), None) => {
                sandbox.end().await;
            }
            (Err(SandboxError::Unenforced { limit, reason }), Some(weak)) => {
                assert_eq!((limit, Some(reason)), (weak.limit, weak.caveat.clone()));
            }
            other => panic!("{other:?}"),
        }
        world.end().await;
    });
}

#[test]
fn a_limit_that_ends_one_command_is_not_blamed_for_another() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.disk = 8 << 20).await;
        let waits = ExecCommand::script("echo up; read line; exit 3").stdin();
        let script = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done";
        let mut other = world.exec(ExecCommand::script(script)).await.unwrap();
        until(&mut other, "up").await;
        other.remote().signal(libc::SIGTERM).await.unwrap();
        assert_eq!(
            rest(&mut other).await.verdict,
            ended(CommandStatus::Code(7))
        );
        let fill = "for i in 1 2 3 4 5 6; do head -c 4M /dev/zero > $i; done; sleep 1000";
        assert_eq!(world.sh(fill).await.verdict, killed(LimitKind::Disk));
        world.text("rm -f 1 2 3 4 5 6").await;
        // A command that dies by itself after the kill is reported as such.
        assert_eq!(
            world.sh("kill -KILL $$").await.verdict,
            ended(CommandStatus::Signal(9))
        );
        let mut running = world.exec(waits).await.unwrap();
        until(&mut running, "up").await;
        let mut input = running.take_input().unwrap();
        input.write(Bytes::from_static(b"go\n")).await.unwrap();
        assert_eq!(
            rest(&mut running).await.verdict,
            ended(CommandStatus::Code(3))
        );
        eventually("nothing runs any more", async || {
            world.stats().await.unwrap().processes == 1
        })
        .await;
        drop(running);
        drop(other);
        world.end().await;
    });
}
