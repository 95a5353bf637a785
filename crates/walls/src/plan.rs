//! What to put up, as plain data from the host, and what the supervisor reports back.
//!
//! Decides nothing and touches nothing; [`send`] and [`receive`] frame both for the control
//! socket.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Everything about one sandbox's walls.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    ReadOnly,
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
    Processes,
}

/// What the supervisor tells the host, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The walls stand and the guest was started behind them.
    Ready { landlock: Option<Landlocked> },
    /// A wall could not be put up; nothing was started.
    Failed(Failure),
    /// Everything is gone.
    Ended { out_of_memory_kills: u64 },
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
const LONGEST: u32 = 4 * 1024 * 1024;

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
