//! The server against its own description: schemathesis generates thousands of valid and invalid requests
//! from `/openapi.json`, and checks the responses against it.
//!
//! `scripts/setup` installs schemathesis; without it the test fails.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use llm::script::ScriptedReply;
use tempfile::TempDir;
use testkit::{ModelServer, ModelServerSettings, Replies};

/// Requests of one kind for each endpoint; about half a minute in total.
const EXAMPLES_PER_ENDPOINT: &str = "20";

struct ContractServer {
    child: Child,
    url: String,
    folder: TempDir,
}

impl ContractServer {
    fn start(model: &ModelServer, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = hotcell(folder.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--rate", "1000000", "--linger", "1s", "--base-url"])
            .arg(model.base_url())
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (_, address) = line.trim().rsplit_once("http://").unwrap();
        Self {
            url: format!("http://{address}"),
            child,
            folder,
        }
    }
}

impl Drop for ContractServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hotcell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcell"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", folder)
        .env("HOTCELL_DATA", folder.join("data"))
        .env("HOTCELL_LOG", "error")
        .env("ANTHROPIC_API_KEY", "key")
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

fn schemathesis() -> PathBuf {
    let program =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/bin/schemathesis");
    assert!(
        program.exists(),
        "there is no `{}`: `scripts/setup` installs it",
        program.display()
    );
    program
}

fn check(server: &ContractServer, headers: &[&str]) {
    let settings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract/schemathesis.toml");
    let mut command = Command::new(schemathesis());
    command
        .arg("--config-file")
        .arg(settings)
        .args([
            "run",
            "--checks",
            "all",
            "--max-examples",
            EXAMPLES_PER_ENDPOINT,
            "--no-color",
        ])
        .arg(format!("{}/openapi.json", server.url))
        .current_dir(server.folder.path())
        .stdin(Stdio::null());
    for header in headers {
        command.args(["--header", header]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // Every endpoint was really exercised.
    let cases = said
        .lines()
        .find_map(|line| line.trim().split_once(" generated, "));
    let (made, passed) = cases.expect("schemathesis says how many requests it made");
    assert_eq!(format!("{made} passed"), passed, "{said}");
    assert!(made.parse::<u32>().unwrap() > 1000, "{said}");
}

#[test]
fn the_server_does_what_its_document_says() {
    let replies = Replies::decide(|_| ScriptedReply::text("There you are."));
    let model = ModelServer::start_with(replies, ModelServerSettings::fast());
    check(&ContractServer::start(&model, &[]), &[]);
}

#[test]
fn and_so_it_does_when_keys_are_needed() {
    let replies = Replies::decide(|_| ScriptedReply::text("There you are."));
    let model = ModelServer::start_with(replies, ModelServerSettings::fast());
    let server = ContractServer::start(&model, &["--require-keys"]);
    let made = hotcell(server.folder.path())
        .args(["keys", "create", "--user", "ada"])
        .output()
        .unwrap();
    let key = String::from_utf8(made.stdout).unwrap();
    check(&server, &[&format!("X-API-Key: {}", key.trim())]);
}
