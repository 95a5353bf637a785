//! The last output of background commands, for live display. Does not consume the output for other readers.

use std::collections::VecDeque;
use std::rc::Rc;

use link::Stream;
use link::request::{GuestResult, JobTail, MAX_TAIL_BYTES};

use crate::session::Guest;

/// How many bytes a command has printed, and the last of them.
#[derive(Default)]
pub(crate) struct OutputTail {
    count: u64,
    tail: VecDeque<u8>,
}

impl OutputTail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.count += bytes.len() as u64;
        let last = &bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..];
        let over = (self.tail.len() + last.len()).saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn tail(&self) -> Vec<u8> {
        self.tail.iter().copied().collect()
    }
}

/// Answers when there is more output than `seen`. Does not answer if the host stops listening.
pub(crate) async fn tail(guest: &Rc<Guest>, id: u32, seen: u64, stream: Stream) {
    let (mut sender, mut receiver) = stream.split();
    let answer: GuestResult<JobTail> = match guest.jobs.find(id) {
        Ok(job) => tokio::select! {
            tail = job.tail(seen) => Ok(tail),
            () = receiver.wait_until_peer_stops() => return,
        },
        Err(refusal) => guest.jobs.finished_tail(id).ok_or(refusal),
    };
    let _ = sender.send(&answer).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_all_are_counted() {
        let check = |pieces: &[usize], count: u64, length: usize| {
            let mut printed = OutputTail::default();
            let mut all = Vec::new();
            for (number, piece) in pieces.iter().enumerate() {
                let bytes = vec![number as u8; *piece];
                printed.push(&bytes);
                all.extend(bytes);
            }
            assert_eq!(printed.count(), count);
            assert_eq!(printed.tail(), all[all.len() - length..]);
        };
        check(&[], 0, 0);
        check(&[3, 4], 7, 7);
        check(&[4096], 4096, 4096);
        check(&[4096, 1], 4097, 4096);
        check(&[10, 100_000, 10], 100_020, 4096);
    }
}
