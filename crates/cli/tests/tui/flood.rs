//! Far more output than can be read.

use std::fs;

use crate::processes::peak_memory;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

/// For a debug build, which is larger; it uses about 42 MiB.
const MAX_MEMORY_MIB: u64 = 120;

#[test]
fn a_hundred_megabytes_hold_nobody_up_and_fill_nothing() {
    // At least 100 MB, and no end before the test has typed something.
    let script = "n=0; until [ -e enough ] && [ $n -ge 10 ]; do n=$((n+1)); \
                  head -c 10000000 /dev/zero | tr '\\0' x | fold -w 100; echo; done; echo all of it";
    let scene = Scene::new([bash(script), say("That was much.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &["--max-output", "100G"]);
    screen.wait_for(": asks");
    screen.say("go");
    screen.wait_for("xxxxxxxxxx");
    screen.write("written meanwhile");
    screen.wait_for("> written meanwhile");
    screen.wait_for("esc interrupts");
    fs::write(scene.file("enough"), "").unwrap();
    screen.wait_for("That was much.");
    screen.wait_for("> written meanwhile");
    screen.press(&["C-u"]);
    screen.wait_gone("written meanwhile");
    screen.assert_intact();
    // The model gets a short result with the end.
    let [result] = &scene.results()[..] else {
        panic!("{:?}", scene.results().len());
    };
    assert!(result.len() < 100_000, "{}", result.len());
    assert!(result.contains("all of it"), "{result}");
    // The user can open it too.
    screen.press(&["C-o"]);
    screen.wait_for("all of it");
    let memory = peak_memory(screen.pid());
    assert!(memory < MAX_MEMORY_MIB, "{memory} MiB");
}
