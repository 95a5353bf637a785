//! A running machine that is assigned to a sandbox: its requests and its end.

use crate::backends::machine::control::MachineControl;
use crate::backends::{BoxFuture, native};

use super::qemu::QemuSockets;

/// Dropping it ends the machine without waiting.
#[derive(Debug)]
pub(super) struct MicrovmSandbox {
    walls: native::NativeWalls,
    control: MachineControl,
    _keep: QemuSockets,
}

impl MicrovmSandbox {
    pub(super) fn new(
        walls: native::NativeWalls,
        control: MachineControl,
        keep: QemuSockets,
    ) -> Self {
        Self {
            walls,
            control,
            _keep: keep,
        }
    }
}

impl crate::backends::RunningWalls for MicrovmSandbox {
    /// First ends the guest inside, so that written data is flushed; then the machine, even without
    /// an answer.
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let kills = self.control.end().await;
            crate::backends::RunningWalls::take_down(&mut self.walls).await;
            kills
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async { self.control.kills().await })
    }
}
