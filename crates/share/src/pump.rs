//! The threads between `/dev/fuse` and the channel.
//!
//! They understand nothing of what they carry but where a message ends, and which ones may have to
//! wait. When the channel ends, the device is closed: whatever waits for the folder, or asks for it
//! later, gets an error.

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

use crate::abi::{LONGEST_MESSAGE, REPLY_HEADER, REQUEST_HEADER, STAT_FILE_SYSTEM};
use crate::channel::block_signals;

/// The number of a message that answers nothing.
const NOTICE: u64 = 0;

/// The same mount by another descriptor: notices go through it.
///
/// The kernel may keep a notice waiting until a program inside has its answer. While it waits the
/// descriptor cannot be closed; the other one can, and then that program waits no longer.
pub(crate) fn clone_device(device: &OwnedFd) -> Result<OwnedFd, Errno> {
    const CLONE: Opcode = opcode::read::<u32>(229, 0);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let clone = openat(CWD, c"/dev/fuse", flags, Mode::empty())?;
    // SAFETY: this operation of the device reads one 32-bit number, which is a descriptor.
    unsafe {
        let original = Setter::<CLONE, u32>::new(device.as_raw_fd() as u32);
        ioctl(&clone, original)?;
    }
    Ok(clone)
}

/// Carries messages both ways on one thread, which never waits for one side alone.
pub(crate) struct Pump {
    device: Arc<OwnedFd>,
    /// Messages that may have to wait go to another thread, in their order.
    waiting: Sender<Waiting>,
    /// Questions whose answer must not overtake the notices before it. In a tree: a hash would take a
    /// random seed, and all machines that are made from one snapshot would have the same.
    questions: BTreeSet<u64>,
    channel: OwnedFd,
    /// A request on its way out.
    request: Buffer,
    /// Replies as they come in, whole or not.
    replies: Buffer,
}

/// Bytes between two marks.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
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

    /// The free part, after making it as large as it can be.
    fn free(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }
}

/// Whether anything is left to do.
enum Progress {
    GoOn,
    Ended,
}

impl Pump {
    /// Until either side ends.
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
            request: Buffer::new(LONGEST_MESSAGE),
            replies: Buffer::new(2 * LONGEST_MESSAGE),
        };
        let outcome = pump.carry();
        let _ = teller.join();
        outcome
    }

    /// Dropping `self` at the end closes the device.
    fn carry(mut self) -> io::Result<()> {
        loop {
            let (device, channel) = self.wait()?;
            if !channel.is_empty()
                && let Progress::Ended = self.bring_replies()?
            {
                return Ok(());
            }
            if !device.is_empty()
                && let Progress::Ended = self.fetch_request()?
            {
                return Ok(());
            }
            if let Progress::Ended = self.send_request()? {
                return Ok(());
            }
        }
    }

    /// Until either side has something, or takes something again.
    fn wait(&self) -> io::Result<(PollFlags, PollFlags)> {
        // One request at a time: the next stays in the device, whose queue it is.
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

    fn fetch_request(&mut self) -> io::Result<Progress> {
        if !self.request.is_empty() {
            return Ok(Progress::GoOn);
        }
        match read(&self.device, self.request.free()) {
            Ok(length) => {
                self.request.end = length;
                self.note_question();
            }
            // Nothing after all, or what asked has given up.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => {}
            // Unmounted.
            Err(Errno::NODEV) => return Ok(Progress::Ended),
            Err(error) => return Err(error.into()),
        }
        Ok(Progress::GoOn)
    }

    fn note_question(&mut self) {
        let request = self.request.content();
        let is_whole = request.len() >= REQUEST_HEADER;
        if is_whole && number(request, 0) >> 32 == u64::from(STAT_FILE_SYSTEM) {
            self.questions.insert(number(request, 8));
        }
    }

    fn send_request(&mut self) -> io::Result<Progress> {
        while !self.request.is_empty() {
            match write(&self.channel, self.request.content()) {
                Ok(length) => self.request.take(length),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE) => return Ok(Progress::Ended),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Progress::GoOn)
    }

    fn bring_replies(&mut self) -> io::Result<Progress> {
        match read(&self.channel, self.replies.free()) {
            Ok(0) | Err(Errno::CONNRESET) => return Ok(Progress::Ended),
            Ok(length) => self.replies.end += length,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Progress::GoOn),
            Err(error) => return Err(error.into()),
        }
        while let Some(length) = self.replies.content().first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if !(REPLY_HEADER..=LONGEST_MESSAGE).contains(&length) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some(reply) = self.replies.content().get(..length) else {
                break;
            };
            let unique = number(reply, 8);
            if unique == NOTICE || self.questions.remove(&unique) {
                let bytes = reply.into();
                let _ = self.waiting.send(Waiting { bytes, unique });
            } else if let Progress::Ended = deliver(&self.device, reply)? {
                return Ok(Progress::Ended);
            }
            self.replies.take(length);
        }
        Ok(Progress::GoOn)
    }
}

/// Something for the kernel that may have to wait.
struct Waiting {
    bytes: Box<[u8]>,
    unique: u64,
}

/// Passes on notices, and the answers that came after them.
fn tell(original: &Weak<OwnedFd>, clone: &OwnedFd, messages: &Receiver<Waiting>) {
    for message in messages {
        let delivered = match message.unique {
            // That it knows of nothing to forget is no failure.
            NOTICE => {
                let _ = write(clone, &message.bytes);
                continue;
            }
            // An answer belongs to where its question came from.
            _ => original
                .upgrade()
                .map(|device| deliver(&device, &message.bytes)),
        };
        if !matches!(delivered, Some(Ok(Progress::GoOn))) {
            return;
        }
    }
}

/// Gives an answer to the kernel.
fn deliver(device: &OwnedFd, reply: &[u8]) -> io::Result<Progress> {
    match write(device, reply) {
        // Nobody waits for it any more.
        Ok(_) | Err(Errno::NOENT) => Ok(Progress::GoOn),
        Err(Errno::NODEV) => Ok(Progress::Ended),
        Err(error) => Err(error.into()),
    }
}

/// A number of a message that is long enough for it.
fn number(message: &[u8], at: usize) -> u64 {
    let bytes = message.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
