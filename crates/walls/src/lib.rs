//! walls
