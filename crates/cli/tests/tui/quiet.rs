//! An idle program does nothing.

use std::thread;
use std::time::Duration;

use crate::processes::{Work, work};
use crate::scene::{Scene, say};
use crate::screen::Screen;

/// Long enough for anything that runs every second or more often.
const WHILE: Duration = Duration::from_secs(3);
/// A thread pool may still stop one of its threads; a timer that fires each second exceeds it.
const RESTS: u64 = 2;

#[test]
fn a_conversation_at_rest_takes_no_time() {
    let scene = Scene::new([say("Hello.")]);
    let screen = Screen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("hi");
    screen.wait_for("Hello.");
    let pid = screen.pid();
    let did = || {
        let before = work(pid);
        // This time is what is measured.
        thread::sleep(WHILE);
        let after = work(pid);
        Work {
            ticks: after.ticks - before.ticks,
            rests: after.rests.saturating_sub(before.rests),
        }
    };
    // The connection to the model and spare threads are kept for a while.
    let found: Vec<Work> = (0..10).map(|_| did()).collect();
    let is_quiet = |work: &Work| work.ticks == 0 && work.rests <= RESTS;
    assert!(found[5..].iter().all(is_quiet), "{found:?}");
}
