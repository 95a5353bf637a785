//! The terminal UI: a client of `protocol` and nothing else.
//!
//! Keys and notices go into [`app::App::update`], which changes the state and says what is to be
//! done; [`app::App::arrange`] lays the state out for a size; [`draw::draw`] paints it and changes
//! nothing. All three are pure: [`terminal`] is the one place that reads keys, writes to the
//! terminal and knows what time it is. What the UI needs from the program around it (sessions, files,
//! jobs of a server) it asks for through [`Request`] and hears as [`Notice`].
//!
//! Never opens a file of the workspace, never talks to a model. Entry points: [`channel`], [`run`].

mod amount;
mod app;
mod command;
mod draw;
mod editor;
mod overlay;
mod port;
mod question;
#[cfg(test)]
mod samples;
mod status;
mod terminal;
mod text;
mod theme;
mod transcript;

pub use command::{COMMANDS, Slash, SlashCommand, SlashError, nearest};
pub use port::{
    Attachment, Host, JobRow, Notice, Notices, Opened, Origin, Port, Preview, Request, SessionRow,
    channel,
};
pub use terminal::{Ended, Settings, TuiError, run};
pub use text::clean;
pub use theme::Look;
