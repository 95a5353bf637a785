//! No walls, which must be requested explicitly: the same handle, no protection, and nothing left
//! behind.
//!
//! The same in every run, whatever backend is under test; runs for other backends skip it.

use std::time::Duration;

use sandbox::request::CommandStatus;
use sandbox::{Backend, ExecCommand, LimitEnforcer, LimitKind, Sandbox, SandboxError, SandboxSpec};

use crate::world::{
    TestSandbox, ended, eventually, marker, process_with, processes_with, text, until, within,
};

#[test]
fn commands_run_as_the_caller_and_end_with_the_handle() {
    within(async {
        let world = TestSandbox::with(|spec| {
            spec.backend = Backend::None;
            spec.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        })
        .await;
        assert_eq!(world.info().backend, Backend::None);
        assert!(world.info().walls.is_empty());
        for one in world.limits() {
            let expect = match one.limit {
                LimitKind::WallTime | LimitKind::Output => LimitEnforcer::Guest,
                _ => LimitEnforcer::Nothing,
            };
            assert_eq!(one.enforcer, expect, "{one:?}");
        }
        let own = format!("{}\n", nix::unistd::geteuid());
        assert_eq!(world.text("id -u").await, own);
        let folder = world.folder.path().canonicalize().unwrap();
        assert_eq!(world.text("pwd").await, format!("{}\n", folder.display()));
        let command =
            ExecCommand::script("echo up; sleep 1000").timeout(Some(Duration::from_millis(200)));
        let captured = world.run(command).await.unwrap();
        assert_eq!(text(&captured.stdout), "up\n");
        assert_eq!(captured.verdict.limit, Some(LimitKind::WallTime));
        assert_eq!(
            world.sh("exit 3").await.verdict,
            ended(CommandStatus::Code(3))
        );

        let marker = marker("no-walls");
        let script = "echo up; read line";
        let command = ExecCommand::new(["sh", "-c", script, &marker]).stdin();
        let mut running = world.exec(command).await.unwrap();
        until(&mut running, "up").await;
        process_with(&marker).await;
        drop(running.take_input());
        drop(running);
        world.end().await;
        eventually("nothing is left", async || {
            processes_with(&marker).is_empty()
        })
        .await;
    });
}

#[test]
fn nothing_holds_and_so_nothing_strict_starts() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let spec = SandboxSpec {
            backend: Backend::None,
            strict_limits: true,
            ..SandboxSpec::new(folder.path())
        };
        match Sandbox::start(spec).await {
            Err(SandboxError::Unenforced { limit, .. }) => assert_eq!(limit, LimitKind::Memory),
            other => panic!("{other:?}"),
        }
    });
}
