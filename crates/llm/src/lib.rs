//! Model clients: one port, [`Model`], and one module for each kind of provider.
//!
//! A client converts a [`Request`] to the provider's wire format and a stream of events to a
//! [`Reply`], emitting pieces as they arrive. It prints nothing, reads no environment and no
//! settings, and does not know tools or sandboxes. Entry points: [`Anthropic`], [`OpenAi`],
//! [`Scripted`], each wrapped in [`Patient`] to retry failed requests.

mod anthropic;
mod calls;
mod error;
mod estimate;
mod events;
mod failure;
mod http;
mod model;
mod openai;
mod prices;
mod retry;
pub mod script;
mod scripted;
pub mod sse;
mod written;

pub use anthropic::{Anthropic, AnthropicConfig};
pub use error::{ErrorKind, ModelError};
pub use estimate::{Calibration, estimate, estimate_blocks, estimate_message, estimate_text};
pub use model::{Model, Piece, Reply, Request};
pub use openai::{OpenAi, OpenAiConfig};
pub use prices::{Price, Prices, PricesError, price};
pub use retry::{Patience, Patient};
pub use scripted::Scripted;
