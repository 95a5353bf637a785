//! Simulates the inside of machines: serves the ports that the Firecracker stand-in forwards, like
//! init, and starts the real guest where init would set up walls first.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use walls::machine::vsock::{CONTROL_PORT, FILES_PORT, LINK_PORT, READY_PORT};
use walls::machine::{MachineActivation, MachineReady};
use walls::plan::{self, SupervisorReport, SupervisorRequest};

use crate::scene::entries;

/// The number of memory kills that a machine reports.
pub(crate) const REPORTED_KILLS: u64 = 3;

/// What machines have received.
#[derive(Debug, Default)]
pub(crate) struct MachineEvents {
    /// Number of boots, without restores.
    pub(crate) boots: usize,
    pub(crate) arrivals: Vec<MachineActivation>,
    /// Number of workspaces that answered.
    pub(crate) workspaces: usize,
    /// Number of requests to end.
    pub(crate) ends: usize,
}

/// All machines of one cache.
pub(crate) struct SimulatedMachines {
    heard: Arc<Mutex<MachineEvents>>,
    task: JoinHandle<()>,
}

impl SimulatedMachines {
    /// Waits for shared folders to appear, and listens in them.
    pub(crate) fn start(cache: &Path, workspace: &Path) -> Self {
        let heard = Arc::new(Mutex::new(MachineEvents::default()));
        let guest = workspace.with_file_name("guest");
        if !guest.exists() {
            fs::write(&guest, sandbox::GUEST_PROGRAM).unwrap();
            fs::set_permissions(&guest, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let (cache, workspace) = (cache.to_owned(), workspace.to_owned());
        let known = heard.clone();
        let task = tokio::spawn(async move {
            let mut seen: Vec<PathBuf> = Vec::new();
            loop {
                for room in shared_dirs(&cache) {
                    if seen.contains(&room) {
                        continue;
                    }
                    // The folder may be incomplete or half removed: the next poll will tell.
                    if let Ok(listener) = listen_in(&room) {
                        tokio::spawn(serve_machine(listener, workspace.clone(), known.clone()));
                        seen.push(room);
                    }
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Self { heard, task }
    }

    pub(crate) fn machine_events(&self) -> std::sync::MutexGuard<'_, MachineEvents> {
        self.heard.lock().unwrap()
    }
}

impl Drop for SimulatedMachines {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn shared_dirs(cache: &Path) -> Vec<PathBuf> {
    let mut found = entries(&cache.join("firecracker/rooms"));
    for program in entries(&cache.join("firecracker/jails")) {
        found.extend(entries(&program).iter().map(|jail| jail.join("root/room")));
    }
    found
}

fn listen_in(room: &Path) -> io::Result<UnixListener> {
    // Short enough for a socket address.
    let folder = File::open(room)?;
    let path = format!("/proc/self/fd/{}/machine.sock", folder.as_raw_fd());
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(room.join("machine.sock"), fs::Permissions::from_mode(0o777))?;
    Ok(listener)
}

/// One machine: only the first connection to each port counts.
async fn serve_machine(
    listener: UnixListener,
    workspace: PathBuf,
    heard: Arc<Mutex<MachineEvents>>,
) {
    let (link_to, link) = mpsc::channel(1);
    let (files_to, files) = mpsc::channel(1);
    let mut rest = Some((link, files));
    while let Ok((mut socket, _)) = listener.accept().await {
        let Ok(port) = port(&mut socket).await else {
            continue;
        };
        match port {
            READY_PORT => {
                heard.lock().unwrap().boots += 1;
                let awake: MachineReady = Ok(());
                send(&mut socket, &awake).await.unwrap();
            }
            CONTROL_PORT => {
                let (link, files) = rest.take().expect("a machine is met once");
                let (workspace, heard) = (workspace.clone(), heard.clone());
                tokio::spawn(async move {
                    // The host's end may close at any time.
                    let _ = control(socket, link, files, &workspace, &heard).await;
                });
            }
            LINK_PORT => link_to.try_send(socket).unwrap(),
            FILES_PORT => files_to.try_send(socket).unwrap(),
            other => panic!("nobody listens at port {other}"),
        }
    }
}

async fn port(socket: &mut UnixStream) -> io::Result<u32> {
    let mut line = String::new();
    loop {
        match socket.read_u8().await? {
            b'\n' => return line.parse().map_err(io::Error::other),
            byte => line.push(char::from(byte)),
        }
    }
}

async fn control(
    mut socket: UnixStream,
    mut link: mpsc::Receiver<UnixStream>,
    mut files: mpsc::Receiver<UnixStream>,
    workspace: &Path,
    heard: &Mutex<MachineEvents>,
) -> io::Result<()> {
    let awake: MachineReady = Ok(());
    send(&mut socket, &awake).await?;
    let arrival: MachineActivation = receive(&mut socket).await?;
    let mut files = files.recv().await.expect("it was connected before");
    check_file_server(&mut files).await?;
    {
        let mut heard = heard.lock().unwrap();
        heard.arrivals.push(arrival);
        heard.workspaces += 1;
    }
    let link = link.recv().await.expect("it was connected before");
    let mut guest = guest(link, workspace)?;
    send(&mut socket, &SupervisorReport::Ready { landlock: None }).await?;
    loop {
        let count = REPORTED_KILLS;
        match receive(&mut socket).await {
            Ok(SupervisorRequest::ReportOomKills) => {
                let out_of_memory_kills = count;
                send(
                    &mut socket,
                    &SupervisorReport::OomKills {
                        out_of_memory_kills,
                    },
                )
                .await?;
            }
            Ok(SupervisorRequest::SetDeadline(_)) => {}
            ended => {
                heard.lock().unwrap().ends += usize::from(ended.is_ok());
                let _ = guest.kill();
                let _ = guest.wait();
                let out_of_memory_kills = count;
                return send(
                    &mut socket,
                    &SupervisorReport::Ended {
                        out_of_memory_kills,
                    },
                )
                .await;
            }
        }
    }
}

/// Sends the first message of the file protocol, and checks the real server's answer.
async fn check_file_server(files: &mut UnixStream) -> io::Result<()> {
    const INIT: u32 = 26;
    const UNIQUE: u64 = 77;
    const LENGTH: u32 = 40 + 64;
    let mut message = Vec::new();
    message.extend_from_slice(&LENGTH.to_le_bytes());
    message.extend_from_slice(&INIT.to_le_bytes());
    message.extend_from_slice(&UNIQUE.to_le_bytes());
    message.resize(40, 0);
    for number in [7u32, 31, 128 * 1024, 0] {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.resize(LENGTH as usize, 0);
    files.write_all(&message).await?;
    loop {
        let length = files.read_u32_le().await?;
        let error = files.read_i32_le().await?;
        let unique = files.read_u64_le().await?;
        let mut content = vec![0; length as usize - 16];
        files.read_exact(&mut content).await?;
        // 0 marks a notification.
        if unique != 0 {
            assert_eq!((error, unique), (0, UNIQUE));
            return Ok(());
        }
    }
}

/// The real guest, without walls, with the workspace at its expected path.
fn guest(link: UnixStream, workspace: &Path) -> io::Result<Child> {
    const SCRIPT: &str = r#"
        set -e
        root=$(mktemp -d -p "$3")
        mount -t tmpfs tmpfs "$root"
        for name in bin sbin lib lib32 lib64 usr etc proc dev tmp; do
            if [ -L "/$name" ]; then cp -P "/$name" "$root/$name"
            elif [ -d "/$name" ]; then mkdir "$root/$name"; mount --rbind "/$name" "$root/$name"
            fi
        done
        mkdir "$root/workspace"
        mount --bind "$1" "$root/workspace"
        cp "$2" "$root/guest"
        exec chroot "$root" /guest serve
    "#;
    let place = workspace.parent().expect("a workspace is in a place");
    let file = place.join("guest");
    let link = link.into_std()?;
    link.set_nonblocking(false)?;
    Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "machine"])
        .arg(workspace)
        .arg(&file)
        .arg(place)
        // An ordinary user's PATH may lack the folder of `chroot`.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::from(OwnedFd::from(link)))
        .stdout(Stdio::null())
        .spawn()
}

async fn send(socket: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut framed = Vec::new();
    plan::send(&mut framed, message)?;
    socket.write_all(&framed).await
}

async fn receive<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    let length = socket.read_u32_le().await?;
    let mut framed = length.to_le_bytes().to_vec();
    framed.resize(4 + length as usize, 0);
    socket.read_exact(&mut framed[4..]).await?;
    plan::receive(&framed[..])
}
