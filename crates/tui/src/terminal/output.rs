//! Collects a frame, so that it reaches the terminal in one write.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use super::guard;

/// All clones collect into the same frame.
#[derive(Debug, Clone, Default)]
pub(super) struct FrameOutput(Rc<RefCell<Vec<u8>>>);

impl FrameOutput {
    /// Adds a control sequence.
    pub(super) fn add(&self, sequence: &str) {
        self.0.borrow_mut().extend_from_slice(sequence.as_bytes());
    }

    /// Writes the collected bytes to the terminal.
    pub(super) fn send(&self) -> io::Result<()> {
        let mut collected = self.0.borrow_mut();
        let result = guard::write(&collected);
        collected.clear();
        result
    }
}

impl Write for FrameOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// No-op: ratatui flushes several times per frame.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
