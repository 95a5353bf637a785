//! A position in a reply at which the server stops until the test continues it.

use std::sync::Arc;

use crate::counter::Counter;

/// Initially closed; stays open once opened. Clones share the same gate.
#[derive(Debug, Clone, Default)]
pub struct StreamGate {
    shared: Arc<GateCounters>,
}

#[derive(Debug, Default)]
struct GateCounters {
    reached: Counter,
    opened: Counter,
}

impl StreamGate {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn open(&self) {
        self.shared.opened.add();
    }

    /// Waits until a reply has reached the gate and everything before it was written to the
    /// connection.
    pub async fn reached(&self) {
        self.shared.reached.reaches(1).await;
    }

    /// Blocking version of [`StreamGate::reached`], for a test without a runtime.
    pub fn wait_reached(&self) {
        self.shared.reached.wait(1, "arrival at the gate");
    }

    pub(crate) async fn pass(&self) {
        self.shared.reached.add();
        self.shared.opened.reaches(1).await;
    }
}
