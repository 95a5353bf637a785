//! A running machine that is assigned to a sandbox: its requests and its end.

use crate::backends::machine::control::Control;
use crate::backends::{Later, native};

use super::qemu::Keep;

/// Dropping it ends the machine without waiting.
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
    /// First ends the guest inside, so that written data is flushed; then the machine, even without
    /// an answer.
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
