//! The description of a sandbox's walls, as plain data from the host, and the supervisor's reports.
//!
//! Contains no logic and no system calls; [`send`] and [`receive`] frame both for the control socket.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Everything about one sandbox's walls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallsPlan {
    pub identity: SandboxIdentity,
    pub hostname: String,
    pub root: RootFilesystem,
    /// Entries to create in the root, in order.
    pub root_entries: Vec<RootEntry>,
    pub groups: Vec<CgroupSpec>,
    pub rlimits: Vec<Rlimit>,
    /// CPU affinity, if no cgroup limits the CPU time.
    pub processors: Option<Vec<usize>>,
    /// Folders that commands may write to, for Landlock. Everything else is read-only to them.
    pub writable: Vec<PathBuf>,
    /// Wall time after which the supervisor kills the sandbox.
    pub deadline: Option<Duration>,
    /// The program that process 1 executes behind these walls instead of being the guest.
    pub program: Option<RuntimeProgram>,
    /// The role of process 1 if there is no `program`.
    pub role: Process1Role,
}

impl WallsPlan {
    /// The plan without the values that can change while the walls are running: limits and deadline.
    pub(crate) fn without_changeable_values(&self) -> Self {
        let mut shape = self.clone();
        shape.deadline = None;
        for group in &mut shape.groups {
            group.settings.clear();
        }
        for limit in &mut shape.rlimits {
            limit.value = 0;
        }
        shape
    }
}

/// What process 1 does behind the walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Process1Role {
    /// The guest.
    Guest,
    /// The helper that starts a VMM and serves files to it: see [`machine`](crate::machine).
    VmmHelper,
}

/// A program that sets up more walls and starts the guest behind them, such as gVisor's `runsc`. It
/// keeps its privileges in its user namespace, because it needs them for the walls. So neither Landlock
/// nor the system call filter applies to it, but it sees only what the plan lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeProgram {
    /// Its path in its own root.
    pub path: PathBuf,
    /// All arguments, including argument 0.
    pub arguments: Vec<String>,
    /// Its own root: only these entries, read-only, and the root of the plan.
    pub root_entries: Vec<RootEntry>,
    /// Where the root of the plan is mounted in its own root.
    pub sandbox_root: PathBuf,
}

/// What the guest applies to itself if another program (a container engine, gVisor) set up the walls:
/// the part of a [`WallsPlan`] that needs no privileges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub rlimits: Vec<Rlimit>,
    /// As in [`WallsPlan`].
    pub processors: Option<Vec<usize>>,
    /// As in [`WallsPlan`].
    pub writable: Vec<PathBuf>,
    /// The user id to map this process to, in a new user namespace, if the other program runs it under
    /// another id.
    pub user: Option<u32>,
    /// Whether the kernel is gVisor's. Then this process starts with the privileges to close what that
    /// kernel leaves open.
    pub is_gvisor: bool,
}

/// User and group of the sandbox, outside and inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxIdentity {
    pub outside_uid: u32,
    pub outside_gid: u32,
    pub inside_uid: u32,
    pub inside_gid: u32,
    /// Whether to drop supplementary groups. Only root on the host may do that.
    pub drop_groups: bool,
}

/// First of the host's user ids that sandboxes of root run as: far above any real user and below the
/// sign bit, one for each sandbox, so that no two share anything.
const FIRST_SANDBOX_USER: u32 = 0x7000_0000;

/// How many there are.
const SANDBOX_USERS: u32 = 1 << 24;

/// The user of the sandbox with this number.
pub fn sandbox_user(number: u32) -> u32 {
    FIRST_SANDBOX_USER + number % SANDBOX_USERS
}

impl SandboxIdentity {
    /// Whether the kernel knows the sandbox as a user that no other process has.
    pub(crate) fn has_own_user(&self) -> bool {
        (FIRST_SANDBOX_USER..FIRST_SANDBOX_USER + SANDBOX_USERS).contains(&self.outside_uid)
    }
}

/// Maps an owner on disk to the sandbox's outside identity for one mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMap {
    pub disk_uid: u32,
    pub disk_gid: u32,
}

/// What the root file system is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootFilesystem {
    /// A tmpfs, made read-only after all entries are created.
    Empty,
    /// An image folder under a writable overlay of at most `overlay_bytes`.
    Image {
        folder: PathBuf,
        idmap: Option<IdMap>,
        overlay_bytes: u64,
    },
}

/// One entry to create in the root. Targets are absolute paths inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    Folder {
        target: PathBuf,
        mode: u32,
    },
    Link {
        target: PathBuf,
        points_to: PathBuf,
    },
    File {
        target: PathBuf,
        content: String,
    },
    /// A small host file, copied. A copy is cheaper to create and to remove than a mount.
    Copy {
        source: PathBuf,
        target: PathBuf,
    },
    /// A bind mount of a host path: always `nosuid`, and `nodev` unless it is a device.
    Bind {
        source: PathBuf,
        target: PathBuf,
        access: MountAccess,
        idmap: Option<IdMap>,
    },
    /// A read-only bind mount of a host file in a folder that the sandbox's user may not enter. The
    /// supervisor opens it.
    SupervisorBind {
        source: PathBuf,
        target: PathBuf,
    },
    Tmpfs {
        target: PathBuf,
        bytes: u64,
        inodes: u64,
        mode: u32,
    },
    Proc {
        target: PathBuf,
    },
    Terminals {
        target: PathBuf,
    },
    /// A copy of this program, for other programs to start.
    GuestProgram {
        target: PathBuf,
    },
    /// A library or program whose content is part of the plan.
    Executable {
        target: PathBuf,
        content: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MountAccess {
    ReadOnly,
    /// As `ReadOnly`, under a separate overlay: watches and locks in the sandbox are then on other inodes
    /// than those of the host.
    ReadOnlyOverlay,
    ReadWrite,
    Device,
}

/// A control group to create, with the values to write into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupSpec {
    pub folder: PathBuf,
    pub version: CgroupVersion,
    /// File name, value, and whether a failed write fails the start.
    pub settings: Vec<(String, String, bool)>,
    /// File in which the kernel counts out-of-memory kills.
    pub oom_kill_file: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupVersion {
    V1,
    V2,
}

/// A resource limit, soft and hard at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    pub resource: Resource,
    pub value: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    Core,
    Data,
    FileSize,
    LockedMemory,
    MessageQueues,
    OpenFiles,
    /// Also limits timers: each can have one pending signal.
    PendingSignals,
    Processes,
}

/// Messages of the supervisor to the host, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupervisorReport {
    /// The walls are set up and the guest has started behind them.
    Ready { landlock: Option<LandlockStatus> },
    /// A setup step failed and the guest was not started, or a process of the sandbox could not be ended.
    Failed(SetupFailure),
    /// The answer to [`SupervisorRequest::ReportOomKills`].
    OomKills { out_of_memory_kills: u64 },
    /// All processes have ended and all groups are removed.
    Ended { out_of_memory_kills: u64 },
}

/// Requests of the host to a supervisor after [`SupervisorReport::Ready`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SupervisorRequest {
    /// Report how many processes the OOM killer has killed.
    ReportOomKills,
    /// Replace the plan's deadline: end after this time from now.
    SetDeadline(Duration),
    /// End now. Closing the control channel has the same effect, but loses the last report.
    End,
}

/// How much of the Landlock rules the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockStatus {
    Fully,
    Partially,
}

/// A setup step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}: {}", io::Error::from_raw_os_error(*errno))]
pub struct SetupFailure {
    /// Completes the sentence "cannot …".
    pub step: String,
    pub stage: SetupStage,
    pub errno: i32,
}

/// The part of the setup that a step belongs to. Selects the advice for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetupStage {
    Namespaces,
    Identity,
    Cgroups,
    Mounts,
    Network,
    Confinement,
    Start,
}

/// Maximum length of an encoded message, for both sides.
pub const MAX_MESSAGE_BYTES: u32 = 4 * 1024 * 1024;

/// Writes one message, prefixed with its length.
pub fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let encoded = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let mut framed = (encoded.len() as u32).to_le_bytes().to_vec();
    framed.extend_from_slice(&encoded);
    to.write_all(&framed)
}

/// Reads one message. Fails with `UnexpectedEof` if the input ends first.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_MESSAGE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut encoded = vec![0; length as usize];
    from.read_exact(&mut encoded)?;
    postcard::from_bytes(&encoded).map_err(io::Error::other)
}
