//! What stands in front of the page for a while: pickers, viewers, help.
