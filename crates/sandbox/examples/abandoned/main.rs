//! The owner of a sandbox that may be killed at any moment, for `tests/it/abandoned.rs`.
//!
//! Starts a sandbox of the backend under test on the current folder, with commands that never end.
//! Prints `up`, and ends everything when its standard input ends. The test kills it before that and
//! checks what is left.

#![allow(clippy::print_stdout, reason = "it says when it is up")]
#![allow(
    clippy::unwrap_used,
    reason = "a test of this crate looks at how it ends"
)]

#[path = "../../tests/under_test/root.rs"]
mod under_test;

use std::io::Read;

use sandbox::{CommandEvent, ExecCommand, Sandbox};

#[tokio::main]
async fn main() {
    let workspace = std::env::current_dir().unwrap();
    let sandbox = Sandbox::start(under_test::spec(workspace)).await.unwrap();
    // One process outside its session, one that ignores signals, and one that prints.
    let script = "setsid sleep 1000 & (trap '' TERM HUP INT; sleep 1000) & echo up; \
                  while :; do echo more >> growing; sleep 0.05; done";
    let mut running = sandbox.exec(ExecCommand::script(script)).await.unwrap();
    while !matches!(running.next().await.unwrap(), CommandEvent::Stdout(_)) {}
    println!("up");
    let wait = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
    drop(running);
    sandbox.end().await;
}
