//! One logical stream: an ordered, flow-controlled sequence of items in each direction.
//!
//! The directions are independent. [`Sender::end`] marks the end of a complete transfer. A sender that
//! is dropped without it aborts its direction, so that the other end can detect a partial transfer.
//! Dropping a [`Receiver`] stops the peer's sender.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::connection::LinkEnd;
use crate::frame::FrameKind;
use crate::mux::Mux;
use crate::request::Batch;

/// A received unit of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkItem {
    /// A typed message, still encoded: see [`LinkItem::decode`].
    Message(Bytes),
    /// Standard input, standard output or file content.
    Data(Bytes),
    /// Standard error.
    Errors(Bytes),
}

impl LinkItem {
    /// Decodes a typed message. Any other item is an error.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, StreamError> {
        match self {
            Self::Message(bytes) => postcard::from_bytes(bytes).map_err(StreamError::Decode),
            Self::Data(_) | Self::Errors(_) => Err(StreamError::Unexpected),
        }
    }

    /// Decodes a part of a long answer. `None` if it has more than `most` items; none is decoded then.
    pub fn decode_batch<T: DeserializeOwned>(
        &self,
        most: u64,
    ) -> Result<Option<Batch<T>>, StreamError> {
        // Postcard encodes a list as its length, then its items.
        #[derive(serde::Deserialize)]
        enum Head {
            Items(u64),
            Done,
        }
        if let Self::Message(bytes) = self
            && let Ok((Head::Items(count), _)) = postcard::take_from_bytes(bytes)
            && count > most
        {
            return Ok(None);
        }
        self.decode().map(Some)
    }

    /// Length of the payload in bytes.
    pub fn length(&self) -> usize {
        match self {
            Self::Message(bytes) | Self::Data(bytes) | Self::Errors(bytes) => bytes.len(),
        }
    }
}

/// Why a stream operation failed.
#[derive(Debug, Error)]
pub enum StreamError {
    #[error("the stream was interrupted")]
    Broken,
    /// The other end broke the protocol or stopped responding.
    #[error("the link was ended")]
    Fault(#[source] Arc<LinkEnd>),
    #[error("the stream ended too early")]
    Ended,
    #[error("bytes came where a message was expected")]
    Unexpected,
    #[error("cannot read a message")]
    Decode(#[source] postcard::Error),
    #[error("cannot write a message")]
    Encode(#[source] postcard::Error),
    /// Longer than the peer accepts; nothing was sent.
    #[error("cannot write a message of {0} bytes: it is too long")]
    TooLong(usize),
}

pub(crate) type SharedMux = Arc<Mutex<Mux>>;

pub(crate) fn lock(shared: &SharedMux) -> MutexGuard<'_, Mux> {
    // The state is consistent between calls even if a waker panicked.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error for a stream that was interrupted.
pub(crate) fn broken(shared: &SharedMux) -> StreamError {
    match lock(shared).fault() {
        Some(fault) => StreamError::Fault(fault),
        None => StreamError::Broken,
    }
}

/// Both directions of a stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

impl Stream {
    pub(crate) fn new(shared: &SharedMux, id: u32) -> Self {
        Self {
            sender: Sender {
                shared: shared.clone(),
                id,
            },
            receiver: Receiver {
                shared: shared.clone(),
                id,
            },
        }
    }

    /// The stream's number. The same at both ends and never reused.
    pub fn id(&self) -> u32 {
        self.sender.id
    }

    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    pub async fn send(&mut self, message: &impl Serialize) -> Result<(), StreamError> {
        self.sender.send(message).await
    }

    pub async fn receive(&mut self) -> Result<Option<LinkItem>, StreamError> {
        self.receiver.receive().await
    }

    pub async fn expect<T: DeserializeOwned>(&mut self) -> Result<T, StreamError> {
        self.receiver.expect().await
    }
}

/// The sending direction.
#[derive(Debug)]
pub struct Sender {
    pub(crate) shared: SharedMux,
    pub(crate) id: u32,
}

impl Sender {
    /// Sends a typed message, in parts if it is longer than a frame.
    pub async fn send(&mut self, message: &impl Serialize) -> Result<(), StreamError> {
        let encoded = postcard::to_stdvec(message).map_err(StreamError::Encode)?;
        let (longest, most) = self.longest();
        if encoded.len() > longest {
            return Err(StreamError::TooLong(encoded.len()));
        }
        let mut rest = Bytes::from(encoded);
        while rest.len() > most {
            let part = rest.split_to(most);
            self.send_frame(FrameKind::Part, &part).await?;
        }
        self.send_frame(FrameKind::Message, &rest).await
    }

    /// Sends bytes of standard input or output or of a file, in frames.
    pub async fn send_data(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        self.send_bytes(FrameKind::Data, bytes).await
    }

    /// Sends bytes of standard error, in frames.
    pub async fn send_stderr(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        self.send_bytes(FrameKind::Errors, bytes).await
    }

    async fn send_bytes(&mut self, kind: FrameKind, mut bytes: Bytes) -> Result<(), StreamError> {
        let (_, most) = self.longest();
        while !bytes.is_empty() {
            let part = bytes.split_to(bytes.len().min(most));
            self.send_frame(kind, &part).await?;
        }
        Ok(())
    }

    async fn send_frame(&mut self, kind: FrameKind, payload: &Bytes) -> Result<(), StreamError> {
        poll_fn(|context| lock(&self.shared).poll_send(self.id, kind, payload, context))
            .await
            .map_err(|()| broken(&self.shared))
    }

    /// Largest message and largest frame payload, in bytes.
    fn longest(&self) -> (usize, usize) {
        let mux = lock(&self.shared);
        (mux.max_message_len(self.id), mux.max_payload_len(self.id))
    }

    /// Marks the transfer as complete.
    pub fn end(&mut self) {
        lock(&self.shared).end(self.id, true);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        lock(&self.shared).release(self.id, false);
    }
}

/// The receiving direction.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) shared: SharedMux,
    pub(crate) id: u32,
}

impl Receiver {
    /// The next item; `None` after the peer's end.
    pub async fn receive(&mut self) -> Result<Option<LinkItem>, StreamError> {
        poll_fn(|context| lock(&self.shared).poll_receive(self.id, context))
            .await
            .map_err(|()| broken(&self.shared))
    }

    /// Waits until the peer has stopped reading, even if it still sends.
    pub async fn wait_until_peer_stops(&mut self) {
        poll_fn(|context| lock(&self.shared).poll_stopped(self.id, context)).await;
    }

    /// The next item, which must be a message of this type.
    pub async fn expect<T: DeserializeOwned>(&mut self) -> Result<T, StreamError> {
        self.receive().await?.ok_or(StreamError::Ended)?.decode()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        lock(&self.shared).release(self.id, true);
    }
}
