//! Lines 1 to 17.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::request::{ListRequest, SearchRequest, WriteMode};
use sandbox::{ExecCommand, Sandbox, SandboxError};
use tokio::time::timeout;

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::outside::setuid_files;
use crate::scene::{AttackFixture, finish, is_root};
use crate::under_test::{self, nature, portion};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(1, "dot-dot"),
    Attack::new(2, "absolute-path"),
    Attack::new(3, "prefix-sibling"),
    Attack::new(4, "symlink-leaf").drive(then_by_the_host),
    Attack::new(5, "symlink-parent").drive(then_by_the_host),
    Attack::new(6, "dangling-symlink").drive(then_by_the_host),
    Attack::new(7, "swap-leaf")
        .expect(ExpectedEnd::Driven)
        .drive(swapped_while_the_host_works),
    Attack::new(8, "swap-parent")
        .expect(ExpectedEnd::Driven)
        .drive(swapped_while_the_host_works),
    Attack::new(7, "swap-fifo")
        .expect(ExpectedEnd::Driven)
        .drive(searched_while_swapped),
    Attack::new(9, "hard-link"),
    Attack::new(10, "proc-self-root"),
    Attack::new(11, "proc-1"),
    Attack::new(12, "descriptors").drive(descriptors_of_a_command),
    Attack::new(12, "descriptors").drive(descriptors_of_a_shell_command),
    Attack::new(13, "protected").outside(nothing_protected_was_made),
    Attack::new(14, "alias"),
    Attack::new(15, "device"),
    Attack::new(15, "planted-device")
        .expect(ExpectedEnd::Driven)
        .drive(planted_device),
    Attack::new(15, "fifo").drive(fifo_read_by_the_host),
    Attack::new(15, "fifo").drive(fifo_for_a_list_of_ignored_files),
    Attack::new(15, "fifo").drive(endless_list_of_ignored_files),
    Attack::new(16, "planted-setuid").drive(planted_setuid),
    Attack::new(16, "leave-setuid").outside(no_setuid_file_is_left),
    Attack::new(16, "become-root"),
    Attack::new(17, "odd-exec"),
    Attack::new(17, "whoami"),
];

/// More than any of these answers could take; after that the sandbox's workers are stuck.
fn stuck_timeout() -> Duration {
    nature::scaled_timeout(Duration::from_secs(20))
}

async fn answer<T>(
    what: &str,
    request: impl Future<Output = Result<T, SandboxError>>,
) -> CheckResult<Result<T, SandboxError>> {
    timeout(stuck_timeout(), request)
        .await
        .map_err(|_| format!("{what} hangs"))
}

/// Runs every request of the host on a path; each must get some answer. What was read is added to
/// the output of the attack.
async fn use_path(sandbox: &Sandbox, path: &str, outcome: &mut AttackOutcome) -> CheckResult {
    read_path(sandbox, path, outcome).await?;
    for mode in [WriteMode::Append, WriteMode::Replace, WriteMode::Create] {
        let write = sandbox.write_file(path, &b"by the host"[..], mode);
        let _ = answer(&format!("write of {path}"), write).await?;
    }
    let _ = answer(&format!("stat of {path}"), sandbox.stat(path)).await?;
    Ok(())
}

async fn read_path(sandbox: &Sandbox, path: &str, outcome: &mut AttackOutcome) -> CheckResult {
    let read = answer(&format!("read of {path}"), sandbox.read_file(path, 0, None)).await?;
    if let Ok((_, content)) = read {
        outcome.stdout.extend_from_slice(&content);
    }
    Ok(())
}

fn list(path: &str, ignore: bool) -> ListRequest {
    ListRequest {
        path: path.into(),
        depth: 8,
        ignore,
        hidden: false,
        globs: Vec::new(),
        limit: 1000,
    }
}

fn search(path: &str, ignore: bool) -> SearchRequest {
    SearchRequest {
        path: path.into(),
        pattern: "canary|harmless".into(),
        case_insensitive: false,
        globs: Vec::new(),
        ignore,
        hidden: false,
        context: 0,
        limit: 1000,
    }
}

async fn list_and_search(
    sandbox: &Sandbox,
    path: &str,
    ignore: bool,
    outcome: &mut AttackOutcome,
) -> CheckResult {
    let listing = async { sandbox.list(list(path, ignore)).await?.collect().await };
    let _ = answer(&format!("list of {path}"), listing).await?;
    let searching = async { sandbox.search(search(path, ignore)).await?.collect().await };
    if let Ok((found, _)) = answer(&format!("search of {path}"), searching).await? {
        found
            .iter()
            .for_each(|found| outcome.stdout.extend_from_slice(&found.text.0));
    }
    Ok(())
}

fn then_by_the_host(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let mut outcome = scene.run(scene.attack.name, &[]).await;
        let sandbox = scene.sandbox();
        let paths = [
            "canary-link",
            "shadow",
            "parent",
            "parent/canary",
            "parent/created",
            "dangling",
        ];
        for path in paths {
            use_path(sandbox, path, &mut outcome).await?;
        }
        list_and_search(sandbox, ".", false, &mut outcome).await?;
        for path in ["parent", "canary-link"] {
            let _ = answer(
                "rename",
                sandbox.rename("hostile", format!("{path}/hostile")),
            )
            .await?;
            let _ = answer("make a folder", sandbox.make_folder(format!("{path}/made"))).await?;
            let _ = answer("remove", sandbox.remove(format!("{path}/canary"), true)).await?;
            let _ = answer("remove", sandbox.remove(path, true)).await?;
        }
        Ok(outcome)
    })
}

fn swapped_while_the_host_works(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let (running, mut outcome) = scene.start(scene.attack.name, &[], "exchanging").await?;
        let sandbox = scene.sandbox();
        let paths = ["swapped", "folder/canary"];
        // Writing may replace the link by a file, and then there is nothing to exchange.
        for _ in 0..portion(60) {
            for path in paths {
                read_path(sandbox, path, &mut outcome).await?;
            }
        }
        for _ in 0..portion(60) {
            for path in paths {
                use_path(sandbox, path, &mut outcome).await?;
            }
            let _ = answer("remove", sandbox.remove("folder/canary", true)).await?;
        }
        list_and_search(sandbox, ".", false, &mut outcome).await?;
        let _ = running.remote().signal(libc::SIGKILL).await;
        finish(running, outcome).await
    })
}

/// A file that is replaced by a pipe before it is opened blocks a careless reader.
fn searched_while_swapped(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let (running, mut outcome) = scene.start(scene.attack.name, &[], "exchanging").await?;
        for _ in 0..portion(300) {
            list_and_search(scene.sandbox(), "pipes", false, &mut outcome).await?;
        }
        let _ = running.remote().signal(libc::SIGKILL).await;
        finish(running, outcome).await
    })
}

fn descriptors_of_a_command(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        Ok(scene
            .run("descriptors", &[("rightful", "0,1,2".into())])
            .await)
    })
}

/// A shell session keeps its state in memory files: only descriptors 8 and 9.
fn descriptors_of_a_shell_command(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let mut outcome = AttackOutcome::default();
        let mut script = String::from("./hostile descriptors rightful=0,1,2,8,9");
        for argument in scene.props.arguments() {
            script.push_str(&format!(" '{argument}'"));
        }
        // A second command too: by then the session has a state to restore.
        for _ in 0..2 {
            let output = &mut outcome.stdout;
            let print = |bytes: bytes::Bytes, _| output.extend_from_slice(&bytes);
            let running = scene
                .sandbox()
                .shell("session", &script, stuck_timeout(), print);
            let progress = answer("shell", running)
                .await?
                .map_err(|error| error.to_string())?;
            let exit = progress.exit.ok_or("the shell command did not end")?;
            outcome.verdict = Some(sandbox::CommandResult {
                status: exit.status,
                limit: None,
            });
        }
        Ok(outcome)
    })
}

/// Neither on the host nor in the image, if there is one.
fn nothing_protected_was_made(_: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    let image = under_test::image().unwrap_or_else(|| "/".into());
    for folder in [
        "/etc/sudoers.d",
        "/etc/cron.d",
        "/usr/bin",
        "/usr/local/bin",
        "/",
        "/dev",
        "/var",
    ] {
        for name in ["hostile", "hostile-was-here", "hostile-folder"] {
            let path = PathBuf::from(folder).join(name);
            let in_image = image.join(path.strip_prefix("/").unwrap_or(&path));
            for path in [path, in_image] {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(format!("{} was made", path.display()));
                }
            }
        }
    }
    Ok(())
}

/// Only the machine's root can make a device node; for an ordinary user there is none.
fn planted_device(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        if !is_root() {
            return Ok(AttackOutcome::nothing());
        }
        use nix::sys::stat::{Mode, SFlag, makedev, mknod};
        let path = scene.props.workspace.join("planted");
        // The null device: harmless if it could be opened.
        mknod(
            &path,
            SFlag::S_IFCHR,
            Mode::from_bits_truncate(0o666),
            makedev(1, 3),
        )
        .map_err(|error| error.to_string())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(|e| e.to_string())?;
        let mut outcome = scene.run("planted-device", &[]).await;
        if outcome.lines("HELD ").len() != 2 {
            return Err(format!("{outcome:?}"));
        }
        use_path(scene.sandbox(), "planted", &mut outcome).await?;
        Ok(outcome)
    })
}

fn fifo_read_by_the_host(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let mut outcome = scene.run("fifo", &[("names", "pipe".into())]).await;
        let sandbox = scene.sandbox();
        // More often than there are workers.
        for _ in 0..8 {
            let read = answer("read of a pipe", sandbox.read_file("pipe", 0, None)).await?;
            if read.is_ok() {
                return Err("a pipe was read as a file".into());
            }
            use_path(sandbox, "pipe", &mut outcome).await?;
            list_and_search(sandbox, ".", false, &mut outcome).await?;
            list_and_search(sandbox, "pipe", false, &mut outcome).await?;
        }
        Ok(outcome)
    })
}

/// Ignore files are read before any other file.
fn fifo_for_a_list_of_ignored_files(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let names = ".gitignore,.ignore,.rgignore".to_owned();
        let mut outcome = scene.run("fifo", &[("names", names)]).await;
        for _ in 0..4 {
            list_and_search(scene.sandbox(), ".", true, &mut outcome).await?;
        }
        Ok(outcome)
    })
}

fn endless_list_of_ignored_files(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let mut outcome = scene.run("fifo", &[("names", String::new())]).await;
        let script = "mkdir -p .git/info a b && ln -s /dev/zero .gitignore && \
                      ln -s /dev/zero a/.ignore && ln -s /dev/zero .git/info/exclude";
        let planted = answer("plant", scene.sandbox().run(ExecCommand::script(script))).await?;
        planted.map_err(|error| error.to_string())?;
        list_and_search(scene.sandbox(), ".", true, &mut outcome).await?;
        Ok(outcome)
    })
}

/// A program that prints its user, setuid and setgid to the user that runs the suite: as root that
/// is root. For an ordinary user the bits have no effect, and must not get any.
fn planted_setuid(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let path = scene.props.workspace.join("planted-id");
        fs::copy("/usr/bin/id", &path)
            .and_then(|_| fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)))
            .map_err(|error| error.to_string())?;
        let outcome = scene.run("planted-setuid", &[]).await;
        // Made by the test itself, so that the later check finds only files of the sandbox.
        fs::remove_file(&path).map_err(|error| error.to_string())?;
        Ok(outcome)
    })
}

fn no_setuid_file_is_left(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    match setuid_files(&scene.props.workspace) {
        files if files.is_empty() => Ok(()),
        files => Err(format!("left on the host: {}", files.join(", "))),
    }
}
