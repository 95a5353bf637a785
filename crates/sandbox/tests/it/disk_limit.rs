//! The enforcement of the disk limit on different file systems, also when other processes fill the
//! same disk.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command as Program;
use std::time::Duration;

use sandbox::request::CommandStatus;
use sandbox::{ExecCommand, LimitEnforcer, LimitKind, Sandbox};
use tempfile::TempDir;

use crate::under_test::{self, nature};
use crate::world::{TestSandbox, ended, is_root, rest, text, until, within};

fn enforcer(sandbox: &Sandbox) -> LimitEnforcer {
    let mut all = sandbox.limits().iter();
    all.find(|one| one.limit == LimitKind::Disk)
        .unwrap()
        .enforcer
}

const LIMIT: u64 = 8 << 20;

/// Other processes write many times the limit to the same disk. The shell uses job control, so it
/// would notice if its child were stopped, and the child has open files that a careless scan cannot
/// resolve.
#[test]
fn growth_by_others_kills_nobody() {
    within(async {
        let world = TestSandbox::with(|spec| spec.limits.disk = LIMIT).await;
        others_grow(&world).await;
        // Later writes of the sandbox itself still count.
        let fill = "for i in 1 2 3 4; do head -c 4M /dev/zero > $i; done; sleep 1000";
        let captured = world.sh(fill).await;
        assert_eq!(captured.verdict.limit, Some(LimitKind::Disk));
        world.end().await;
    });
}

async fn others_grow(world: &TestSandbox) {
    let socket = if nature::tells_descriptors_in_flight() {
        "use Socket; socketpair(my $one, my $two, AF_UNIX, SOCK_STREAM, 0) or die $!;"
    } else {
        ""
    };
    let waits = "open my $file, q(>), q(own); unlink q(own); \
         print $file q(x) x (1 << 20); $| = 1; print \"up\\n\"; <STDIN>; exit 3";
    let script = format!("set -m; perl -e '{socket} {waits}'; echo \"ended with $?\"");
    let command = ExecCommand::new(["bash", "-c", &script]).stdin();
    let mut running = world.exec(command).await.unwrap();
    until(&mut running, "up").await;

    let beside = world.folder.path().parent().unwrap();
    let mut other = tempfile::NamedTempFile::new_in(beside).unwrap();
    for _ in 0..8 {
        other.write_all(&vec![1; LIMIT as usize * 2]).unwrap();
        // Time for the guest to scan.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    drop(running.take_input());
    let captured = rest(&mut running).await;
    assert_eq!(
        captured.verdict,
        ended(CommandStatus::Code(0)),
        "{captured:?}"
    );
    assert_eq!(text(&captured.stdout), "ended with 3\n");
}

/// A file system in a file, mounted as long as this lives. Needs root.
struct MountedFileSystem {
    folder: TempDir,
}

impl MountedFileSystem {
    /// `None` if this kernel cannot mount it.
    fn new(megabytes: u64, make: &[&str], options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        let made = Program::new("/usr/sbin/mkfs.ext4")
            .args(["-q", "-m", "0"])
            .args(make)
            .arg(&image)
            .status();
        assert!(made.unwrap().success());
        fs::create_dir(folder.path().join("mounted")).unwrap();
        let mounted = Self { folder };
        let done = Program::new("mount")
            .args(["-o", options])
            .arg(&image)
            .arg(mounted.path())
            .output();
        let done = done.unwrap();
        if !done.status.success() {
            return None;
        }
        Some(mounted)
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("mounted")
    }
}

impl Drop for MountedFileSystem {
    fn drop(&mut self) {
        let _ = Program::new("umount").arg(self.path()).status();
    }
}

async fn start(workspace: &Path, limit: u64) -> Sandbox {
    let mut spec = under_test::spec(workspace);
    spec.limits.disk = limit;
    Sandbox::start(spec).await.unwrap()
}

/// Writes until that fails, and continues: nothing is killed.
const FILL_SCRIPT: &str = "i=0; while head -c 1M /dev/zero > part$i; do i=$((i+1)); done 2> /tmp/said; \
                    grep -o -e 'No space left' -e 'Disk quota exceeded' /tmp/said; ls part* | wc -l";

#[test]
fn a_file_system_within_the_limit_holds_it() {
    const LIMIT: u64 = 64 << 20;
    within(async {
        if !is_root() {
            // An ordinary user cannot mount, and the disk is larger than the limit.
            let world = TestSandbox::with(|spec| spec.limits.disk = LIMIT).await;
            assert_eq!(enforcer(&world), LimitEnforcer::Scan);
            world.end().await;
            return;
        }
        let mounted = MountedFileSystem::new(16, &[], "loop").expect("a kernel with loop devices");
        let sandbox = start(&mounted.path(), LIMIT).await;
        assert_eq!(enforcer(&sandbox), LimitEnforcer::BoundedFileSystem);
        let captured = sandbox.run(ExecCommand::script(FILL_SCRIPT)).await.unwrap();
        assert!(
            text(&captured.stdout).starts_with("No space left\n"),
            "{captured:?}"
        );
        sandbox.end().await;
        // One byte less, and the file system alone does not enforce the limit.
        let sandbox = start(&mounted.path(), 8 << 20).await;
        assert_eq!(enforcer(&sandbox), LimitEnforcer::Scan);
        sandbox.end().await;
    });
}

#[test]
fn a_project_quota_holds_where_the_file_system_has_one() {
    const LIMIT: u64 = 8 << 20;
    within(async {
        let features = ["-O", "project,quota", "-E", "quotatype=prjquota"];
        let mounted = if is_root() {
            MountedFileSystem::new(64, &features, "loop,prjquota")
        } else {
            None
        };
        // An ordinary user cannot set quotas; some kernels lack them.
        let Some(mounted) = mounted else {
            let world = TestSandbox::with(|spec| spec.limits.disk = LIMIT).await;
            assert_eq!(enforcer(&world), LimitEnforcer::Scan);
            world.end().await;
            return;
        };
        let workspace = mounted.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::write(workspace.join("before"), vec![1; 4 << 20]).unwrap();
        let sandbox = start(&workspace, LIMIT).await;
        assert_eq!(enforcer(&sandbox), LimitEnforcer::ProjectQuota);
        let captured = sandbox.run(ExecCommand::script(FILL_SCRIPT)).await.unwrap();
        let said = text(&captured.stdout);
        let mut lines = said.lines();
        let error = lines.next().unwrap();
        assert!(
            ["Disk quota exceeded", "No space left"].contains(&error),
            "{captured:?}"
        );
        let parts: u64 = lines.next().unwrap().trim().parse().unwrap();
        assert!((7..=9).contains(&parts), "{captured:?}");
        // Removed files that are still open count too.
        let hidden = "rm part*; exec 3>a 4>b; rm a b; \
                      head -c 6M /dev/zero >&3 && head -c 6M /dev/zero >&4; echo $?";
        let captured = sandbox.run(ExecCommand::script(hidden)).await.unwrap();
        assert_eq!(text(&captured.stdout), "1\n", "{captured:?}");
        let captured = sandbox.run(ExecCommand::script("seq 20000 | xargs touch; echo $?"));
        let captured = captured.await.unwrap();
        assert_ne!(text(&captured.stdout), "0\n");
        sandbox.end().await;
        // The quota is gone.
        fs::write(workspace.join("after"), vec![1; 32 << 20]).unwrap();
    });
}
