//! replays
