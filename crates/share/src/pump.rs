//! The threads between `/dev/fuse` and the channel.
//!
//! They parse only the length of a message, and whether it may block. When the channel ends, the
//! device is closed: pending and later requests for the folder then fail.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

use crate::abi::{MAX_MESSAGE_BYTES, REPLY_HEADER_LEN, REQUEST_HEADER_LEN, STATFS_OPCODE};
use crate::channel::block_signals;

/// Unique number of a notice, which is not a reply.
const NOTICE_UNIQUE: u64 = 0;

/// A second descriptor of the same mount, used for notices.
///
/// The kernel may block a notice until a program inside has got its reply. The descriptor cannot be
/// closed during that time. The first one can, and then the program stops waiting.
pub(crate) fn clone_device(device: &OwnedFd) -> Result<OwnedFd, Errno> {
    const CLONE: Opcode = opcode::read::<u32>(229, 0);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let clone = openat(CWD, c"/dev/fuse", flags, Mode::empty())?;
    // SAFETY: this ioctl reads one 32-bit number, which is a descriptor.
    unsafe {
        let original = Setter::<CLONE, u32>::new(device.as_raw_fd() as u32);
        ioctl(&clone, original)?;
    }
    Ok(clone)
}

/// Forwards messages in both directions on one thread, which polls both sides.
pub(crate) struct FusePump {
    device: Arc<OwnedFd>,
    /// Messages that may block are written by another thread, in order.
    waiting: Sender<OrderedMessage>,
    /// Requests whose reply must not overtake earlier notices. A tree instead of a hash table: the
    /// random seed of a hash table would be the same in all machines started from one snapshot.
    questions: BTreeSet<u64>,
    channel: OwnedFd,
    /// The request that is being sent.
    request: MessageBuffer,
    /// Received replies; the last may be incomplete.
    replies: MessageBuffer,
}

/// A buffer with free space before and after its content.
struct MessageBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl MessageBuffer {
    fn new(size: usize) -> Self {
        Self {
            bytes: vec![0; size],
            start: 0,
            end: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn take(&mut self, length: usize) {
        self.start += length;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// The free part, after moving the content to the start.
    fn free(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}

/// Whether the pump continues.
enum PumpStatus {
    GoOn,
    Ended,
}

impl FusePump {
    /// Runs until either side ends.
    pub(crate) fn run(device: OwnedFd, clone: OwnedFd, channel: OwnedFd) -> io::Result<()> {
        block_signals()?;
        let device = Arc::new(device);
        let (waiting, messages) = mpsc::channel();
        let original = Arc::downgrade(&device);
        let teller = thread::Builder::new()
            .name("share-notices".into())
            .spawn(move || tell(&original, &clone, &messages))?;
        let pump = Self {
            device,
            waiting,
            questions: BTreeSet::new(),
            channel,
            request: MessageBuffer::new(MAX_MESSAGE_BYTES),
            replies: MessageBuffer::new(2 * MAX_MESSAGE_BYTES),
        };
        let outcome = pump.run_loop();
        let _ = teller.join();
        outcome
    }

    /// Consumes `self`, so that the device is closed at the end.
    fn run_loop(mut self) -> io::Result<()> {
        loop {
            let (device, channel) = self.wait()?;
            if !channel.is_empty()
                && let PumpStatus::Ended = self.forward_replies()?
            {
                return Ok(());
            }
            if !device.is_empty()
                && let PumpStatus::Ended = self.read_request()?
            {
                return Ok(());
            }
            if let PumpStatus::Ended = self.send_request()? {
                return Ok(());
            }
        }
    }

    /// Waits until either side is readable, or the channel is writable if a request is pending.
    fn wait(&self) -> io::Result<(PollFlags, PollFlags)> {
        // One request at a time: the others stay in the queue of the device.
        let (device, channel) = if self.request.is_empty() {
            (PollFlags::IN, PollFlags::IN)
        } else {
            (PollFlags::empty(), PollFlags::IN | PollFlags::OUT)
        };
        let mut both = [
            PollFd::from_borrowed_fd(self.device.as_fd(), device),
            PollFd::from_borrowed_fd(self.channel.as_fd(), channel),
        ];
        match poll(&mut both, None) {
            Ok(_) | Err(Errno::INTR) => Ok((both[0].revents(), both[1].revents())),
            Err(error) => Err(error.into()),
        }
    }

    fn read_request(&mut self) -> io::Result<PumpStatus> {
        if !self.request.is_empty() {
            return Ok(PumpStatus::GoOn);
        }
        match read(&self.device, self.request.free()) {
            Ok(length) => {
                self.request.end = length;
                self.track_statfs_request();
            }
            // No request, or the program was interrupted.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => {}
            // Unmounted.
            Err(Errno::NODEV) => return Ok(PumpStatus::Ended),
            Err(error) => return Err(error.into()),
        }
        Ok(PumpStatus::GoOn)
    }

    fn track_statfs_request(&mut self) {
        let request = self.request.content();
        let is_whole = request.len() >= REQUEST_HEADER_LEN;
        if is_whole && u64_at(request, 0) >> 32 == u64::from(STATFS_OPCODE) {
            self.questions.insert(u64_at(request, 8));
        }
    }

    fn send_request(&mut self) -> io::Result<PumpStatus> {
        while !self.request.is_empty() {
            match write(&self.channel, self.request.content()) {
                Ok(length) => self.request.take(length),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE) => return Ok(PumpStatus::Ended),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(PumpStatus::GoOn)
    }

    fn forward_replies(&mut self) -> io::Result<PumpStatus> {
        match read(&self.channel, self.replies.free()) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(PumpStatus::Ended),
            Ok(length) => self.replies.end += length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(PumpStatus::GoOn),
            Err(error) => return Err(error.into()),
        }
        while let Some(length) = self.replies.content().first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if !(REPLY_HEADER_LEN..=MAX_MESSAGE_BYTES).contains(&length) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some(reply) = self.replies.content().get(..length) else {
                break;
            };
            let unique = u64_at(reply, 8);
            if unique == NOTICE_UNIQUE || self.questions.remove(&unique) {
                let bytes = reply.into();
                let _ = self.waiting.send(OrderedMessage { bytes, unique });
            } else if let PumpStatus::Ended = deliver(&self.device, reply)? {
                return Ok(PumpStatus::Ended);
            }
            self.replies.take(length);
        }
        Ok(PumpStatus::GoOn)
    }
}

/// A message for the kernel that may block.
struct OrderedMessage {
    bytes: Box<[u8]>,
    unique: u64,
}

/// Writes notices to the kernel, and the replies that must follow them.
fn tell(original: &Weak<OwnedFd>, clone: &OwnedFd, messages: &Receiver<OrderedMessage>) {
    for message in messages {
        let delivered = match message.unique {
            // Fails if the kernel has nothing cached, which is harmless.
            NOTICE_UNIQUE => {
                let _ = write(clone, &message.bytes);
                continue;
            }
            // A reply must go to the descriptor from which the request was read.
            _ => original
                .upgrade()
                .map(|device| deliver(&device, &message.bytes)),
        };
        if !matches!(delivered, Some(Ok(PumpStatus::GoOn))) {
            return;
        }
    }
}

/// Writes a reply to the kernel.
fn deliver(device: &OwnedFd, reply: &[u8]) -> io::Result<PumpStatus> {
    match write(device, reply) {
        // `NOENT`: the request was interrupted.
        Ok(_) | Err(Errno::NOENT) => Ok(PumpStatus::GoOn),
        Err(Errno::NODEV) => Ok(PumpStatus::Ended),
        Err(error) => Err(error.into()),
    }
}

/// The number at this offset; 0 if the message is too short.
fn u64_at(message: &[u8], at: usize) -> u64 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
