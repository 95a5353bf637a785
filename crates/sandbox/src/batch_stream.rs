//! Long answers of a guest, received in batches and bounded by what the request asked for.

use std::marker::PhantomData;

use link::request::Batch;
use link::{Link, LinkEnd, Stream};
use serde::de::DeserializeOwned;

use crate::client::DISK_TIMEOUT;
use crate::error::SandboxError;
use crate::limits::bytes;

/// Limit of one answer as it arrives over the link.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Maximum length of an answer, whatever the guest sends. A longer answer ends the link.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnswerLimit {
    /// At most `limit` items, in at most [`MAX_ANSWER_BYTES`].
    Items { limit: u64, left: u64, bytes: u64 },
    /// No total limit: the caller stops reading when it has enough. The link bounds each batch.
    None,
}

impl AnswerLimit {
    /// At most `limit` items.
    pub(crate) fn items(limit: u64) -> Self {
        Self::Items {
            limit,
            left: limit,
            bytes: MAX_ANSWER_BYTES,
        }
    }
}

/// A long answer that arrives in batches.
#[derive(Debug)]
pub struct BatchStream<T> {
    stream: Stream,
    link: Link,
    bound: AnswerLimit,
    truncated: bool,
    items: PhantomData<fn() -> T>,
}

impl<T> BatchStream<T> {
    pub(crate) fn new(stream: Stream, link: Link, bound: AnswerLimit) -> Self {
        Self {
            stream,
            link,
            bound,
            truncated: false,
            items: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> BatchStream<T> {
    /// The next batch; `None` after the last. All batches together hold at most as many items as
    /// the request asked for.
    pub async fn next(&mut self) -> Result<Option<Vec<T>>, SandboxError> {
        let batch = match &mut self.bound {
            AnswerLimit::None => self.stream.expect().await?,
            AnswerLimit::Items { limit, left, bytes } => {
                let item = self.stream.receive();
                let task = "continue an answer";
                let item = self.link.expect_within(DISK_TIMEOUT, task, item).await??;
                let item = item.ok_or(SandboxError::Ended)?;
                let Some(rest) = bytes.checked_sub(item.length() as u64) else {
                    let longest = self::bytes(MAX_ANSWER_BYTES);
                    let excess = LinkEnd::Excess(format!("{longest} in one answer"));
                    return Err(self.link.fail(excess).into());
                };
                *bytes = rest;
                let Some(batch) = item.decode_batch(*left)? else {
                    let excess = LinkEnd::Excess(format!("the {limit} items that were asked for"));
                    return Err(self.link.fail(excess).into());
                };
                if let Batch::Items(items) = &batch {
                    *left -= items.len() as u64;
                }
                batch
            }
        };
        match batch {
            Batch::Items(items) => Ok(Some(items)),
            Batch::Done(done) => {
                self.truncated = done?.0;
                Ok(None)
            }
        }
    }

    /// Whether the limit cut the answer short. Known after the last batch.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Collects all batches, and returns whether the limit cut them short.
    pub async fn collect(mut self) -> Result<(Vec<T>, bool), SandboxError> {
        let mut all = Vec::new();
        while let Some(items) = self.next().await? {
            all.extend(items);
        }
        Ok((all, self.truncated))
    }
}
