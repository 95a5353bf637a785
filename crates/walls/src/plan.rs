//! What to put up, as plain data from the host, and what the supervisor reports back.
//!
//! Decides nothing and touches nothing; [`send`] and [`receive`] frame both for the control
//! socket.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Everything about one sandbox's walls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub identity: Identity,
    pub hostname: String,
    pub root: Root,
    /// What to put into the root, in order.
    pub fittings: Vec<Fitting>,
    pub groups: Vec<Group>,
    pub rlimits: Vec<Rlimit>,
    /// Processors to stay on, where no cgroup limits the time.
    pub processors: Option<Vec<usize>>,
    /// Folders that commands may change, for Landlock; everything else is read-only to them.
    pub writable: Vec<PathBuf>,
    /// Wall time after which the supervisor kills the sandbox, whatever the guest does.
    pub deadline: Option<Duration>,
    /// What process 1 becomes behind these walls instead of the guest.
    pub program: Option<Program>,
    /// What process 1 is where it becomes no other program.
    pub behind: Behind,
}

impl Plan {
    /// The same without what can be changed while the walls stand: the numbers of limits, and when
    /// all ends.
    pub(crate) fn shape(&self) -> Self {
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

/// What stands behind the walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Behind {
    /// The guest.
    Guest,
    /// What starts and serves the program of a virtual machine: see [`machine`](crate::machine).
    Machine,
}

/// A program that puts up more walls and starts the guest behind them, as gVisor's `runsc` does. It
/// keeps its rights in its own user namespace, because walls take rights: neither Landlock nor
/// the system call filter holds it, and nothing else than the plan names is in its sight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Where it stands in its own root.
    pub path: PathBuf,
    /// All of them, its name first.
    pub arguments: Vec<String>,
    /// Its own root: nothing but these, read-only, and the root of the plan.
    pub fittings: Vec<Fitting>,
    /// Where in its own root the root of the plan stands.
    pub inner: PathBuf,
}

/// What the guest does to itself where another program (a container engine, gVisor) put up the
/// walls: the part of a [`Plan`] that needs no rights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    pub rlimits: Vec<Rlimit>,
    /// As in [`Plan`].
    pub processors: Option<Vec<usize>>,
    /// As in [`Plan`].
    pub writable: Vec<PathBuf>,
    /// The user to be, in a user namespace of its own, where whoever put up the walls knows this
    /// process under another number.
    pub user: Option<u32>,
    /// Whether the kernel is the sandbox's own and no Linux, and this process begins with the
    /// rights to close what that leaves open: gVisor's.
    pub is_own_kernel: bool,
}

/// Who the sandbox is, outside and inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub outside_uid: u32,
    pub outside_gid: u32,
    pub inside_uid: u32,
    pub inside_gid: u32,
    /// Whether supplementary groups can be dropped: only the host's root may.
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

impl Identity {
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

/// What `/` is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Root {
    /// An empty tmpfs, read-only once furnished.
    Empty,
    /// An image folder, with an overlay of this many bytes on top.
    Image {
        folder: PathBuf,
        idmap: Option<IdMap>,
        overlay_bytes: u64,
    },
}

/// One thing in the root. Targets are absolute paths inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fitting {
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
    /// A small host file, read now: a copy is cheaper than a mount, to make and to take down.
    Copy {
        source: PathBuf,
        target: PathBuf,
    },
    /// A host path, never with setuid; without devices unless it is one.
    Bind {
        source: PathBuf,
        target: PathBuf,
        access: Access,
        idmap: Option<IdMap>,
    },
    /// A host file to read, in a folder that the sandbox's user may not enter: opened with the
    /// supervisor's rights.
    Kept {
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
    /// This very program, for others to start.
    Guest {
        target: PathBuf,
    },
    /// A library or program that the plan brings along.
    Code {
        target: PathBuf,
        content: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    ReadOnly,
    /// As `ReadOnly`, under an overlay of the sandbox's own: watches and locks on its files meet
    /// nobody else's.
    ReadOnlyOverlay,
    ReadWrite,
    Device,
}

/// A control group to make, with the values to write into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub folder: PathBuf,
    pub version: GroupVersion,
    /// File name, value, and whether the start fails without it.
    pub settings: Vec<(String, String, bool)>,
    /// File in which the kernel counts out-of-memory kills.
    pub kill_counter: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupVersion {
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
    /// And timers, each of which may have one waiting.
    PendingSignals,
    Processes,
}

/// What the supervisor tells the host, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The walls stand and the guest was started behind them.
    Ready { landlock: Option<Landlocked> },
    /// A wall could not be put up; nothing was started.
    Failed(Failure),
    /// The answer to [`Ask::Kills`].
    Kills { out_of_memory_kills: u64 },
    /// Everything is gone.
    Ended { out_of_memory_kills: u64 },
}

/// What the host may ask of a supervisor whose walls stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// How many processes the kernel has killed for want of memory.
    Kills,
    /// To end in so long, instead of at the plan's deadline.
    Deadline(Duration),
    /// To end now, where closing the control channel would lose the last report.
    End,
}

/// How far Landlock holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Landlocked {
    Fully,
    Partially,
}

/// Which step failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("cannot {step}: {}", io::Error::from_raw_os_error(*errno))]
pub struct Failure {
    /// What was being done, as the end of "cannot …".
    pub step: String,
    pub stage: Stage,
    pub errno: i32,
}

/// Where in the set-up a step belongs, for advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Namespaces,
    Identity,
    Cgroups,
    Mounts,
    Network,
    Confinement,
    Start,
}

/// No plan or report is longer: a bound for both readers.
pub const LONGEST: u32 = 4 * 1024 * 1024;

/// Writes one message with its length before it.
pub fn send(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    let encoded = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let mut framed = (encoded.len() as u32).to_le_bytes().to_vec();
    framed.extend_from_slice(&encoded);
    to.write_all(&framed)
}

/// Reads one message; an end of input before it is `UnexpectedEof`.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut encoded = vec![0; length as usize];
    from.read_exact(&mut encoded)?;
    postcard::from_bytes(&encoded).map_err(io::Error::other)
}
