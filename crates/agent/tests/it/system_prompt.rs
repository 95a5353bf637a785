//! The system prompt: short and accurate.

use agent::{Approvals, SessionSetup};
use protocol::Outcome;
use sandbox::{Backend, Network};
use testkit::ModelServer;

use crate::harness::{SessionFixture, assert_contains, run_with_timeout};
use crate::models::{Wire, done};

/// The system prompt of a session's first request, and the size of prompt and tools.
async fn first_system_prompt(
    world: &SessionFixture,
    change: impl FnOnce(&mut SessionSetup),
) -> (String, usize) {
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
    run_with_timeout(async {
        let (_, size) = first_system_prompt(&SessionFixture::new().await, |_| {}).await;
        assert!(size < 8 * 1024, "{size} bytes");
    });
}

#[test]
fn the_prompt_describes_the_actual_walls() {
    run_with_timeout(async {
        let (system, _) = first_system_prompt(&SessionFixture::new().await, |_| {}).await;
        assert_contains(&system, "native walls");
        assert_contains(&system, "No network");
        assert_contains(&system, "memory 2G");

        let allowed = |setup: &mut SessionSetup| {
            let hosts = ["example.org", "crates.io:443"];
            setup.sandbox.network = Network::Allow(egress::AllowList::parse(hosts).unwrap());
        };
        let (system, _) = first_system_prompt(&SessionFixture::new().await, allowed).await;
        assert!(!system.contains("No network"), "{system}");
        assert_contains(&system, "example.org");
        assert_contains(&system, "crates.io:443");

        let asking =
            |setup: &mut SessionSetup| setup.approvals = Approvals::new(&[], true).unwrap();
        let (system, _) = first_system_prompt(&SessionFixture::new().await, asking).await;
        assert_contains(&system, "only the sandbox's own loopback is open");
        assert_contains(&system, "asks the user, who may decline");
        let asking = |setup: &mut SessionSetup| {
            setup.approvals = Approvals::new(&[], true).unwrap();
            let hosts = egress::AllowList::parse(["example.org"]).unwrap();
            setup.sandbox.network = Network::Allow(hosts);
        };
        let (system, _) = first_system_prompt(&SessionFixture::new().await, asking).await;
        assert_contains(&system, "Network: example.org through");
        assert_contains(&system, "asks the user, who may decline");

        let none = |setup: &mut SessionSetup| setup.sandbox.backend = Backend::None;
        let (system, _) = first_system_prompt(&SessionFixture::new().await, none).await;
        assert_contains(&system, "NO sandbox");
        assert!(!system.contains("walls"), "{system}");
        assert!(!system.contains("No network"), "{system}");
    });
}

#[test]
fn project_instructions_are_part_of_the_prompt() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("AGENTS.md", "Indent with seven spaces.\n");
        let (system, _) = first_system_prompt(&world, |_| {}).await;
        assert_contains(&system, "Indent with seven spaces.");

        let world = SessionFixture::new().await;
        world.write("AGENTS.md", &"word ".repeat(1 << 20));
        let (system, _) = first_system_prompt(&world, |_| {}).await;
        assert!(system.len() < 64 << 10, "{}", system.len());
    });
}

/// Whatever AGENTS.md is, nothing of the host is read, and nothing hangs.
#[test]
fn project_instructions_cannot_reveal_other_files() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let secret = world.outside("secret");
        std::fs::write(&secret, "a-secret-of-the-host").unwrap();
        let link = world.path("AGENTS.md");
        for target in [secret.to_str().unwrap(), "../secret", "/etc/shadow"] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let (system, _) = first_system_prompt(&world, |_| {}).await;
            assert!(!system.contains("a-secret-of-the-host"), "{target}");
            assert!(!system.contains("AGENTS.md"), "{target}: {system}");
            std::fs::remove_file(&link).unwrap();
        }

        // Inside, this is the sandbox's own user list, which has none of the host's users.
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        let (system, _) = first_system_prompt(&world, |_| {}).await;
        let users = std::fs::read_to_string("/etc/passwd").unwrap();
        let is_common = |line: &&str| line.starts_with("root:") || line.starts_with("nobody:");
        for line in users.lines().filter(|line| !is_common(line)) {
            assert!(!system.contains(line), "{line}");
        }
        std::fs::remove_file(&link).unwrap();

        nix::unistd::mkfifo(&link, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (system, _) = first_system_prompt(&world, |_| {}).await;
        assert!(!system.contains("AGENTS.md"));
        std::fs::remove_file(&link).unwrap();

        std::fs::create_dir(&link).unwrap();
        let (system, _) = first_system_prompt(&world, |_| {}).await;
        assert!(!system.contains("AGENTS.md"));
    });
}
