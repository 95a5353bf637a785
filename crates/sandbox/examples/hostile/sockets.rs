//! Sockets in the workspace: of host programs, and of another sandbox on the same folder.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::{Attack, AttackArguments, breach, held, judge};

pub(crate) const ATTACKS: &[Attack] = &[
    ("workspace-socket", call),
    ("offer-descriptor", offer),
    ("take-descriptor", take),
];

/// In the workspace, which is the current folder.
const SOCKET_NAME: &str = "meeting";

/// Connects to a host program's socket in the workspace.
fn call(_: &AttackArguments) {
    let called = UnixStream::connect("host-socket").and_then(|mut stream| {
        stream.write_all(b"called")?;
        Ok(())
    });
    judge("talk to a host program through its socket", called);
}

/// Listens in the workspace, and passes its standard output to the peer.
fn offer(_: &AttackArguments) {
    let listener = match UnixListener::bind(SOCKET_NAME) {
        Ok(listener) => listener,
        Err(error) => return held(format_args!("listen in the workspace: {error}")),
    };
    println!("LISTENS");
    let Ok((stream, _)) = listener.accept() else {
        return held("nobody came");
    };
    pass(&stream, 1);
    // Until the peer has finished.
    let _ = (&stream).read(&mut [0; 1]);
}

/// Writes to a descriptor that another sandbox passes.
fn take(_: &AttackArguments) {
    let stream = match UnixStream::connect(SOCKET_NAME) {
        Ok(stream) => stream,
        Err(error) => return held(format_args!("meet a sibling: {error}")),
    };
    match receive(&stream) {
        Some(mut file) => {
            let _ = file.write_all(b"FROM-THE-SIBLING\n");
            breach("a descriptor of the sibling's");
        }
        None => held("no descriptor came"),
    }
}

fn pass(stream: &UnixStream, descriptor: i32) {
    let data = [IoSlice::new(b"x")];
    let mut space = [0u64; 8];
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = data.as_ptr() as *mut libc::iovec;
        message.msg_iovlen = 1;
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header)
            .cast::<i32>()
            .write_unaligned(descriptor);
        libc::sendmsg(stream.as_raw_fd(), &message, 0);
    }
}

fn receive(stream: &UnixStream) -> Option<std::fs::File> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut space = [0u64; 8];
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = data.as_mut_ptr().cast();
        message.msg_iovlen = 1;
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&space) as _;
        if libc::recvmsg(stream.as_raw_fd(), &mut message, 0) < 1 {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        let descriptor = libc::CMSG_DATA(header).cast::<i32>().read_unaligned();
        Some(std::fs::File::from_raw_fd(descriptor))
    }
}
