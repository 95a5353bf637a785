//! Lines 51 to 54.

use std::time::Duration;

use sandbox::request::{ListRequest, SearchRequest};
use sandbox::{ExecCommand, LimitKind, SandboxSpec};
use tokio::time::timeout;

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::outside::processes_with;
use crate::scene::{AttackFixture, HostSurroundings, finish, within};
use crate::under_test::{nature, portion};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(51, "daemon").drive(it_still_runs),
    Attack::new(52, "kill-guest").drive(while_others_start),
    Attack::new(52, "kill-all"),
    Attack::new(52, "starve-guest"),
    Attack::new(53, "stop")
        .drive(for_a_second)
        .expect(ExpectedEnd::Limit(LimitKind::WallTime)),
    Attack::new(54, "hold-output").drive(it_still_runs),
    Attack::new(52, "deep-folders").drive(deep_folders),
    Attack::new(52, "long-line")
        .tune(little_memory)
        .drive(long_line),
    Attack::new(52, "watch-storm")
        .expect(ExpectedEnd::Driven)
        .drive(watched_storm),
];

/// Far more than an answer takes; after that the guest is stuck.
fn stuck_timeout() -> Duration {
    nature::scaled_timeout(Duration::from_secs(20))
}

/// A process may outlive its command, inside. After every attack nothing may be left, so here a
/// process must have been there that could be left.
fn it_still_runs(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run(scene.attack.name, &[]).await;
        let stats = within("stats", scene.sandbox().stats()).await?;
        let is_seen = !processes_with(&scene.props.marker).is_empty();
        if stats.processes > 1 && (is_seen || !nature::host_sees_processes()) {
            Ok(outcome)
        } else {
            Err("nothing outlived the command: the attack did not begin".into())
        }
    })
}

/// Signals arrive at every moment of the guest's work, of which starting a command is one of the
/// longer ones; and several times in a new guest, whose handlers have not run yet.
fn while_others_start(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        for _ in 0..portion(12) {
            let mut victim =
                AttackFixture::set(scene.backend, Attack::new(52, "kill-guest")).await?;
            let outcome = signal_storm(&victim).await;
            victim.strike().await?;
            let outcome = outcome?;
            if outcome.verdict.is_none() {
                return Ok(outcome);
            }
        }
        signal_storm(scene).await
    })
}

async fn signal_storm(scene: &AttackFixture) -> CheckResult<AttackOutcome> {
    let others = async {
        for _ in 0..10 {
            // Commands may be hit too: the guest forwards termination signals to them.
            let _ = scene.sandbox().run(ExecCommand::new(["/bin/true"])).await;
        }
    };
    let (outcome, ()) = tokio::join!(scene.run("kill-guest", &[]), others);
    Ok(outcome)
}

fn for_a_second(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let command = scene.hostile(scene.attack.name, &[]);
        let command = command.timeout(Some(Duration::from_secs(1)));
        Ok(AttackOutcome::from_run(scene.sandbox().run(command).await))
    })
}

fn little_memory(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.memory = 128 << 20;
}

fn search(pattern: &str) -> SearchRequest {
    SearchRequest {
        path: ".".into(),
        pattern: pattern.into(),
        case_insensitive: false,
        globs: Vec::new(),
        ignore: true,
        hidden: false,
        context: 0,
        limit: 100,
    }
}

/// The host lists, searches and removes a deep tree. Whatever the answers are, the guest must
/// survive.
fn deep_folders(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run("deep-folders", &[("depth", "3500".into())]).await;
        let sandbox = scene.sandbox();
        let list = ListRequest {
            path: ".".into(),
            depth: 200,
            ignore: true,
            hidden: false,
            globs: Vec::new(),
            limit: 1_000_000,
        };
        let listing = async { sandbox.list(list).await?.collect().await };
        let listed = timeout(stuck_timeout(), listing)
            .await
            .map_err(|_| "the listing hangs")?;
        listed.map_err(|error| format!("list: {error}"))?;
        let searching = async { sandbox.search(search("needle")).await?.collect().await };
        let searched = timeout(stuck_timeout(), searching)
            .await
            .map_err(|_| "the search hangs")?;
        searched.map_err(|error| format!("search: {error}"))?;
        let removing = timeout(stuck_timeout(), sandbox.remove("deep", true));
        let _ = removing.await.map_err(|_| "the removal hangs")?;
        Ok(outcome)
    })
}

fn long_line(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene
            .run("long-line", &[("bytes", (256 << 20).to_string())])
            .await;
        let sandbox = scene.sandbox();
        let searching = async { sandbox.search(search("needle")).await?.collect().await };
        let _ = timeout(stuck_timeout(), searching)
            .await
            .map_err(|_| "the search hangs")?;
        Ok(outcome)
    })
}

fn watched_storm(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let sandbox = scene.sandbox();
        within("make", sandbox.make_folder("watched")).await?;
        let watch = within("watch", sandbox.watch("watched")).await?;
        let folders = [("folders", portion(20_000).to_string())];
        let (running, outcome) = scene.start("watch-storm", &folders, "planted").await?;
        let commands = async {
            for _ in 0..5 {
                sandbox.run(ExecCommand::new(["/bin/true"])).await?;
            }
            Ok::<_, sandbox::SandboxError>(())
        };
        let ran = timeout(stuck_timeout(), commands).await;
        ran.map_err(|_| "five commands hang while a watched folder is busy")?
            .map_err(|error| error.to_string())?;
        drop(watch);
        within("kill", running.remote().signal(libc::SIGKILL)).await?;
        finish(running, outcome).await
    })
}
