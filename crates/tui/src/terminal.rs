//! The terminal: reads keys, draws frames, keeps time. The only part of this crate with side
//! effects.

mod background;
mod clipboard;
mod decoder;
mod guard;
mod keyboard;
mod output;
mod outside;
mod pace;
mod panics;
mod run;
mod screen;
mod sight;
mod signals;
mod wait;
mod waker;

pub use self::run::{Ended, Settings, TuiError, run};
pub(crate) use self::waker::Waker;
