//! Line 23, as far as it concerns the walls: configuration that a program inside places in the
//! workspace is only data for the host, whatever the host does with the sandbox.

use sandbox::request::{ListRequest, SearchRequest, WriteMode};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture};
use crate::scene::{AttackFixture, within};

pub(crate) const ATTACKS: &[Attack] = &[Attack::new(23, "plant-configuration")
    .drive(used_by_the_host)
    .outside(the_trap_is_unsprung)];

fn used_by_the_host(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let outcome = scene.run("plant-configuration", &[]).await;
        let sandbox = scene.sandbox();
        let list = ListRequest {
            path: ".".into(),
            depth: 9,
            ignore: true,
            hidden: false,
            globs: Vec::new(),
            limit: 1000,
        };
        let listed = within("list", async { sandbox.list(list).await?.collect().await }).await?;
        let search = SearchRequest {
            path: ".".into(),
            pattern: "touch".into(),
            case_insensitive: false,
            globs: Vec::new(),
            ignore: true,
            hidden: false,
            context: 1,
            limit: 1000,
        };
        within("search", async {
            sandbox.search(search).await?.collect().await
        })
        .await?;
        let option = listed
            .0
            .iter()
            .any(|entry| entry.path.0 == b"--upload-pack=touch");
        if !option {
            return Err("the listing has lost a file whose name looks like an option".into());
        }
        for path in [
            ".git/config",
            ".env",
            "--upload-pack=touch",
            "nested/.git/hooks/pre-commit",
        ] {
            within("read", sandbox.read_file(path, 0, None)).await?;
            within(
                "write",
                sandbox.write_file(path, &b"new"[..], WriteMode::Replace),
            )
            .await?;
            within("stat", sandbox.stat(path)).await?;
        }
        within("rename", sandbox.rename(".git/config", ".git/old")).await?;
        within("remove", sandbox.remove(".git", true)).await?;
        Ok(outcome)
    })
}

fn the_trap_is_unsprung(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    if scene.props.path("trap").exists() {
        Err("something from the workspace ran on the host".into())
    } else {
        Ok(())
    }
}
