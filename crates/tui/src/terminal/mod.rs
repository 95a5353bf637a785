//! The terminal itself: keys in, pictures out, time. The only place in this crate with effects.

mod guard;
mod keys;
mod run;
mod waker;

pub use self::run::{Settings, TuiError, run};
pub(crate) use self::waker::Waker;
