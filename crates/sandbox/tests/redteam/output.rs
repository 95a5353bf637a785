//! Lines 70 to 76. Line 73 only as far as it applies here: bytes pass unchanged, and a program that
//! displays them must sanitize them.

use std::collections::BTreeSet;

use sandbox::request::{CommandStatus, ListRequest, SearchRequest, TerminalSize};
use sandbox::{CommandEvent, LimitKind, SandboxSpec};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::outside::own_peak;
use crate::scene::{AttackFixture, HostSurroundings, within};
use crate::suite::check_still_works;
use crate::under_test::portion;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(70, "flood")
        .expect(ExpectedEnd::Driven)
        .drive(flood),
    Attack::new(70, "flood")
        .expect(ExpectedEnd::Driven)
        .drive(flood_that_nobody_reads),
    Attack::new(71, "flood")
        .tune(a_megabyte)
        .expect(ExpectedEnd::Limit(LimitKind::Output))
        .drive(cut_off),
    Attack::new(72, "all-bytes")
        .expect(ExpectedEnd::Driven)
        .outside(the_same_bytes),
    Attack::new(73, "odd-names").drive(odd_names),
    Attack::new(74, "type-into-terminal").drive(on_a_terminal),
    Attack::new(75, "forge-frames")
        .expect(ExpectedEnd::Driven)
        .outside(frames_are_bytes),
    Attack::new(75, "frames-everywhere").drive(frames_everywhere),
    Attack::new(76, "environment")
        .drive(with_a_secret)
        .outside(the_secret_is_not_on_record),
];

/// A gigabyte.
fn flood_bytes() -> u64 {
    portion(1 << 30)
}

/// Memory that the host may use meanwhile; other tests of this process use some of it.
const HOST_SHARE: u64 = 192 << 20;
const MEGABYTE: u64 = 1 << 20;
const SECRET: &str = "s3cret-of-the-host";

fn a_megabyte(spec: &mut SandboxSpec, _: &HostSurroundings) {
    spec.limits.output = Some(MEGABYTE);
}

/// All of it passes, and hardly any of it is kept.
fn flood(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let before = own_peak();
        let command = scene.hostile("flood", &[("bytes", flood_bytes().to_string())]);
        let mut running = within("exec", scene.sandbox().exec(command)).await?;
        let mut passed = 0;
        let verdict = loop {
            match within("flood", running.next()).await? {
                CommandEvent::Stdout(bytes) => passed += bytes.len() as u64,
                CommandEvent::Stderr(_) => {}
                CommandEvent::Ended(verdict) => break verdict,
            }
        };
        let grown = own_peak().saturating_sub(before);
        if passed != flood_bytes() || !verdict.success() {
            return Err(format!("{passed} bytes came, then {verdict:?}"));
        }
        if grown > HOST_SHARE {
            Err(format!("the host took {grown} bytes for a flood"))
        } else {
            Ok(AttackOutcome::nothing())
        }
    })
}

/// A host that does not read blocks the command, not the sandbox, and uses no memory for it.
fn flood_that_nobody_reads(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let before = own_peak();
        let mut floods = Vec::new();
        for _ in 0..8 {
            let command = scene.hostile("flood", &[("bytes", flood_bytes().to_string())]);
            floods.push(within("exec", scene.sandbox().exec(command)).await?);
        }
        for _ in 0..20 {
            check_still_works(scene.sandbox()).await?;
        }
        let stats = within("stats", scene.sandbox().stats()).await?;
        if stats.memory > HOST_SHARE {
            return Err(format!(
                "the sandbox took {} bytes for a flood",
                stats.memory
            ));
        }
        drop(floods);
        match own_peak().saturating_sub(before) {
            grown if grown > HOST_SHARE => Err(format!("the host took {grown} bytes")),
            _ => Ok(AttackOutcome::nothing()),
        }
    })
}

fn cut_off(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene
            .run("flood", &[("bytes", (64 * MEGABYTE).to_string())])
            .await;
        match outcome.stdout.len() as u64 {
            length if length > MEGABYTE => Err(format!("{length} bytes came")),
            _ => Ok(outcome),
        }
    })
}

fn the_same_bytes(_: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    let mut expect: Vec<u8> = (0..=255).collect();
    expect.extend_from_slice(b"\xc3\x28\xed\xa0\x80\xf8\x88\x80\x80\x80\xff\xfe\xc0\xaf\xe2\x82");
    expect.extend_from_slice(b"\x1b]52;c;aG9zdGlsZQ==\x07\x1b[2J\x1bP+q544e\x1b\\\x9b6n");
    if outcome.stdout == expect && outcome.stderr == expect {
        Ok(())
    } else {
        Err(format!("other bytes came: {outcome:?}"))
    }
}

fn odd_names(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run("odd-names", &[]).await;
        let sandbox = scene.sandbox();
        let expect: BTreeSet<&[u8]> = BTreeSet::from([
            &b"\xff\xfe"[..],
            b"\x1b]52;c;aG9zdGlsZQ==\x07",
            b"<img src=x onerror=alert(1)>",
            b"line\nbreak",
            b"-rf",
        ]);
        let list = ListRequest {
            path: ".".into(),
            depth: 1,
            ignore: false,
            hidden: false,
            globs: Vec::new(),
            limit: 100,
        };
        let (entries, _) =
            within("list", async { sandbox.list(list).await?.collect().await }).await?;
        let names: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.path.0[..]).collect();
        if !expect.is_subset(&names) {
            return Err(format!("the names came as {names:?}"));
        }
        for entry in entries
            .iter()
            .filter(|entry| expect.contains(&entry.path.0[..]))
        {
            let read = sandbox.read_file(entry.path.as_path(), 0, None);
            let (_, content) = within("read", read).await?;
            if content != b"needle \xff\x1b[31m\n" {
                return Err(format!("the content of {:?} is {content:?}", entry.path));
            }
        }
        let search = SearchRequest {
            path: ".".into(),
            pattern: "needle".into(),
            case_insensitive: false,
            globs: vec!["!hostile".into()],
            ignore: false,
            hidden: false,
            context: 0,
            limit: 100,
        };
        let (found, _) = within("search", async {
            sandbox.search(search).await?.collect().await
        })
        .await?;
        if found.len() == expect.len() {
            Ok(outcome)
        } else {
            Err(format!(
                "{} of {} odd files were found",
                found.len(),
                expect.len()
            ))
        }
    })
}

fn on_a_terminal(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let size = TerminalSize {
            rows: 24,
            columns: 500,
        };
        let command = scene.hostile("type-into-terminal", &[]).terminal(size);
        let outcome = AttackOutcome::from_run(scene.sandbox().run(command).await);
        // On each of three descriptors, and once on `/dev/tty`.
        match outcome.lines("HELD TIOC").len() {
            34 => Ok(outcome),
            count => Err(format!("{count} attempts: {}", outcome.text())),
        }
    })
}

fn frames_are_bytes(_: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    let status = outcome.verdict.as_ref().map(|verdict| verdict.status);
    if status != Some(CommandStatus::Code(7)) {
        return Err(format!(
            "forged frames changed the end of the command: {status:?}"
        ));
    }
    let forged = outcome.text().matches("forged").count();
    // Ten of twelve kinds contain the word, for each of sixteen streams.
    if forged == 160 && outcome.stdout == outcome.stderr {
        Ok(())
    } else {
        Err(format!(
            "{forged} forged frames came as bytes instead of 160"
        ))
    }
}

/// With a second command running, whose stream some of the frames claim.
fn frames_everywhere(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let command = sandbox::ExecCommand::new(["/bin/cat"]).stdin();
        let mut other = within("exec", scene.sandbox().exec(command)).await?;
        let outcome = scene.run("frames-everywhere", &[]).await;
        let mut input = other.take_input().ok_or("no input")?;
        within("write", input.write("still here".into())).await?;
        drop(input);
        let mut heard = Vec::new();
        loop {
            match within("next", other.next()).await? {
                CommandEvent::Stdout(bytes) => heard.extend_from_slice(&bytes),
                CommandEvent::Stderr(_) => {}
                CommandEvent::Ended(_) => break,
            }
        }
        if heard == b"still here" {
            Ok(outcome)
        } else {
            Err(format!("another command printed {heard:?}"))
        }
    })
}

/// The host's own environment stays outside; variables of a command are passed in, and not logged.
fn with_a_secret(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let command = scene.hostile("environment", &[]).env("TOKEN", SECRET);
        let outcome = AttackOutcome::from_run(scene.sandbox().run(command).await);
        let variables = outcome.lines("VARIABLE ");
        let given = [
            "HOME", "LANG", "LOGNAME", "PATH", "REDTEAM", "SHELL", "TMPDIR", "TOKEN", "USER",
        ];
        let names: Vec<&str> = variables
            .iter()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        let stray = names.iter().find(|name| !given.contains(name));
        match (stray, variables.contains(&format!("TOKEN={SECRET}"))) {
            (None, true) => Ok(outcome),
            (stray, _) => Err(format!("the environment has {stray:?} in {names:?}")),
        }
    })
}

fn the_secret_is_not_on_record(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    let log = scene.props.log();
    if log.contains("TOKEN") && !log.contains(SECRET) {
        Ok(())
    } else {
        Err(format!("the record is {log}"))
    }
}
