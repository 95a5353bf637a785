//! Lines 42 to 50. Limits are small, so that they are reached soon; each is also checked from
//! outside, where the host can see it.

use std::fs;
use std::time::Duration;

use sandbox::request::{ByteString, ListRequest};
use sandbox::{LimitEnforcement, LimitEnforcer, LimitKind, SandboxSpec};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::inside;
use crate::outside::{group, number, processes_in, processors, threads};
use crate::scene::{AttackFixture, HostSurroundings, finish, within};
use crate::suite::{check_nothing_left, check_still_works};
use crate::under_test::nature;
use crate::under_test::traces::Traces;

const PIDS: u32 = 32;
/// Processes of the guest itself, in addition to those of commands.
const GUEST_PIDS: usize = 4;
const MEMORY: u64 = 128 << 20;
/// The kernel lets a process that is being killed, and allocations that must not fail, exceed the
/// limit by a few pages.
const MEMORY_SLACK: u64 = 1 << 20;
pub(crate) const DISK: u64 = 32 << 20;
const OPEN_FILES: u64 = 64;

const MEMORY_HELD: ExpectedEnd = ExpectedEnd::HeldOrLimit(LimitKind::Memory);

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(42, "fork-bomb")
        .tune(small)
        .expect(ExpectedEnd::Driven)
        .drive(fork_bomb),
    Attack::new(42, "fork-bomb-sessions")
        .tune(small)
        .expect(ExpectedEnd::DrivenToItsEnd)
        .drive(lost_bomb),
    Attack::new(43, "memory")
        .tune(small)
        .drive(memory)
        .expect(MEMORY_HELD),
    Attack::new(43, "memory-spared")
        .tune(small)
        .drive(memory)
        .expect(MEMORY_HELD),
    Attack::new(43, "memory-many")
        .tune(many_small_processes)
        .drive(memory_of_many)
        .expect(MEMORY_HELD),
    Attack::new(43, "memory-shared")
        .tune(small)
        .drive(memory_of_many)
        .expect(MEMORY_HELD),
    Attack::new(93, "memory-file")
        .tune(small)
        .drive(memory_of_many)
        .expect(MEMORY_HELD),
    Attack::new(43, "memory-sockets")
        .tune(small)
        .drive(memory_of_sockets)
        .expect(MEMORY_HELD),
    Attack::new(44, "tmpfs")
        .tune(small)
        .drive(memory_file_systems)
        .expect(MEMORY_HELD),
    Attack::new(50, "sysv-shared-memory")
        .tune(small)
        .drive(unowned_memory)
        .expect(MEMORY_HELD),
    Attack::new(50, "sysv-semaphores")
        .tune(small)
        .drive(unowned_memory)
        .expect(MEMORY_HELD),
    Attack::new(50, "sysv-messages")
        .tune(small)
        .drive(unowned_memory)
        .expect(MEMORY_HELD),
    Attack::new(47, "open-files")
        .tune(few_files)
        .drive(open_files),
    Attack::new(47, "terminals"),
    Attack::new(90, "watches"),
    Attack::new(48, "threads")
        .tune(small)
        .expect(ExpectedEnd::Driven)
        .drive(many_threads),
    Attack::new(49, "spin")
        .tune(half_a_processor)
        .drive(spin)
        .expect(ExpectedEnd::Limit(LimitKind::WallTime)),
    Attack::new(49, "spin-daemon")
        .tune(two_seconds)
        .drive(outlive)
        .expect(ExpectedEnd::DrivenToItsEnd),
    Attack::new(49, "affinity").tune(half_a_processor),
];

pub(crate) fn small(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.pids = PIDS;
    spec.limits.memory = MEMORY;
    spec.limits.disk = DISK;
}

/// A limit that allows many small processes.
fn many_small_processes(spec: &mut SandboxSpec, props: &HostSurroundings) {
    small(spec, props);
    spec.limits.pids = 256;
}

fn few_files(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.open_files = OPEN_FILES;
}

fn half_a_processor(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.cpus = 0.5;
}

fn two_seconds(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.wall = Some(nature::short_wall());
}

/// What enforces a limit.
fn enforcement(scene: &AttackFixture, limit: LimitKind) -> CheckResult<LimitEnforcement> {
    let all = scene.sandbox().limits();
    let found = all.iter().find(|enforcement| enforcement.limit == limit);
    found
        .cloned()
        .ok_or_else(|| format!("nothing is said about {}", limit.name()))
}

/// Whether a cgroup of the host contains only the processes inside, so that its numbers match the
/// limit. A cgroup around another kernel also includes that kernel's share.
fn has_group(scene: &AttackFixture, limit: LimitKind) -> CheckResult<bool> {
    let enforcer = enforcement(scene, limit)?.enforcer;
    let is_group = matches!(enforcer, LimitEnforcer::CgroupV1 | LimitEnforcer::CgroupV2);
    Ok(is_group && nature::host_sees_processes())
}

/// A number from the sandbox's cgroup, which the owner can read on the host.
fn group_number(scene: &AttackFixture, controller: &str, files: &[&str]) -> CheckResult<u64> {
    // The engine's outer process may share a cgroup with others of its kind.
    let processes = Traces::of(&scene.props.workspace).behind_the_first();
    let folder = processes.iter().find_map(|pid| group(*pid, controller));
    let folder = folder.ok_or_else(|| format!("no {controller} group"))?;
    let found = files.iter().find_map(|file| number(&folder.join(file)));
    found.ok_or_else(|| format!("no number in {}", folder.display()))
}

/// Checks that processes and threads of the sandbox are within the limit: from outside or, if
/// another kernel hides them, through its guest.
async fn count_processes(scene: &AttackFixture) -> CheckResult {
    let (processes, count) = if nature::host_sees_processes() {
        let pids = processes_in(&scene.pid_namespace);
        (pids.len(), threads(&pids))
    } else {
        inside::processes(scene.sandbox()).await?
    };
    if processes < 2 && count < PIDS as usize / 2 {
        return Err(format!("only {count} processes: the attack did not begin"));
    }
    if count > PIDS as usize + GUEST_PIDS {
        return Err(format!("{count} processes and threads, {PIDS} are allowed"));
    }
    if has_group(scene, LimitKind::Pids)? {
        let most = group_number(scene, "pids", &["pids.max"])?;
        let now = group_number(scene, "pids", &["pids.current"])?;
        if most != PIDS as u64 + GUEST_PIDS as u64 || now > most {
            return Err(format!("the group has {now} of {most} processes"));
        }
    }
    Ok(())
}

/// A full sandbox still answers file requests.
async fn files_answer(scene: &AttackFixture) -> CheckResult {
    within("stat while full", scene.sandbox().stat("hostile")).await?;
    within(
        "read while full",
        scene.sandbox().read_file("hostile", 0, Some(16)),
    )
    .await?;
    Ok(())
}

/// A listing needs a thread of the guest. It is refused if there is no process left for one, and the guest
/// continues.
async fn listing_answers(scene: &AttackFixture) -> CheckResult {
    let request = ListRequest {
        path: ByteString::from("."),
        depth: 1,
        ignore: false,
        hidden: false,
        globs: Vec::new(),
        limit: 10,
    };
    let listing = async { scene.sandbox().list(request).await?.collect().await };
    match within("list", listing).await {
        Err(refused) if !refused.contains("cannot read folders") => Err(refused),
        _ => Ok(()),
    }
}

fn fork_bomb(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let (running, outcome) = scene.start("fork-bomb", &[], "FULL").await?;
        count_processes(scene).await?;
        listing_answers(scene).await?;
        files_answer(scene).await?;
        count_processes(scene).await?;
        within("kill", running.remote().signal(libc::SIGKILL)).await?;
        finish(running, outcome).await
    })
}

/// Each process has its own session: no single signal reaches them, only the end of the sandbox.
fn lost_bomb(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let (running, outcome) = scene.start("fork-bomb-sessions", &[], "FULL").await?;
        count_processes(scene).await?;
        files_answer(scene).await?;
        within("kill", running.remote().signal(libc::SIGKILL)).await?;
        let outcome = finish(running, outcome).await?;
        files_answer(scene).await?;
        Ok(outcome)
    })
}

fn many_threads(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let more = [("pids", PIDS.to_string())];
        let (running, outcome) = scene.start("threads", &more, "FULL").await?;
        count_processes(scene).await?;
        files_answer(scene).await?;
        within("kill", running.remote().signal(libc::SIGKILL)).await?;
        finish(running, outcome).await
    })
}

/// Four times the limit.
fn memory(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene
            .run(scene.attack.name, &[("bytes", (4 * MEMORY).to_string())])
            .await;
        memory_kept(scene)?;
        Ok(outcome)
    })
}

/// Memory that no process holds stays when the command has ended; the guest must cope with that.
fn unowned_memory(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let more = [("bytes", (4 * MEMORY).to_string())];
        let outcome = scene.run(scene.attack.name, &more).await;
        for _ in 0..20 {
            check_still_works(scene.sandbox())
                .await
                .map_err(|problem| format!("with the memory still taken: {problem}"))?;
        }
        memory_kept(scene)?;
        Ok(outcome)
    })
}

/// Without a cgroup, the description says that only the private memory of each process is limited.
/// Then attacks with many small processes and with memory that no process owns are no breach.
fn memory_of_many(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene
            .run(scene.attack.name, &[("bytes", (4 * MEMORY).to_string())])
            .await;
        memory_kept(scene)?;
        let memory = enforcement(scene, LimitKind::Memory)?;
        if memory.enforcer == LimitEnforcer::Rlimit && memory.is_full() {
            return Err("a limit for each process is said to be one for all".into());
        }
        // The guest counts all of them, even if late.
        if !memory.is_full() && memory.enforcer != LimitEnforcer::Guest {
            let stdout = b"HELD each process by itself\n".to_vec();
            return Ok(AttackOutcome { stdout, ..outcome });
        }
        Ok(outcome)
    })
}

/// Data in flight belongs to the kernel. A user-space kernel does not count it as memory of
/// processes, and the description says so.
fn memory_of_sockets(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = memory_of_many(scene).await?;
        let memory = enforcement(scene, LimitKind::Memory)?;
        if nature::counts_sockets() || memory.is_full() {
            Ok(outcome)
        } else {
            let stdout = b"HELD by the group around that kernel\n".to_vec();
            Ok(AttackOutcome { stdout, ..outcome })
        }
    })
}

fn memory_file_systems(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run("tmpfs", &[("bytes", MEMORY.to_string())]).await;
        memory_kept(scene)?;
        // Memory that no process owns stays until it is removed; the host can do that from outside.
        for number in 0..64 {
            for folder in ["/tmp", "/dev/shm", "/home/hotcell", "/run"] {
                let path = format!("{folder}/hoard-{number}");
                let _ = within("remove", scene.sandbox().remove(path, false)).await;
            }
        }
        Ok(outcome)
    })
}

fn memory_kept(scene: &AttackFixture) -> CheckResult {
    if !has_group(scene, LimitKind::Memory)? {
        return Ok(());
    }
    let files = ["memory.max_usage_in_bytes", "memory.peak"];
    match group_number(scene, "memory", &files)? {
        peak if peak > MEMORY + MEMORY_SLACK => {
            Err(format!("{peak} bytes of memory, {MEMORY} are allowed"))
        }
        _ => Ok(()),
    }
}

fn open_files(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        Ok(scene
            .run("open-files", &[("files", OPEN_FILES.to_string())])
            .await)
    })
}

/// The share of CPU time that the host's cgroup around the sandbox allows.
fn share_of_group(scene: &AttackFixture) -> Option<f64> {
    let processes = Traces::of(&scene.props.workspace).behind_the_first();
    let folder = processes.iter().find_map(|pid| group(*pid, "cpu"))?;
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let text = match read("cpu.max") {
        Some(both) => both,
        None => format!(
            "{} {}",
            read("cpu.cfs_quota_us")?,
            read("cpu.cfs_period_us")?
        ),
    };
    let mut numbers = text.split_whitespace();
    let quota: f64 = numbers.next()?.parse().ok()?;
    let period: f64 = numbers.next()?.parse().ok()?;
    Some(quota / period)
}

fn spin(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let command = scene
            .hostile("spin", &[])
            .timeout(Some(Duration::from_secs(1)));
        let running = within("exec", scene.sandbox().exec(command)).await?;
        // A cgroup around another kernel includes that kernel's time too.
        let enforcer = enforcement(scene, LimitKind::Cpu)?.enforcer;
        let group = match enforcer {
            LimitEnforcer::CgroupV1 | LimitEnforcer::Vm => share_of_group(scene),
            // If the number is not in the cgroup of the process itself.
            LimitEnforcer::CgroupV2 => share_of_group(scene).or(Some(0.5)),
            _ => None,
        };
        let share = group.unwrap_or_else(|| {
            // Whole processors only, and the description says so.
            let processes = Traces::of(&scene.props.workspace).behind_the_first();
            let most = processes.iter().map(|pid| processors(*pid)).max();
            most.unwrap_or(0) as f64 / 2.0
        });
        if share > 0.5 {
            return Err(format!("{share} of the processors"));
        }
        finish(running, AttackOutcome::nothing()).await
    })
}

/// The sandbox's own time limit ends everything in it, without any request from the host.
fn outlive(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run("spin-daemon", &[]).await;
        check_nothing_left(&scene.props).await?;
        Ok(outcome)
    })
}
