//! Sockets in the workspace. If commands run on the host's kernel, they can connect to a host
//! program that listens there, and sandboxes on one folder to each other: the documentation says
//! so, and the command line warns. A separate kernel isolates them.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use sandbox::Sandbox;

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::scene::{AttackFixture, finish, within};
use crate::under_test::nature;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(100, "workspace-socket")
        .expect(ExpectedEnd::Driven)
        .drive(beside_a_host_program),
    Attack::new(101, "offer-descriptor")
        .expect(ExpectedEnd::Driven)
        .drive(with_a_sibling),
];

/// Compares what happened with the documented behaviour of the backend.
fn compare(what: &str, happened: bool) -> CheckResult {
    match happened == nature::shares_workspace_sockets() {
        true => Ok(()),
        false if happened => Err(format!("{what} went through")),
        false => Err(format!("{what} was blocked, and is said not to be")),
    }
}

fn beside_a_host_program(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let path = scene.props.workspace.join("host-socket");
        let cannot = |error: io::Error| format!("the host cannot listen: {error}");
        let listener = UnixListener::bind(&path).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        // Open to all, so that only the walls prevent access.
        fs::set_permissions(&path, Permissions::from_mode(0o777)).map_err(cannot)?;
        let outcome = scene.run(scene.attack.name, &[]).await;
        let was_called = listener.accept().is_ok();
        compare("a call to a host program", was_called)?;
        let said_so = !outcome.lines("BREACH ").is_empty();
        if said_so == was_called {
            Ok(AttackOutcome::nothing())
        } else {
            Err(format!("it says otherwise: {:?}", outcome.text()))
        }
    })
}

fn with_a_sibling(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let spec = scene.backend.spec(&scene.props.workspace);
        let sibling = within("start a sibling", Sandbox::start(spec)).await?;
        let found = pass(scene, &sibling).await;
        sibling.end().await;
        found.map(|()| AttackOutcome::nothing())
    })
}

async fn pass(scene: &AttackFixture, sibling: &Sandbox) -> CheckResult {
    let (offering, offered) = scene.start(scene.attack.name, &[], "\n").await?;
    let taken = sibling.run(scene.hostile("take-descriptor", &[])).await;
    let taken = AttackOutcome::from_run(taken);
    let went_through = !taken.lines("BREACH ").is_empty();
    compare("a descriptor of a sibling", went_through)?;
    if went_through {
        // The data that the sibling wrote arrives here.
        let offered = finish(offering, offered).await?;
        if !offered.text().contains("FROM-THE-SIBLING") {
            return Err(format!("nothing came through it: {:?}", offered.text()));
        }
    }
    Ok(())
}
