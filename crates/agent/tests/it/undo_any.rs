//! undo_any
