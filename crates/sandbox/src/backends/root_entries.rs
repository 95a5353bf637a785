//! The content of `/` on every backend: the user, the generated files and, without an image, the
//! host programs that are visible.
//!
//! This is an allow-list: a secret that it does not name stays hidden. Plain data; the backends
//! mount it. Entry points: [`root_entries()`], [`default_env`].

use std::fs;
use std::path::{Path, PathBuf};

use walls::plan::{MountAccess, RootEntry};

use crate::limits::{BYTES_PER_INODE, SandboxLimits};
use crate::spec::{RootSpec, WORKSPACE_PATH};

/// The user inside.
pub(crate) const USER_NAME: &str = "hotcell";
pub(crate) const UID: u32 = 1000;
pub(crate) const HOME_DIR: &str = "/home/hotcell";
pub(crate) const HOSTNAME: &str = "hotcell";

/// Folders of programs and libraries. On most systems all except `/usr` are symlinks into it.
const PROGRAM_FOLDERS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// Folders in `/etc` that programs need and that hold no secrets.
const ETC_FOLDERS: &[&str] = &[
    "alternatives",
    "crypto-policies",
    "fonts",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.conf.d",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile.d",
    "ssl/certs",
];

/// Small files in `/etc` that programs need and that hold no secrets.
const ETC_FILES: &[&str] = &[
    "bash.bashrc",
    "debian_version",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "lsb-release",
    "mime.types",
    "os-release",
    "profile",
    "protocols",
    "redhat-release",
    "services",
    "shells",
    "ssl/openssl.cnf",
    "timezone",
];

/// The entries of `/` in mount order, without the workspace.
pub(crate) fn root_entries(root: &RootSpec, limits: &SandboxLimits) -> Vec<RootEntry> {
    let mut fittings = match root {
        RootSpec::Host => host_entries(),
        RootSpec::Image(_) => Vec::new(),
    };
    fittings.extend(common_entries(limits));
    fittings
}

/// The default environment of commands.
pub(crate) fn default_env() -> Vec<(String, String)> {
    [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", HOME_DIR),
        ("USER", USER_NAME),
        ("LOGNAME", USER_NAME),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// The entries of `/` that come from the host.
fn host_entries() -> Vec<RootEntry> {
    let mut fittings: Vec<RootEntry> = PROGRAM_FOLDERS
        .iter()
        .filter_map(|path| shown_apart(path.into()))
        .collect();
    fittings.extend([folder("/etc"), folder("/var")]);
    for parent in ["/etc/ssl", "/etc/pki/tls"] {
        if Path::new(parent).exists() {
            fittings.push(folder(parent));
        }
    }
    let etc = ETC_FOLDERS.iter().chain(ETC_FILES);
    fittings.extend(etc.filter_map(|name| shown_apart(Path::new("/etc").join(name))));
    let lookups = "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n";
    fittings.push(file("/etc/nsswitch.conf", lookups));
    fittings.extend([
        link("/var/tmp", "/tmp"),
        link("/var/run", "/run"),
        link("/var/lock", "/run"),
    ]);
    fittings
}

/// Like [`host_entry`], but under an overlay, so that a sandbox shares no watches and locks with the
/// host.
fn shown_apart(path: PathBuf) -> Option<RootEntry> {
    let mut fitting = host_entry(path)?;
    if let RootEntry::Bind { access, .. } = &mut fitting {
        *access = MountAccess::ReadOnlyOverlay;
    }
    Some(fitting)
}

/// The folders that need an overlay. External engines mount them directly, and the overlays are
/// added later.
pub(crate) fn overlay_folders() -> Vec<PathBuf> {
    let folders = host_entries()
        .into_iter()
        .filter_map(|fitting| match fitting {
            RootEntry::Bind {
                target,
                access: MountAccess::ReadOnlyOverlay,
                ..
            } => Some(target),
            _ => None,
        });
    folders.collect()
}

/// A host path unchanged: a symlink as the same symlink, a folder read-only, a file as a copy.
pub(crate) fn host_entry(path: PathBuf) -> Option<RootEntry> {
    let metadata = fs::symlink_metadata(&path).ok()?;
    if metadata.is_symlink() {
        let points_to = fs::read_link(&path).ok()?;
        Some(RootEntry::Link {
            target: path,
            points_to,
        })
    } else if metadata.is_dir() {
        Some(bind(path, MountAccess::ReadOnly))
    } else {
        metadata.is_file().then(|| RootEntry::Copy {
            source: path.clone(),
            target: path,
        })
    }
}

fn bind(path: impl Into<PathBuf>, access: MountAccess) -> RootEntry {
    let path = path.into();
    RootEntry::Bind {
        source: path.clone(),
        target: path,
        access,
        idmap: None,
    }
}

fn folder(target: impl Into<PathBuf>) -> RootEntry {
    RootEntry::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

fn file(target: &str, content: impl Into<String>) -> RootEntry {
    RootEntry::File {
        target: target.into(),
        content: content.into(),
    }
}

fn link(target: &str, points_to: &str) -> RootEntry {
    RootEntry::Link {
        target: target.into(),
        points_to: points_to.into(),
    }
}

/// The entries that every root has, with the host's programs or an image.
fn common_entries(limits: &SandboxLimits) -> Vec<RootEntry> {
    let tmpfs = |target: &str, bytes: u64, mode| RootEntry::Tmpfs {
        target: target.into(),
        bytes,
        inodes: (bytes / BYTES_PER_INODE / 4).clamp(1024, 1 << 20),
        mode,
    };
    let mut all = vec![
        folder("/etc"),
        file(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                 {USER_NAME}:x:{UID}:{UID}:{USER_NAME}:{HOME_DIR}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        file(
            "/etc/group",
            format!("root:x:0:\n{USER_NAME}:x:{UID}:\nnogroup:x:65534:\n"),
        ),
        file(
            "/etc/hosts",
            format!("127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n"),
        ),
        file("/etc/hostname", format!("{HOSTNAME}\n")),
        file(
            "/etc/resolv.conf",
            "# Names are resolved outside, by the proxy.\n",
        ),
        RootEntry::Proc {
            target: "/proc".into(),
        },
        tmpfs("/dev", 64 * 1024, 0o755),
    ];
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        all.push(bind(Path::new("/dev").join(device), MountAccess::Device));
    }
    all.push(RootEntry::Terminals {
        target: "/dev/pts".into(),
    });
    for (name, points_to) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        all.push(link(name, points_to));
    }
    all.extend([
        tmpfs("/dev/shm", limits.memory / 8, 0o1777),
        tmpfs("/tmp", limits.memory / 2, 0o1777),
        tmpfs(HOME_DIR, limits.memory / 4, 0o755),
        tmpfs("/run", (limits.memory / 16).min(16 << 20), 0o755),
    ]);
    all
}

/// Writable paths for Landlock. An image's root is an overlay that belongs to the sandbox alone.
pub(crate) fn writable(root: &RootSpec) -> Vec<PathBuf> {
    let paths: &[&str] = match root {
        RootSpec::Image(_) => &["/"],
        RootSpec::Host => &[
            WORKSPACE_PATH,
            "/tmp",
            HOME_DIR,
            "/run",
            "/proc",
            "/dev/shm",
            "/dev/pts",
            "/dev/null",
            "/dev/zero",
            "/dev/full",
            "/dev/random",
            "/dev/urandom",
            "/dev/tty",
        ],
    };
    paths.iter().map(PathBuf::from).collect()
}
