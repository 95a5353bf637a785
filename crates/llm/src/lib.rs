//! Models: one port, [`Model`], and one file for each kind of provider behind it.
//!
//! A client turns a [`Request`] into the provider's wire format and a stream of events back into
//! one [`Reply`], telling of pieces as they come. It prints nothing, reads no environment and no
//! settings, and knows nothing of tools or sandboxes. Entry points: [`Anthropic`], [`OpenAi`],
//! [`Scripted`], each wrapped in [`Patient`] by whoever wants failed requests made again.

mod error;
mod model;
pub mod script;

pub use error::{ErrorKind, ModelError};
pub use model::{Model, Piece, Reply, Request};
