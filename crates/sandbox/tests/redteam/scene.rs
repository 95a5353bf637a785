//! The environment of one attack: a workspace, canaries beside it, sockets that must receive
//! nothing, and the sandbox.

use std::fs;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use audit::AuditLog;
use sandbox::{CommandEvent, ExecCommand, RunningCommand, Sandbox};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::attack::{Attack, AttackOutcome, CheckResult};
use crate::backend::TestedBackend;
use crate::outside::size_of;
use crate::under_test::nature;

/// Timeout of an attack or an answer.
pub(crate) fn answer_timeout() -> Duration {
    nature::scaled_timeout(Duration::from_secs(60))
}

/// The surroundings of the sandbox on the host.
pub(crate) struct HostSurroundings {
    home: TempDir,
    pub(crate) workspace: PathBuf,
    /// A text in the arguments and the environment of every process of the sandbox.
    pub(crate) marker: String,
    canaries: Vec<Canary>,
    /// Sockets of the host that must get no connection.
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_stream: UnixListener,
    file_socket: UnixListener,
    /// The only port of the host that a rule may allow.
    pub(crate) allowed: AllowedServer,
    pub(crate) audit: Arc<AuditLog>,
}

/// A file that must neither change nor be read.
struct Canary {
    path: PathBuf,
    content: String,
    before: (u64, u64, i64, i64, u32),
}

/// Metadata that changes if the file is touched.
fn traces(path: &Path) -> io::Result<(u64, u64, i64, i64, u32)> {
    let file = fs::symlink_metadata(path)?;
    Ok((
        file.ino(),
        file.nlink(),
        file.mtime_nsec(),
        file.ctime_nsec(),
        file.mode(),
    ))
}

impl Canary {
    fn place(path: PathBuf, marker: &str) -> Self {
        let folder = path.parent().expect("a canary is in a folder");
        fs::create_dir_all(folder).expect("a temporary folder can be filled");
        // Different from the marker, which is visible everywhere.
        let content = format!("canary-{}-{marker}", marker.len());
        fs::write(&path, &content).expect("a temporary folder can be filled");
        // Readable for all, so that only the walls protect it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
        let before = traces(&path).expect("it was just written");
        Self {
            path,
            content,
            before,
        }
    }

    fn check(&self, outcome: &AttackOutcome) -> CheckResult {
        let path = self.path.display();
        if !traces(&self.path).is_ok_and(|after| after == self.before) {
            return Err(format!("the canary {path} was touched"));
        }
        if fs::read_to_string(&self.path).ok().as_deref() != Some(&self.content) {
            return Err(format!("the canary {path} was changed"));
        }
        let folder = self.path.parent().expect("a canary is in a folder");
        let names = fs::read_dir(folder).map_or(0, Iterator::count);
        if names != 1 {
            return Err(format!("something was left beside the canary {path}"));
        }
        let sings = |bytes: &[u8]| contains(bytes, self.content.as_bytes());
        if sings(&outcome.stdout) || sings(&outcome.stderr) {
            Err(format!("the canary {path} was read"))
        } else {
            Ok(())
        }
    }
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn marker() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("redteam-{}-{number}", std::process::id())
}

impl HostSurroundings {
    pub(crate) fn place() -> Self {
        let marker = marker();
        let home = TempDir::new().expect("there is a folder for temporary files");
        // Open to all: the walls must keep a hostile program out, not the host's file modes.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let workspace = home.path().join("workspace");
        fs::create_dir(&workspace).expect("a temporary folder can be filled");
        fs::copy(hostile_program(), workspace.join("hostile")).expect("the program is readable");
        let canaries = ["secret/canary", "workspace-evil/canary"];
        let canaries = canaries.map(|name| Canary::place(home.path().join(name), &marker));
        let abstract_name = SocketAddr::from_abstract_name(&marker).expect("a short name");
        let abstract_stream = UnixListener::bind_addr(&abstract_name).expect("a name of our own");
        let file_socket =
            UnixListener::bind(home.path().join("socket")).expect("a path of our own");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback");
        for silent in [
            tcp.set_nonblocking(true),
            udp.set_nonblocking(true),
            abstract_stream.set_nonblocking(true),
            file_socket.set_nonblocking(true),
        ] {
            silent.expect("a socket can be made nonblocking");
        }
        let audit = AuditLog::open(home.path().join("audit.log")).expect("a log of our own");
        Self {
            canaries: canaries.into(),
            workspace,
            marker,
            tcp,
            udp,
            abstract_stream,
            file_socket,
            allowed: AllowedServer::start(),
            audit: Arc::new(audit),
            home,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn tcp_port(&self) -> u16 {
        self.tcp.local_addr().expect("it is bound").port()
    }

    /// A connection stays in the queue of its socket until it is accepted here.
    fn check_no_connections(&self) -> CheckResult {
        let quiet = |outcome: io::Result<()>| {
            outcome.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        for (name, outcome) in [
            ("TCP port", self.tcp.accept().map(|_| ())),
            ("UDP port", self.udp.recv(&mut [0; 64]).map(|_| ())),
            ("abstract socket", self.abstract_stream.accept().map(|_| ())),
            ("socket file", self.file_socket.accept().map(|_| ())),
        ] {
            if !quiet(outcome) {
                return Err(format!("somebody came to the host's {name}"));
            }
        }
        Ok(())
    }

    /// The checks after every attack.
    pub(crate) fn check(&self, outcome: &AttackOutcome) -> CheckResult {
        for canary in &self.canaries {
            canary.check(outcome)?;
        }
        self.check_no_connections()
    }

    /// The arguments that describe the host to the hostile program.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let addresses: Vec<String> = own_addresses().iter().map(IpAddr::to_string).collect();
        let whose = |is_own| if is_own { "own" } else { "shared" };
        vec![
            format!("root={}", whose(nature::has_own_root())),
            format!("kernel={}", whose(!nature::shares_kernel())),
            format!("marker={}", self.marker),
            format!("canary={}", self.path("secret/canary").display()),
            format!("workspace={}", self.workspace.display()),
            format!("trap={}", self.path("trap").display()),
            format!("socket={}", self.path("socket").display()),
            format!("tcp={}", self.tcp_port()),
            format!("udp={}", self.udp.local_addr().expect("it is bound").port()),
            format!("abstract={}", self.marker),
            format!("allowed={}", self.allowed.port),
            format!("addresses={}", addresses.join(",")),
        ]
    }

    pub(crate) fn log(&self) -> String {
        let _ = self.audit.flush(Duration::from_secs(60));
        fs::read_to_string(self.audit.path()).unwrap_or_default()
    }
}

impl Drop for HostSurroundings {
    fn drop(&mut self) {
        // The count unlocks folders that an attack has locked, so that they can be removed.
        size_of(&self.workspace);
        // Recursive removal holds a descriptor for each level, so the tree is removed level by
        // level from the top.
        let (top, next) = (self.workspace.join("deep"), self.workspace.join("next"));
        while fs::rename(top.join("d"), &next).is_ok() {
            let _ = fs::remove_dir(&top).and_then(|()| fs::rename(&next, &top));
        }
    }
}

/// The addresses from which this host would reach others. Sends nothing.
fn own_addresses() -> Vec<IpAddr> {
    let from = |bind: &str, to: &str| {
        let socket = UdpSocket::bind(bind).ok()?;
        socket.connect(to).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = [
        from("0.0.0.0:0", "198.51.100.1:9"),
        from("[::]:0", "[2001:db8::1]:9"),
    ];
    found.into_iter().flatten().collect()
}

/// Built by the same cargo run, in a folder next to this test.
pub(crate) fn hostile_program() -> PathBuf {
    let this = std::env::current_exe().expect("a program knows where it is");
    let profile = this
        .ancestors()
        .nth(2)
        .expect("a test is in `<profile>/deps`");
    let program = profile.join("examples/hostile");
    assert!(
        program.exists(),
        "cannot find `{}`; hint: cargo build -p sandbox --examples",
        program.display()
    );
    program
}

/// A web server of the host that records its requests.
pub(crate) struct AllowedServer {
    pub(crate) port: u16,
    asked: Arc<std::sync::Mutex<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl AllowedServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
        listener
            .set_nonblocking(true)
            .expect("a socket can be made nonblocking");
        let port = listener.local_addr().expect("it is bound").port();
        let asked = Arc::default();
        let task = tokio::spawn(serve(listener, Arc::clone(&asked)));
        Self { port, asked, task }
    }

    pub(crate) fn asked(&self) -> String {
        let asked = self.asked.lock().expect("no holder of the lock panics");
        String::from_utf8_lossy(&asked).into_owned()
    }
}

impl Drop for AllowedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, asked: Arc<std::sync::Mutex<Vec<u8>>>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::from_std(listener).expect("within a runtime");
    while let Ok((mut stream, _)) = listener.accept().await {
        let asked = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut buffer = vec![0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                asked
                    .lock()
                    .expect("no holder of the lock panics")
                    .extend_from_slice(&buffer[..length]);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                let _ = stream.write_all(answer).await;
            }
        });
    }
}

/// One attack and its environment.
pub(crate) struct AttackFixture {
    pub(crate) backend: TestedBackend,
    pub(crate) attack: Attack,
    pub(crate) props: HostSurroundings,
    sandbox: Option<Sandbox>,
    /// As in `/proc/PID/ns/pid`, on the kernel that the sandbox runs on.
    pub(crate) pid_namespace: String,
}

impl AttackFixture {
    pub(crate) async fn set(backend: TestedBackend, attack: Attack) -> CheckResult<Self> {
        let props = HostSurroundings::place();
        let mut spec = backend.spec(&props.workspace);
        spec.env.push(("REDTEAM".into(), props.marker.clone()));
        spec.audit = Some(Arc::clone(&props.audit));
        (attack.tune)(&mut spec, &props);
        let sandbox = within("start", Sandbox::start(spec)).await?;
        let walls = within("inspect", sandbox.inspect()).await?;
        let namespace = walls.namespaces.into_iter().find(|(kind, _)| kind == "pid");
        Ok(Self {
            backend,
            attack,
            props,
            sandbox: Some(sandbox),
            pid_namespace: namespace.map(|(_, id)| id).unwrap_or_default(),
        })
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        self.sandbox.as_ref().expect("only `strike` takes it")
    }

    /// A run of the hostile program.
    pub(crate) fn hostile(&self, name: &str, more: &[(&str, String)]) -> ExecCommand {
        let mut argv = vec!["./hostile".to_owned(), name.to_owned()];
        argv.extend(self.props.arguments());
        argv.extend(more.iter().map(|(key, value)| format!("{key}={value}")));
        ExecCommand::new(argv)
    }

    /// Runs the hostile program to its end.
    pub(crate) async fn run(&self, name: &str, more: &[(&str, String)]) -> AttackOutcome {
        AttackOutcome::from_run(self.sandbox().run(self.hostile(name, more)).await)
    }

    /// Starts the hostile program and waits for a line that says that it is running.
    pub(crate) async fn start(
        &self,
        name: &str,
        more: &[(&str, String)],
        line: &str,
    ) -> CheckResult<(RunningCommand<'_>, AttackOutcome)> {
        let mut running = within("exec", self.sandbox().exec(self.hostile(name, more))).await?;
        let mut outcome = AttackOutcome::default();
        let told = timeout(answer_timeout(), async {
            while !contains(&outcome.stdout, line.as_bytes()) {
                match running.next().await {
                    Ok(CommandEvent::Stdout(bytes)) => outcome.stdout.extend_from_slice(&bytes),
                    Ok(CommandEvent::Stderr(bytes)) => outcome.stderr.extend_from_slice(&bytes),
                    Ok(CommandEvent::Ended(verdict)) => return Err(format!("ended: {verdict:?}")),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(())
        });
        match told.await {
            Ok(Ok(())) => Ok((running, outcome)),
            Ok(Err(error)) => Err(format!("{error}, after {:?}", outcome.text())),
            Err(_) => Err(format!("hangs, after {:?}", outcome.text())),
        }
    }

    /// Takes the sandbox down; its surroundings stay for the checks.
    pub(crate) async fn strike(&mut self) -> CheckResult {
        let sandbox = self.sandbox.take().expect("`strike` is called once");
        match timeout(answer_timeout(), sandbox.end()).await {
            Ok(_) => Ok(()),
            Err(_) => Err("the end of the sandbox hangs".into()),
        }
    }
}

/// Waits for an answer of the sandbox, with a timeout.
pub(crate) async fn within<T, E: std::fmt::Display>(
    what: &str,
    answer: impl Future<Output = Result<T, E>>,
) -> CheckResult<T> {
    match timeout(answer_timeout(), answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: hangs")),
    }
}

/// Collects the output of a running command until it ends.
pub(crate) async fn finish(
    mut running: RunningCommand<'_>,
    mut outcome: AttackOutcome,
) -> CheckResult<AttackOutcome> {
    loop {
        match timeout(answer_timeout(), running.next()).await {
            Ok(Ok(CommandEvent::Stdout(bytes))) => outcome.stdout.extend_from_slice(&bytes),
            Ok(Ok(CommandEvent::Stderr(bytes))) => outcome.stderr.extend_from_slice(&bytes),
            Ok(Ok(CommandEvent::Ended(verdict))) => {
                outcome.verdict = Some(verdict);
                return Ok(outcome);
            }
            Ok(Err(error)) => {
                outcome.error = Some(error.to_string());
                return Ok(outcome);
            }
            Err(_) => return Err(format!("hangs, after {:?}", outcome.text())),
        }
    }
}

/// Whether this is the root of the machine, which some preparations and checks need.
pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
