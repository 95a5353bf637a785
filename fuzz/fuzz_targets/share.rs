//! A hostile kernel of a machine: whatever it requests of a shared folder, the server neither
//! panics nor hangs, sends only whole replies, and reads and changes nothing outside of the folder.

#![no_main]

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Once;
use std::thread;

use arbitrary::Arbitrary;
use hotcell_fuzz::{CANARY, Playground};
use libfuzzer_sys::fuzz_target;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, setrlimit, umask};

/// What a kernel may send: requests that are almost right, and any bytes.
#[derive(Debug, Arbitrary)]
enum Piece {
    Request {
        operation: u8,
        node: u8,
        numbers: Vec<Number>,
        names: Vec<u8>,
        rest: Vec<u8>,
    },
    Bytes(Vec<u8>),
}

#[derive(Debug, Arbitrary)]
enum Number {
    Small(u8),
    Short(u32),
    Long(u64),
}

const NAMES: [&str; 9] = [
    "file", "folder", "link", "outside", "canary", "new", "..", ".", "a/b",
];
const LOOKUP: u8 = 1;
const REQUEST_HEADER_LEN: usize = 40;
const REPLY_HEADER_LEN: usize = 16;
const MAX_MESSAGE_BYTES: usize = (1 << 20) + 4096;
/// Keeps copies of sparse files short.
const MAX_FILE_BYTES: u64 = 16 << 20;

impl Piece {
    fn wire(&self, unique: u64) -> Vec<u8> {
        let (operation, node, numbers, names, rest) = match self {
            Self::Bytes(bytes) => return bytes.clone(),
            Self::Request {
                operation,
                node,
                numbers,
                names,
                rest,
            } => (operation, node, numbers, names, rest),
        };
        let mut body = Vec::new();
        for number in numbers {
            match number {
                Number::Small(number) => body.extend(u32::from(*number).to_le_bytes()),
                Number::Short(number) => body.extend(number.to_le_bytes()),
                Number::Long(number) => body.extend(number.to_le_bytes()),
            }
        }
        for name in names {
            body.extend(NAMES[usize::from(*name) % NAMES.len()].as_bytes());
            body.push(0);
        }
        body.extend(rest);
        request(operation % 56, unique, *node, &body)
    }
}

fn request(operation: u8, unique: u64, node: u8, body: &[u8]) -> Vec<u8> {
    let length = (REQUEST_HEADER_LEN + body.len()) as u32;
    let mut message = length.to_le_bytes().to_vec();
    message.extend(u32::from(operation).to_le_bytes());
    message.extend(unique.to_le_bytes());
    message.extend(u64::from(node % 12).to_le_bytes());
    message.extend([0; 16]);
    message.extend(body);
    message
}

fuzz_target!(|pieces: Vec<Piece>| {
    static LIMIT: Once = Once::new();
    LIMIT.call_once(|| {
        let limit = Rlimit {
            current: Some(MAX_FILE_BYTES),
            maximum: None,
        };
        // Without it, targets are slower, but not wrong.
        let _ = setrlimit(Resource::Fsize, limit);
    });
    let playground = Playground::new();
    let folder = playground.inside();
    populate(&folder, &playground.outside());

    // The first lookups assign the node numbers that the requests use.
    let mut wire: Vec<u8> = ["folder", "file", "link", "outside"]
        .iter()
        .flat_map(|name| request(LOOKUP, 1, 1, format!("{name}\0").as_bytes()))
        .collect();
    for (index, piece) in pieces.iter().enumerate() {
        wire.extend(piece.wire(index as u64 + 2));
    }
    let answers = exchange(&folder, &wire);
    check_replies(&answers, &requested(&wire));
    let is_read = answers
        .windows(CANARY.len())
        .any(|window| window == CANARY.as_bytes());
    assert!(!is_read);
    playground.assert_outside_unchanged();
    make_removable(&folder);
});

fn populate(folder: &Path, outside: &Path) {
    let populated = fs::create_dir(folder.join("folder"))
        .and_then(|()| fs::write(folder.join("file"), "content"))
        .and_then(|()| symlink(outside, folder.join("link")))
        .and_then(|()| symlink("../outside", folder.join("outside")));
    populated.expect("the folder is empty and writable");
}

/// Sends all bytes to a new server, and returns what it sends until it ends.
fn exchange(folder: &Path, wire: &[u8]) -> Vec<u8> {
    let (mut kernel, server) = UnixStream::pair().expect("there are descriptors left");
    let mut writer = kernel.try_clone().expect("there are descriptors left");
    let folder = File::open(folder).expect("the folder exists");
    let mut answers = Vec::new();
    thread::scope(|scope| {
        // An invalid message ends the server with an error.
        scope.spawn(|| drop(share::serve(folder.into(), server.into())));
        scope.spawn(move || {
            // Fails if the server ends before it has read everything.
            let _ = writer.write_all(wire);
            let _ = writer.shutdown(Shutdown::Write);
        });
        // A server that ends with unread bytes resets the connection.
        let _ = kernel.read_to_end(&mut answers);
    });
    // The server cleared it.
    umask(Mode::from_raw_mode(0o022));
    answers
}

/// The unique numbers of all requests up to the first invalid one.
fn requested(mut wire: &[u8]) -> HashSet<u64> {
    let mut found = HashSet::new();
    while let Some((length, unique)) = header(wire) {
        if length < REQUEST_HEADER_LEN {
            break;
        }
        found.insert(unique);
        wire = wire.get(length..).unwrap_or_default();
    }
    found
}

/// Asserts that the bytes are whole messages, each of them a notice or a reply to a request.
fn check_replies(mut answers: &[u8], requested: &HashSet<u64>) {
    while !answers.is_empty() {
        let (length, unique) = header(answers).expect("the server sends whole messages");
        assert!((REPLY_HEADER_LEN..=MAX_MESSAGE_BYTES).contains(&length));
        assert!(unique == 0 || requested.contains(&unique));
        answers = answers
            .get(length..)
            .expect("the server sends whole messages");
    }
}

/// Length and unique number of a message, which requests and replies have at the same offsets.
fn header(message: &[u8]) -> Option<(usize, u64)> {
    let length = u32::from_le_bytes(*message.first_chunk()?);
    let unique = u64::from_le_bytes(*message.get(8..)?.first_chunk()?);
    Some((length as usize, unique))
}

/// Only root can list folders without permissions.
fn make_removable(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            make_removable(&entry.path());
        }
    }
}
