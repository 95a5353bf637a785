//! Which part of the page is in view.

/// Where the page is looked at.
#[derive(Debug, Default)]
pub(super) struct View {
    /// Lines to move by at the next layout: up is negative.
    pub(super) wanted: i32,
}
