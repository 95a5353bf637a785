//! A machine that is a sandbox: how it is asked, and how it ends.

use crate::backends::machine::control::Control;
use crate::backends::{Later, native};

use super::qemu::Keep;

/// Dropping it ends the machine, unwatched.
#[derive(Debug)]
pub(super) struct Standing {
    walls: native::Standing,
    control: Control,
    _keep: Keep,
}

impl Standing {
    pub(super) fn new(walls: native::Standing, control: Control, keep: Keep) -> Self {
        Self {
            walls,
            control,
            _keep: keep,
        }
    }
}

impl crate::backends::Standing for Standing {
    /// First inside, so that what commands wrote is written; then the machine, answer or not.
    fn take_down(&mut self) -> Later<'_, u64> {
        Box::pin(async {
            let kills = self.control.end().await;
            crate::backends::Standing::take_down(&mut self.walls).await;
            kills
        })
    }

    fn memory_kills(&mut self) -> Later<'_, u64> {
        Box::pin(async { self.control.kills().await })
    }
}
