//! The machine's ports, through the sockets that Firecracker provides for its vsock device.
//!
//! A connection to the device's socket first names a port, and gets a confirmation or is closed. In
//! the other direction a machine connects to a socket of the host that is named after the port.
//! Entry points: [`ReadySocket`], [`connect_machine`].

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use walls::machine::vsock::{CONTROL_PORT, FILES_PORT, LINK_PORT, READY_PORT};

use super::shared_dir::SharedDir;
use crate::backends::machine::control::{ControlError, MachineControl};

/// Name of the device's socket in the shared folder.
pub(super) const DEVICE_SOCKET: &str = "v.sock";

#[derive(Debug, thiserror::Error)]
pub(super) enum VsockError {
    #[error("cannot reach Firecracker's vsock device")]
    Reach(#[source] io::Error),
    #[error("nothing in the machine listens at port {0}")]
    Refused(u32),
    #[error("Firecracker's vsock device sent an unknown answer")]
    Confused,
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl VsockError {
    /// Whether a retry may help: the machine does not listen yet, or the connection was cut when
    /// the machine was resumed.
    fn is_retryable(&self) -> bool {
        match self {
            Self::Reach(_) | Self::Refused(_) => true,
            Self::Control(ControlError::Channel(_)) => true,
            Self::Control(_) | Self::Confused => false,
        }
    }
}

/// Connects to a port of the machine.
pub(super) async fn connect(room: &SharedDir, port: u32) -> Result<UnixStream, VsockError> {
    /// `OK`, a port number, and a newline.
    const MAX_ANSWER_BYTES: usize = 32;
    let mut socket = room
        .connect(DEVICE_SOCKET)
        .await
        .map_err(VsockError::Reach)?;
    let wish = format!("CONNECT {port}\n");
    socket
        .write_all(wish.as_bytes())
        .await
        .map_err(VsockError::Reach)?;
    let mut answer = Vec::new();
    // Reads exactly this line: the bytes after it come from the machine.
    while answer.last() != Some(&b'\n') {
        match socket.read_u8().await {
            Ok(byte) if answer.len() < MAX_ANSWER_BYTES => answer.push(byte),
            Ok(_) => return Err(VsockError::Confused),
            Err(_) => return Err(VsockError::Refused(port)),
        }
    }
    let number = answer
        .strip_prefix(b"OK ")
        .and_then(|rest| rest.strip_suffix(b"\n"));
    match number {
        Some(number) if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => Ok(socket),
        _ => Err(VsockError::Confused),
    }
}

/// The socket on which a machine reports that it has booted.
#[derive(Debug)]
pub(super) struct ReadySocket<'a> {
    room: &'a SharedDir,
    name: String,
    listener: UnixListener,
}

impl<'a> ReadySocket<'a> {
    /// Must be called before the machine starts.
    pub(super) fn expect(room: &'a SharedDir) -> io::Result<Self> {
        let name = format!("{DEVICE_SOCKET}_{READY_PORT}");
        Ok(Self {
            listener: room.listen(&name)?,
            name,
            room,
        })
    }

    pub(super) async fn wait_for_connection(self) -> Result<(), VsockError> {
        let accepted = self.listener.accept().await;
        let (socket, _) = accepted.map_err(VsockError::Reach)?;
        self.room.remove(&self.name);
        Ok(MachineControl::new(socket).awake().await?)
    }
}

/// A machine's three ports.
#[derive(Debug)]
pub(super) struct MachinePorts {
    pub(super) control: MachineControl,
    pub(super) link: UnixStream,
    pub(super) files: UnixStream,
}

/// Connects to a waiting machine. The caller sets the timeout.
pub(super) async fn connect_machine(room: &SharedDir) -> Result<MachinePorts, VsockError> {
    let control = loop {
        match connect_control(room).await {
            Ok(control) => break control,
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => return Err(error),
        }
    };
    Ok(MachinePorts {
        control,
        link: connect(room, LINK_PORT).await?,
        files: connect(room, FILES_PORT).await?,
    })
}

async fn connect_control(room: &SharedDir) -> Result<MachineControl, VsockError> {
    let mut control = MachineControl::new(connect(room, CONTROL_PORT).await?);
    control.awake().await?;
    Ok(control)
}
