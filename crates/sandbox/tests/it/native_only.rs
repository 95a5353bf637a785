//! Tests for native walls only: the caveat of the memory limit for an ordinary user, and namespaces
//! as the host sees them. Always uses native walls, whatever backend is under test; runs for other
//! backends skip it. Everything else in this program applies to all backends.

use sandbox::{Backend, ExecCommand, LimitEnforcement, LimitKind};

use crate::world::{TestSandbox, is_root, marker, process_with, rest, status_field, within};

async fn native() -> TestSandbox {
    TestSandbox::with(|spec| spec.backend = Backend::Native).await
}

#[test]
fn an_ordinary_user_is_told_why_memory_is_limited_for_each_process_only() {
    within(async {
        let world = native().await;
        let limits = world.limits();
        if is_root() {
            assert!(limits.iter().all(LimitEnforcement::is_full), "{limits:?}")
        } else {
            let memory = limits.iter().find(|one| one.limit == LimitKind::Memory);
            let caveat = memory.unwrap().caveat.clone().unwrap();
            let says = "no cgroup is delegated to this user";
            assert!(caveat.ends_with(says), "{caveat}");
        }
        world.end().await;
    });
}

#[test]
fn the_guest_is_the_parent_of_every_command_one_namespace_below() {
    within(async {
        let world = native().await;
        let marker = marker("native");
        let command = ExecCommand::new(["sh", "-c", "read line", &marker]).stdin();
        let mut running = world.exec(command).await.unwrap();
        let pid = process_with(&marker).await;
        let guest: u32 = status_field(pid, "PPid").unwrap().parse().unwrap();
        assert_eq!(status_field(guest, "Uid"), status_field(pid, "Uid"));
        let levels = |pid: u32| {
            let numbers = status_field(pid, "NSpid").unwrap();
            numbers.split_whitespace().count()
        };
        assert_eq!(levels(pid), levels(std::process::id()) + 1);
        drop(running.take_input());
        rest(&mut running).await;
        drop(running);
        world.end().await;
    });
}
