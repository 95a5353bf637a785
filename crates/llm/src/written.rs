//! Messages that were sent before, as the JSON that was sent: a long history is written once, and
//! a turn costs no more because there were many before it, except for sending them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Message;
use serde_json::value::RawValue;

/// What one client has written, message by message from the beginning of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Written {
    messages: Mutex<Vec<Entry>>,
}

/// A message and its JSON. The message is held, so that another cannot come to stand at its
/// address and be taken for it.
#[derive(Debug)]
pub(crate) struct Entry {
    message: Arc<Message>,
    /// `None` for one that is not sent.
    pub(crate) json: Option<Box<RawValue>>,
}

impl Written {
    /// The JSON of all of these messages; only those that are new since the last time are written.
    pub(crate) fn update(
        &self,
        messages: &[Arc<Message>],
        write: impl Fn(&Message) -> serde_json::Result<Option<Box<RawValue>>>,
    ) -> serde_json::Result<MutexGuard<'_, Vec<Entry>>> {
        // What it holds is good at any moment, whoever panicked.
        let mut known = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = known.iter().zip(messages);
        let same = pairs
            .take_while(|(entry, message)| Arc::ptr_eq(&entry.message, message))
            .count();
        known.truncate(same);
        for message in &messages[same..] {
            known.push(Entry {
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
        let written = Written::default();
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
        // An equal message is not the same one.
        check(&[one.clone(), message("2"), three], 2);
        check(&[], 0);
        check(&[one], 1);
    }
}
