//! A fake kernel that sends hand-written protocol messages to a real server.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus};

use crate::fixture::{ServerSetup, start_server};

pub(crate) const ROOT: u64 = 1;

pub(crate) struct FakeKernel {
    stream: UnixStream,
    server: Child,
    unique: u64,
}

/// The body of the reply, or the error number.
pub(crate) type FuseAnswer = Result<Vec<u8>, i32>;

impl FakeKernel {
    pub(crate) fn new(folder: &Path) -> Self {
        let (stream, outside) = UnixStream::pair().unwrap();
        let server = start_server(folder, outside.into(), &ServerSetup::default());
        Self {
            stream,
            server,
            unique: 0,
        }
    }

    /// Sends a request and returns its reply.
    pub(crate) fn ask(&mut self, operation: u32, node: u64, body: &[u8]) -> FuseAnswer {
        self.unique += 1;
        let message = message(operation, self.unique, node, body);
        self.stream.write_all(&message).unwrap();
        loop {
            let mut header = [0; 16];
            self.stream.read_exact(&mut header).unwrap();
            let length = u32::from_le_bytes(header[..4].try_into().unwrap()) as usize;
            let error = i32::from_le_bytes(header[4..8].try_into().unwrap());
            let unique = u64::from_le_bytes(header[8..].try_into().unwrap());
            let mut rest = vec![0; length - header.len()];
            self.stream.read_exact(&mut rest).unwrap();
            // Others are unsolicited notices.
            if unique == self.unique {
                return match error {
                    0 => Ok(rest),
                    error => Err(-error),
                };
            }
        }
    }

    /// The node number of an entry; zero if it does not exist.
    pub(crate) fn look_up(&mut self, folder: u64, name: &str) -> Result<u64, i32> {
        let entry = self.ask(LOOKUP, folder, format!("{name}\0").as_bytes())?;
        Ok(number(&entry))
    }

    /// Sends arbitrary bytes, and collects the output until the server ends.
    pub(crate) fn send_and_end(mut self, bytes: &[u8]) -> (ExitStatus, Vec<u8>) {
        let mut writing = self.stream.try_clone().unwrap();
        let answers = std::thread::scope(|scope| {
            scope.spawn(move || {
                // Fails if the server ends before it has read everything.
                let _ = writing.write_all(bytes);
                let _ = writing.shutdown(std::net::Shutdown::Write);
            });
            let mut answers = Vec::new();
            // A server that ends with unread data resets the connection.
            let _ = self.stream.read_to_end(&mut answers);
            answers
        });
        (self.server.wait().unwrap(), answers)
    }

    pub(crate) fn end(self) -> ExitStatus {
        self.send_and_end(&[]).0
    }
}

pub(crate) const LOOKUP: u32 = 1;
pub(crate) const GET_ATTRIBUTES: u32 = 3;
pub(crate) const SET_ATTRIBUTES: u32 = 4;
pub(crate) const READ_LINK: u32 = 5;
pub(crate) const MAKE_FOLDER: u32 = 9;
pub(crate) const UNLINK: u32 = 10;
pub(crate) const RENAME: u32 = 12;
pub(crate) const LINK: u32 = 13;
pub(crate) const OPEN: u32 = 14;
pub(crate) const READ: u32 = 15;
pub(crate) const WRITE: u32 = 16;
pub(crate) const OPEN_FOLDER: u32 = 27;
pub(crate) const CREATE: u32 = 35;

pub(crate) fn message(operation: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    message.extend_from_slice(&(40 + body.len() as u32).to_le_bytes());
    message.extend_from_slice(&operation.to_le_bytes());
    message.extend_from_slice(&unique.to_le_bytes());
    message.extend_from_slice(&node.to_le_bytes());
    message.extend_from_slice(&[0; 16]);
    message.extend_from_slice(body);
    message
}

/// The first 64-bit number of a reply.
pub(crate) fn number(answer: &[u8]) -> u64 {
    u64::from_le_bytes(answer[..8].try_into().unwrap())
}

/// Encodes 32-bit fields, then text.
pub(crate) fn fields(numbers: &[u32], text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}
