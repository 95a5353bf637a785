//! The sockets of a vsock device: `CONNECT` and `OK` for connections from the host, and a
//! connection from the machine to the host. The test implements the ports: see the test's
//! `machine`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{UnixListener, UnixStream};

/// The host port at which a machine reports that it is ready.
const READY_PORT: u32 = 7000;

/// Socket of the test's simulated machine.
const MACHINE_SOCKET: &str = "machine.sock";

/// Listens for the host. A deaf device closes every connection, as for a port without a listener.
pub(crate) fn listen(device: PathBuf, is_deaf: bool) -> io::Result<()> {
    let listener = UnixListener::bind(&device)?;
    tokio::task::spawn_local(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let device = device.clone();
            tokio::task::spawn_local(async move {
                let _ = connect(socket, &device, is_deaf).await;
            });
        }
    });
    Ok(())
}

async fn connect(socket: UnixStream, device: &Path, is_deaf: bool) -> io::Result<()> {
    let mut socket = BufReader::new(socket);
    let mut line = String::new();
    socket.read_line(&mut line).await?;
    let port = line
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.trim_end_matches('\n').parse::<u32>().ok());
    let Some(port) = port.filter(|_| !is_deaf) else {
        return Ok(());
    };
    let mut machine = connect_machine_port(device, port).await?;
    socket.write_all(b"OK 1073741824\n").await?;
    copy_bidirectional(&mut socket, &mut machine).await?;
    Ok(())
}

/// The machine connects to the host.
pub(crate) fn announce(device: PathBuf) {
    tokio::task::spawn_local(async move {
        let mut name = device.clone().into_os_string();
        name.push(format!("_{READY_PORT}"));
        let mut host = UnixStream::connect(Path::new(&name)).await?;
        let mut machine = connect_machine_port(&device, READY_PORT).await?;
        copy_bidirectional(&mut host, &mut machine).await
    });
}

/// Connects to a port of the test's machine, whose socket may not exist yet.
async fn connect_machine_port(device: &Path, port: u32) -> io::Result<UnixStream> {
    let machine = device.with_file_name(MACHINE_SOCKET);
    let mut socket = loop {
        match UnixStream::connect(&machine).await {
            Ok(socket) => break socket,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    socket.write_all(format!("{port}\n").as_bytes()).await?;
    Ok(socket)
}
