//! Changes that the host makes to files of the workspace are visible to commands and the guest at
//! once, on every kernel and despite caching.

use std::fs;

use sandbox::ExecCommand;
use sandbox::request::{RefusalKind, WriteMode};

use crate::world::{TestSandbox, assert_refused, within};

const ROUNDS: usize = 200;

/// One change by the host; returns the resulting content.
fn change(world: &TestSandbox, round: usize) -> Option<String> {
    let file = world.path("folder/file");
    // Always the same length, so that only the content differs.
    let content = format!("{round:06}");
    match round % 5 {
        0 | 1 => fs::write(&file, &content).unwrap(),
        2 => {
            let draft = world.path("draft");
            fs::write(&draft, &content).unwrap();
            fs::rename(&draft, &file).unwrap();
        }
        3 => {
            fs::remove_file(&file).unwrap();
            return None;
        }
        _ => {
            // Replaces the parent folder.
            fs::rename(world.path("folder"), world.path(format!("old-{round}"))).unwrap();
            fs::create_dir(world.path("folder")).unwrap();
            fs::write(&file, &content).unwrap();
        }
    }
    Some(content)
}

#[test]
fn a_command_and_a_reader_see_what_the_host_has_done_before() {
    within(async {
        let world = TestSandbox::new().await;
        fs::create_dir(world.path("folder")).unwrap();
        for round in 0..ROUNDS {
            let expect = change(&world, round);
            let command = || ExecCommand::new(["cat", "folder/file"]);
            let look = async || world.run(command()).await.unwrap();
            let read = async || world.read_file("folder/file", 0, None).await;
            // Alternates the order, so that neither depends on the other.
            let (seen, answer) = match round % 2 {
                0 => {
                    let seen = look().await;
                    (seen, read().await)
                }
                _ => {
                    let answer = read().await;
                    (look().await, answer)
                }
            };
            let printed = String::from_utf8(seen.stdout).unwrap();
            match expect {
                Some(content) => {
                    assert_eq!(printed, content, "round {round}");
                    assert_eq!(answer.unwrap().1, content.as_bytes(), "round {round}");
                }
                None => {
                    assert!(!seen.verdict.success(), "round {round}: {printed}");
                    assert_refused(answer, RefusalKind::NotFound, "folder/file");
                }
            }
        }
        world.end().await;
    });
}

#[test]
fn what_the_guest_writes_replaces_what_the_host_wrote_before() {
    within(async {
        let world = TestSandbox::new().await;
        for round in 0..ROUNDS / 4 {
            let (host, guest) = (format!("host {round}\n"), format!("guest {round}\n"));
            fs::write(world.path("file"), &host).unwrap();
            let appended = world.write_file("file", guest.clone(), WriteMode::Append);
            appended.await.unwrap();
            let both = fs::read_to_string(world.path("file")).unwrap();
            assert_eq!(both, format!("{host}{guest}"));
            fs::remove_file(world.path("file")).unwrap();
            let again = world.write_file("file", guest.clone(), WriteMode::Replace);
            again.await.unwrap();
            assert_eq!(fs::read_to_string(world.path("file")).unwrap(), guest);
        }
        world.end().await;
    });
}
