//! A separate root: an image folder under an overlay, which stays unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::request::{CommandStatus, RefusalKind, WriteMode};
use sandbox::{ExecCommand, LimitKind, RootSpec, Sandbox, SandboxError};

use crate::under_test::{self, nature};
use crate::world::{TestSandbox, assert_refused, text, within};

/// A root file system with a few programs of the host and the libraries they need.
fn image() -> tempfile::TempDir {
    let image = tempfile::tempdir().unwrap();
    let install = |path: &Path, from: &Path| {
        let path = image.path().join(path.strip_prefix("/").unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !path.exists() {
            fs::copy(from, &path).unwrap();
        }
    };
    for program in ["sh", "cat", "ls", "mkdir", "rm", "id", "sleep", "chmod"] {
        let path = PathBuf::from("/bin").join(program);
        install(&path, &path);
        let listed = std::process::Command::new("ldd")
            .arg(&path)
            .output()
            .unwrap();
        for word in String::from_utf8(listed.stdout).unwrap().split_whitespace() {
            if word.starts_with('/') {
                install(Path::new(word), Path::new(word));
            }
        }
    }
    fs::create_dir_all(image.path().join("opt/tool")).unwrap();
    fs::write(image.path().join("opt/tool/file"), "of the image\n").unwrap();
    fs::create_dir(image.path().join("etc")).unwrap();
    fs::write(image.path().join("etc/passwd"), "image:x:0:0::/:/bin/sh\n").unwrap();
    image
}

/// Every path below a folder with its size and modification time.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u64, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        all.insert(entry.path(), (metadata.len(), metadata.modified().unwrap()));
        if metadata.is_dir() {
            all.extend(snapshot(&entry.path()));
        }
    }
    all
}

#[test]
fn changes_to_the_root_are_seen_inside_and_nowhere_else() {
    within(async {
        let image = image();
        let before = snapshot(image.path());
        let start = async || {
            let root = RootSpec::Image(image.path().to_owned());
            TestSandbox::with(|spec| spec.root = root).await
        };
        let world = start().await;
        assert_eq!(
            world.text("cat /opt/tool/file; id -u").await,
            "of the image\n1000\n"
        );
        let script = "echo changed > /opt/tool/file; echo new > /new; mkdir /opt/more; \
                      rm /bin/ls; chmod 711 /opt/tool; cat /opt/tool/file /new; echo x > /workspace/x";
        assert_eq!(world.text(script).await, "changed\nnew\n");
        // The change persists after the command, and the guest sees it too.
        assert_eq!(world.read_file("/new", 0, None).await.unwrap().1, b"new\n");
        world
            .write_file("/opt/more/written", "w", WriteMode::Replace)
            .await
            .unwrap();
        assert_eq!(world.text("cat /opt/more/written").await, "w");
        assert_refused(
            world.run(ExecCommand::new(["ls"])).await,
            RefusalKind::NotFound,
            "cannot start `ls`",
        );
        // The generated files exist, and are not the image's or the host's.
        let passwd = world.text("cat /etc/passwd").await;
        assert!(
            passwd.contains("hotcell:x:1000") && !passwd.contains("image"),
            "{passwd}"
        );
        world.text("echo x > /tmp/x; echo x > /home/hotcell/x; echo x > /dev/null; cat /proc/self/comm").await;
        assert!(world.path("x").exists());
        // Another sandbox on the same image starts with the original image.
        let other = start().await;
        let seen = other
            .text("cat /opt/tool/file; ls -d /new /bin/ls 2>/dev/null || true")
            .await;
        assert_eq!(seen, "of the image\n/bin/ls\n");
        other.end().await;
        world.end().await;
        assert_eq!(snapshot(image.path()), before);
        assert_eq!(
            fs::read(image.path().join("opt/tool/file")).unwrap(),
            b"of the image\n"
        );
    });
}

#[test]
fn a_root_without_bash_has_sessions_with_its_own_shell() {
    within(async {
        let image = image();
        let root = RootSpec::Image(image.path().to_owned());
        let world = TestSandbox::with(|spec| spec.root = root).await;
        let say = async |script: &str| {
            let mut printed = Vec::new();
            let print = |bytes: bytes::Bytes, _| printed.extend_from_slice(&bytes);
            let wait = Duration::from_secs(60);
            let progress = world.shell("s", script, wait, print).await.unwrap();
            (text(&printed), progress.exit.map(|exit| exit.status))
        };
        let script = "trap 'exit 0' EXIT; umask 027; cd /opt; export x='a b'";
        assert_eq!(say(script).await.1, Some(CommandStatus::Code(0)));
        let (printed, exit) = say("pwd; umask; echo $x; exit 6").await;
        assert_eq!(
            (printed.as_str(), exit),
            ("/opt\n0027\na b\n", Some(CommandStatus::Code(6)))
        );
        assert_eq!(say("pwd").await.0, "/opt\n");
        assert_eq!(
            say("set -e; false; echo never").await,
            (String::new(), Some(CommandStatus::Code(1)))
        );
        assert_eq!(say("false; echo on").await.0, "on\n");
        world.end().await;
    });
}

#[test]
fn the_overlay_is_bounded() {
    within(async {
        let image = image();
        let root = RootSpec::Image(image.path().to_owned());
        let world = TestSandbox::with(|spec| {
            spec.root = root;
            spec.limits.disk = 64 << 20;
            spec.limits.memory = 64 << 20;
        })
        .await;
        // Half of the memory limit, so that the other half is left for processes.
        let script = "i=0; while cat /bin/sh /bin/sh /bin/sh /bin/sh > /big$i; do i=$((i+1)); done";
        let captured = world.sh(script).await;
        if nature::keeps_changes_in_memory() {
            assert!(
                text(&captured.stderr).contains("No space left"),
                "{captured:?}"
            )
        } else {
            // On a disk with more space, the guest enforces it.
            assert_eq!(
                captured.verdict.limit,
                Some(LimitKind::Disk),
                "{captured:?}"
            )
        }
        world.text("rm /big*").await;
        world.end().await;
    });
}

#[test]
fn what_is_no_image_is_refused() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        for name in ["missing", "file"] {
            let mut spec = under_test::spec(folder.path());
            spec.root = RootSpec::Image(folder.path().join(name));
            let refused = Sandbox::start(spec).await;
            assert!(
                matches!(refused, Err(SandboxError::Image { .. })),
                "{refused:?}"
            );
            let refused = Sandbox::start(under_test::spec(folder.path().join(name))).await;
            assert!(
                matches!(refused, Err(SandboxError::Workspace { .. })),
                "{refused:?}"
            );
        }
        // An empty image is a root without programs: it starts, but cannot run anything.
        let empty = tempfile::tempdir().unwrap();
        let root = RootSpec::Image(empty.path().to_owned());
        let world = TestSandbox::with(|spec| spec.root = root).await;
        let refused = world.run(ExecCommand::script("true")).await;
        assert_refused(refused, RefusalKind::NotFound, "cannot start `/bin/sh`");
        world
            .write_file("file", "x", WriteMode::Replace)
            .await
            .unwrap();
        world.end().await;
        assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    });
}
