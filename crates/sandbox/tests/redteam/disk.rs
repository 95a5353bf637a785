//! Lines 45, 46, 86 and 88: disk space and inodes, in plain files and hidden. The limit is small,
//! so that it is reached soon; the workspace is measured from outside.

use sandbox::request::CommandStatus;
use sandbox::{LimitKind, SandboxSpec};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::exhaustion::{DISK, small};
use crate::outside::size_of;
use crate::scene::{AttackFixture, HostSurroundings, within};
use crate::suite;
use crate::under_test::nature;

const INODES: u64 = DISK / 4096;

/// How far past its limit the disk may get before the next scan.
const DISK_SLACK: u64 = 96 << 20;

/// If the kernel enforces the limit, the program gets an error; if the guest does, it is killed.
const DISK_HELD: ExpectedEnd = ExpectedEnd::HeldOrLimit(LimitKind::Disk);

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(45, "disk")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD)
        .outside(disk_kept),
    Attack::new(45, "disk-unlinked")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD)
        .outside(disk_kept),
    Attack::new(45, "disk-locked-folder")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD)
        .outside(disk_kept),
    Attack::new(45, "disk-deep")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(45, "disk-undumpable")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(45, "disk-in-flight")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(45, "disk-mapped")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(45, "disk-allocate")
        .tune(small)
        .drive(allocate)
        .expect(ExpectedEnd::Driven)
        .outside(disk_kept),
    Attack::new(45, "disk-again")
        .tune(small)
        .drive(rounds)
        .expect(ExpectedEnd::Driven),
    Attack::new(45, "disk-step")
        .tune(small)
        .drive(steps)
        .expect(ExpectedEnd::Driven),
    Attack::new(46, "inodes")
        .tune(small)
        .drive(inodes)
        .expect(DISK_HELD)
        .outside(names_kept),
    Attack::new(45, "disk-project"),
    Attack::new(86, "disk-unreaped")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(86, "disk-relay")
        .tune(small)
        .drive(relay)
        .expect(ExpectedEnd::Driven),
    Attack::new(86, "disk-ended-leader")
        .tune(small)
        .drive(disk)
        .expect(DISK_HELD),
    Attack::new(88, "inodes-unlinked")
        .tune(many_inodes)
        .drive(inodes)
        .expect(DISK_HELD),
    Attack::new(88, "inodes-sockets")
        .only_where(nature::named_sockets_are_inodes)
        .tune(many_inodes)
        .drive(inodes)
        .expect(DISK_HELD),
];

/// Memory for the kernel structures of all files of the attacks.
fn many_inodes(spec: &mut SandboxSpec, props: &HostSurroundings) {
    small(spec, props);
    spec.limits.memory = 1 << 30;
}

fn disk(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let more = [("bytes", (8 * DISK).to_string())];
        Ok(scene.run(scene.attack.name, &more).await)
    })
}

/// Processes of the relay end while the others are stopped to be counted.
fn relay(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = disk(scene).await?;
        let is_hung_up = matches!(&outcome.verdict, Some(verdict) if verdict.status == CommandStatus::Signal(libc::SIGHUP));
        if !is_hung_up || nature::spares_stopped_groups() {
            suite::judge(DISK_HELD, &outcome)?;
        }
        Ok(outcome)
    })
}

fn allocate(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let more = [
            ("bytes", (32 * DISK).to_string()),
            ("each", (DISK - 4096).to_string()),
        ];
        Ok(scene.run(scene.attack.name, &more).await)
    })
}

/// Commands that are each killed for the disk limit must not exceed it step by step.
fn rounds(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let mut all = AttackOutcome::nothing();
        for round in 0..8 {
            let more = [
                ("bytes", (4 * DISK).to_string()),
                ("round", round.to_string()),
            ];
            let outcome = scene.run(scene.attack.name, &more).await;
            all.stdout.extend_from_slice(&outcome.stdout);
        }
        disk_kept(scene, &all)?;
        // Over the limit for the second time, only the host can clean up.
        let files = 4 * DISK / (8 << 20);
        for (round, file) in (0..8).flat_map(|round| (0..files).map(move |file| (round, file))) {
            let path = format!("round-{round}-{file}");
            let _ = within("remove", scene.sandbox().remove(path, false)).await;
        }
        Ok(all)
    })
}

/// Commands that end before the next scan must not exceed the limit step by step. When the host has
/// removed their files, commands run again.
fn steps(scene: &AttackFixture) -> DriverFuture<'_> {
    const STEPS: u64 = 96;
    const STEP_BYTES: u64 = 4 << 20;
    Box::pin(async move {
        let step = async |number: u64| {
            let more = [
                ("bytes", STEP_BYTES.to_string()),
                ("step", number.to_string()),
            ];
            scene.run(scene.attack.name, &more).await
        };
        let mut all = AttackOutcome::nothing();
        for number in 0..STEPS {
            all.stdout.extend_from_slice(&step(number).await.stdout);
        }
        disk_kept(scene, &all)?;
        for number in 0..STEPS {
            let path = format!("step-{number}");
            let _ = within("remove", scene.sandbox().remove(path, false)).await;
        }
        let last = step(STEPS).await;
        match &last.verdict {
            Some(verdict) if verdict.status == CommandStatus::Code(0) => Ok(last),
            other => Err(format!("after its files were removed: {other:?}")),
        }
    })
}

fn disk_kept(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    let program = std::fs::metadata(crate::scene::hostile_program()).map_or(0, |file| file.len());
    match size_of(&scene.props.workspace).0.saturating_sub(program) {
        bytes if bytes > DISK + DISK_SLACK => {
            Err(format!("{bytes} bytes are on the disk, {DISK} are allowed"))
        }
        _ => Ok(()),
    }
}

fn inodes(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        Ok(scene
            .run(scene.attack.name, &[("inodes", INODES.to_string())])
            .await)
    })
}

fn names_kept(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    match size_of(&scene.props.workspace).1 {
        names if names > 4 * INODES => Err(format!("{names} names, {INODES} are allowed")),
        _ => Ok(()),
    }
}
