//! The system prompt: short and accurate.

use agent::{Approvals, Setup};
use protocol::Outcome;
use sandbox::{Backend, Network};
use testkit::ModelServer;

use crate::harness::{World, assert_says, within};
use crate::models::{Wire, done};

/// The system prompt of a session's first request, and the size of prompt and tools.
async fn told(world: &World, change: impl FnOnce(&mut Setup)) -> (String, usize) {
    let server = ModelServer::start(done());
    let model = Wire::Anthropic.client(&server);
    let mut agent = world.start_with(model, change).await;
    assert_eq!(agent.prompt("Hi.").await, Outcome::Done);
    agent.end().await;
    let body = server.finish()[0].json();
    let blocks = body["system"].as_array().unwrap();
    let texts = blocks.iter().map(|block| block["text"].as_str().unwrap());
    let system = texts.collect::<Vec<_>>().join("\n");
    let size = body["system"].to_string().len() + body["tools"].to_string().len();
    (system, size)
}

#[test]
fn system_prompt_and_tools_stay_under_eight_kilobytes() {
    within(async {
        let (_, size) = told(&World::new().await, |_| {}).await;
        assert!(size < 8 * 1024, "{size} bytes");
    });
}

#[test]
fn the_prompt_tells_the_truth_about_the_walls() {
    within(async {
        let (system, _) = told(&World::new().await, |_| {}).await;
        assert_says(&system, "native walls");
        assert_says(&system, "No network");
        assert_says(&system, "memory 2G");

        let allowed = |setup: &mut Setup| {
            let hosts = ["example.org", "crates.io:443"];
            setup.sandbox.network = Network::Allow(egress::Allow::parse(hosts).unwrap());
        };
        let (system, _) = told(&World::new().await, allowed).await;
        assert!(!system.contains("No network"), "{system}");
        assert_says(&system, "example.org");
        assert_says(&system, "crates.io:443");

        let asking = |setup: &mut Setup| setup.approvals = Approvals::new(&[], true).unwrap();
        let (system, _) = told(&World::new().await, asking).await;
        assert_says(&system, "only the sandbox's own loopback is open");
        assert_says(&system, "asks the user, who may decline");
        let asking = |setup: &mut Setup| {
            setup.approvals = Approvals::new(&[], true).unwrap();
            let hosts = egress::Allow::parse(["example.org"]).unwrap();
            setup.sandbox.network = Network::Allow(hosts);
        };
        let (system, _) = told(&World::new().await, asking).await;
        assert_says(&system, "Network: example.org through");
        assert_says(&system, "asks the user, who may decline");

        let none = |setup: &mut Setup| setup.sandbox.backend = Backend::None;
        let (system, _) = told(&World::new().await, none).await;
        assert_says(&system, "NO sandbox");
        assert!(!system.contains("walls"), "{system}");
        assert!(!system.contains("No network"), "{system}");
    });
}

#[test]
fn a_projects_advice_is_part_of_the_prompt() {
    within(async {
        let world = World::new().await;
        world.write("AGENTS.md", "Indent with seven spaces.\n");
        let (system, _) = told(&world, |_| {}).await;
        assert_says(&system, "Indent with seven spaces.");

        let world = World::new().await;
        world.write("AGENTS.md", &"word ".repeat(1 << 20));
        let (system, _) = told(&world, |_| {}).await;
        assert!(system.len() < 64 << 10, "{}", system.len());
    });
}

/// Whatever AGENTS.md is, nothing of the host is read, and nothing hangs.
#[test]
fn advice_that_is_a_trap_shows_nothing() {
    within(async {
        let world = World::new().await;
        let secret = world.outside("secret");
        std::fs::write(&secret, "a-secret-of-the-host").unwrap();
        let link = world.path("AGENTS.md");
        for target in [secret.to_str().unwrap(), "../secret", "/etc/shadow"] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let (system, _) = told(&world, |_| {}).await;
            assert!(!system.contains("a-secret-of-the-host"), "{target}");
            assert!(!system.contains("AGENTS.md"), "{target}: {system}");
            std::fs::remove_file(&link).unwrap();
        }

        // Inside, this is the sandbox's own user list, which has none of the host's users.
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let (system, _) = told(&world, |_| {}).await;
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let is_common = |line: &&str| line.starts_with("root:") || line.starts_with("nobody:");
        for line in users.lines().filter(|line| !is_common(line)) {
            assert!(!system.contains(line), "{line}");
        }
        std::fs::remove_file(&link).unwrap();

        nix::unistd::mkfifo(&link, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (system, _) = told(&world, |_| {}).await;
        assert!(!system.contains("AGENTS.md"));
        std::fs::remove_file(&link).unwrap();

        std::fs::create_dir(&link).unwrap();
        let (system, _) = told(&world, |_| {}).await;
        assert!(!system.contains("AGENTS.md"));
    });
}
