//! What the host does to files of the workspace before it asks is what a command and the guest see:
//! at once, whatever kernel looks at them and however often it has looked before.

use std::fs;

use sandbox::Command;
use sandbox::request::{RefusalKind, WriteMode};

use crate::world::{World, assert_refused, within};

const ROUNDS: usize = 200;

/// One thing that the host does to a file; what is in it then.
fn change(world: &World, round: usize) -> Option<String> {
    let file = world.path("folder/file");
    // The same length every time: nothing but the content tells one from the next.
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
            // Everything above it is another.
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
        let world = World::new().await;
        fs::create_dir(world.path("folder")).unwrap();
        for round in 0..ROUNDS {
            let expect = change(&world, round);
            let command = || Command::new(["cat", "folder/file"]);
            let look = async || world.run(command()).await.unwrap();
            let read = async || world.read_file("folder/file", 0, None).await;
            // Whichever is first must not have to be second.
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
        let world = World::new().await;
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
