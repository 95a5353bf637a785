//! The terminal: reads keys, draws frames, keeps time. The only part of this crate with side
//! effects.

mod background;
mod clipboard;
mod decoder;
mod draw_confirmation;
mod external_editor;
mod frame_pacer;
mod guard;
mod keyboard;
mod output;
mod panic_hook;
mod run;
mod screen;
mod signals;
mod wait;
mod waker;

pub use self::run::{TuiError, TuiExit, TuiSettings, run};
pub(crate) use self::waker::LoopWaker;
