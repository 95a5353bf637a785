//! Collects a drawing, so that it reaches the terminal in one piece.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use super::guard;

/// All clones collect into the same drawing.
#[derive(Debug, Clone, Default)]
pub(super) struct Output(Rc<RefCell<Vec<u8>>>);

impl Output {
    /// Adds what the terminal obeys.
    pub(super) fn add(&self, sequence: &str) {
        self.0.borrow_mut().extend_from_slice(sequence.as_bytes());
    }

    /// Writes all of it.
    pub(super) fn send(&self) -> io::Result<()> {
        let mut collected = self.0.borrow_mut();
        let result = guard::write(&collected);
        collected.clear();
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Those who draw ask for this many times in one drawing.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
