//! An idle program does nothing.

use std::thread;
use std::time::Duration;

use crate::processes::{ThreadActivity, work};
use crate::scene::{Scene, say};
use crate::screen::TmuxScreen;

/// Long enough for anything that runs every second or more often.
const MEASURE_TIME: Duration = Duration::from_secs(3);
/// A thread pool may still stop one of its threads; a timer that fires each second exceeds it.
const MAX_WAKEUPS: u64 = 2;

#[test]
fn a_conversation_at_rest_takes_no_time() {
    let scene = Scene::new([say("Hello.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("hi");
    screen.wait_for("Hello.");
    let pid = screen.pid();
    let did = || {
        let before = work(pid);
        // This time is what is measured.
        thread::sleep(MEASURE_TIME);
        let after = work(pid);
        ThreadActivity {
            ticks: after.ticks - before.ticks,
            rests: after.rests.saturating_sub(before.rests),
        }
    };
    // The connection to the model and spare threads are kept for a while.
    let found: Vec<ThreadActivity> = (0..10).map(|_| did()).collect();
    let is_quiet = |work: &ThreadActivity| work.ticks == 0 && work.rests <= MAX_WAKEUPS;
    assert!(found[5..].iter().all(is_quiet), "{found:?}");
}
