//! Model clients: one port, [`Model`], and one module for each kind of provider.
//!
//! A client converts a [`ModelRequest`] to the provider's wire format and a stream of events to a
//! [`ModelReply`], emitting pieces as they arrive. It prints nothing, reads no environment and no
//! settings, and does not know tools or sandboxes. Entry points: [`Anthropic`], [`OpenAi`],
//! [`ScriptedModel`], each wrapped in [`RetryingModel`] to retry failed requests.

mod anthropic;
mod calls;
mod error;
mod estimate;
mod events;
mod failure;
mod http;
mod message_cache;
mod model;
mod openai;
mod prices;
mod retry;
pub mod script;
mod scripted;
pub mod sse;

pub use anthropic::{Anthropic, AnthropicConfig};
pub use error::{ModelError, ModelErrorKind};
pub use estimate::{Calibration, estimate, estimate_blocks, estimate_message, estimate_text};
pub use model::{Model, ModelReply, ModelRequest, ReplyEvent};
pub use openai::{OpenAi, OpenAiConfig};
pub use prices::{ModelPrice, PriceList, PriceListError, price};
pub use retry::{RetryPolicy, RetryingModel};
pub use scripted::ScriptedModel;
