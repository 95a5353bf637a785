//! The terminal itself: keys in, pictures out, time. The only place in this crate with effects.

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
