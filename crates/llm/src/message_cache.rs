//! Caches the JSON of messages that were sent before. A long history is serialised once, so the
//! cost of a turn does not grow with the number of earlier turns, except for sending them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Message;
use serde_json::value::RawValue;

/// The serialised messages of one client, from the start of a conversation.
#[derive(Debug, Default)]
pub(crate) struct MessageCache {
    messages: Mutex<Vec<CachedMessage>>,
}

/// A message and its JSON. Holding the message ensures that its address is not reused for another
/// one.
#[derive(Debug)]
pub(crate) struct CachedMessage {
    message: Arc<Message>,
    /// `None` if the message is not sent.
    pub(crate) json: Option<Box<RawValue>>,
}

impl MessageCache {
    /// The JSON of all of these messages. Serialises only those that are new since the last call.
    pub(crate) fn update(
        &self,
        messages: &[Arc<Message>],
        write: impl Fn(&Message) -> serde_json::Result<Option<Box<RawValue>>>,
    ) -> serde_json::Result<MutexGuard<'_, Vec<CachedMessage>>> {
        // The value is valid even if a thread panicked while holding the lock.
        let mut known = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = known.iter().zip(messages);
        let same = pairs
            .take_while(|(entry, message)| Arc::ptr_eq(&entry.message, message))
            .count();
        known.truncate(same);
        for message in &messages[same..] {
            known.push(CachedMessage {
                message: Arc::clone(message),
                json: write(message)?,
            });
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;

    use protocol::{Block, Role};

    use super::*;

    #[test]
    fn only_what_is_new_is_written() {
        let message = |text: &str| {
            Arc::new(Message {
                role: Role::User,
                content: vec![Block::text(text)],
            })
        };
        let written = MessageCache::default();
        let count = Cell::new(0);
        let check = |messages: &[Arc<Message>], expect: u32| {
            count.set(0);
            let write = |message: &Message| {
                count.set(count.get() + 1);
                serde_json::value::to_raw_value(message).map(Some)
            };
            let entries = written.update(messages, write).unwrap();
            assert_eq!(count.get(), expect);
            let texts: Vec<&str> = entries
                .iter()
                .map(|entry| entry.json.as_ref().unwrap().get())
                .collect();
            let fresh: Vec<String> = messages
                .iter()
                .map(|message| serde_json::to_string(&**message).unwrap())
                .collect();
            assert_eq!(texts, fresh);
        };
        let (one, two, three) = (message("1"), message("2"), message("3"));
        check(&[one.clone(), two.clone()], 2);
        check(&[one.clone(), two.clone(), three.clone()], 1);
        // Compared by identity: an equal message is serialised again.
        check(&[one.clone(), message("2"), three], 2);
        check(&[], 0);
        check(&[one], 1);
    }
}
