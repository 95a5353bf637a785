//! A screen that is ready for input.

use crate::scene::Scene;
use crate::screen::TmuxScreen;

impl TmuxScreen {
    /// `hotcell` with these arguments, once its sandbox has started.
    #[track_caller]
    pub(crate) fn ready(scene: &Scene, width: u16, height: u16, arguments: &[&str]) -> Self {
        let screen = Self::start(scene, width, height, arguments);
        // The network part of the status line, which begins with hosts if some are open.
        screen.wait_for("asks · ");
        screen
    }
}
