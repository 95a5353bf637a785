//! A session of two thousand entries.

use jiff::Timestamp;
use protocol::{Block, EventKind, Outcome, Spending, Stop, Usage};
use store::SessionStore;

use crate::scene::{Scene, say};
use crate::screen::TmuxScreen;

const TURN_COUNT: u32 = 1000;

/// A session whose first turn is real, followed by many generated ones.
fn lengthen(scene: &Scene) -> String {
    scene.done(&["run", "the very first words"]);
    let session = scene.session();
    let folder = scene.place.home().join(".local/share/hotcell");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = SessionStore::open(&folder).await.unwrap();
        let name = store.find(&session).await.unwrap();
        let (mut journal, _) = store.claim(&name).await.unwrap();
        for turn in 2..=TURN_COUNT {
            let words = |text: String| vec![Block::text(text)];
            let events = [
                EventKind::TurnStarted {
                    turn,
                    prompt: words(format!("question {turn}")),
                },
                EventKind::Replied {
                    turn,
                    content: words(format!("answer **{turn}** of many\n\n- one\n- two")),
                    stop: Stop::EndTurn,
                    broken_calls: Default::default(),
                    usage: Usage::default(),
                    cost: None,
                    model: "claude".into(),
                },
                EventKind::TurnEnded {
                    turn,
                    outcome: Outcome::Done,
                    spending: Spending::default(),
                },
            ];
            for event in events {
                journal.append(Timestamp::now(), event).await.unwrap();
            }
        }
    });
    session
}

#[test]
fn it_opens_at_its_end_and_goes_to_its_beginning_and_back() {
    let scene = Scene::new([say("the very first answer"), say("the newest answer")]);
    let session = lengthen(&scene);
    let screen = TmuxScreen::start(&scene, 80, 24, &["--load", &session]);
    let last = format!("answer {TURN_COUNT} of many");
    screen.wait_for(&last);
    screen.wait_for(": asks");
    screen.press(&["C-Home"]);
    screen.wait_for("the very first answer");
    screen.press(&["C-End"]);
    screen.wait_for(&last);
    // A key that is held down.
    screen.press(&["PageUp"; 700]);
    screen.wait_for("the very first answer");
    screen.press(&["PageDown"; 700]);
    screen.wait_for(&last);
    screen.assert_intact();
    screen.say("/search the very first words");
    screen.wait_for("the very first answer");
    screen.escape();
    screen.say("and now");
    screen.wait_for("the newest answer");
    let request = scene.server.requests().pop().unwrap().json();
    let messages = request["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2 * TURN_COUNT as usize + 1);
}
