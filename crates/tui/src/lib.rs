//! The terminal UI: a client of `protocol` and nothing else.
//!
//! Keys and notices go into [`app::TuiApp::update`], which changes the state and returns the effects
//! to perform; [`app::TuiApp::arrange`] lays the state out for a screen size; [`draw::draw`] paints
//! it. All three are pure: only [`terminal`] reads keys, writes to the terminal and reads the
//! clock. The UI requests what it needs from the host program (sessions, files, jobs of a server)
//! with [`UiRequest`] and gets the answers as [`UiNotice`].
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

pub use command::{SLASH_COMMANDS, SlashCommand, SlashCommandInfo, SlashError, nearest};
pub use port::{
    HostPort, ImageAttachment, JobRow, NoticeSender, OpenedSession, SessionOrigin, SessionPreview,
    SessionRow, UiNotice, UiPort, UiRequest, channel,
};
pub use terminal::{TuiError, TuiExit, TuiSettings, run};
pub use text::clean;
pub use theme::ColourScheme;
