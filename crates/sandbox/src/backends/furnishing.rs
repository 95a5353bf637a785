//! The content of `/` on every backend: the user, the generated files and, without an image, the
//! host programs that are visible.
//!
//! This is an allow-list: a secret that it does not name stays hidden. Plain data; the backends
//! mount it. Entry points: [`furnishing`], [`usual_env`].

use std::fs;
use std::path::{Path, PathBuf};

use walls::plan::{Access, Fitting};

use crate::limits::{BYTES_PER_INODE, Limits};
use crate::spec::{RootSpec, WORKSPACE};

/// The user inside.
pub(crate) const USER: &str = "hotcell";
pub(crate) const UID: u32 = 1000;
pub(crate) const HOME: &str = "/home/hotcell";
pub(crate) const HOSTNAME: &str = "hotcell";

/// Folders of programs and libraries. On most systems all except `/usr` are symlinks into it.
const PROGRAMS: &[&str] = &[
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
pub(crate) fn furnishing(root: &RootSpec, limits: &Limits) -> Vec<Fitting> {
    let mut fittings = match root {
        RootSpec::Host => host_programs(),
        RootSpec::Image(_) => Vec::new(),
    };
    fittings.extend(inventory(limits));
    fittings
}

/// The default environment of commands.
pub(crate) fn usual_env() -> Vec<(String, String)> {
    [
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("HOME", HOME),
        ("USER", USER),
        ("LOGNAME", USER),
        ("SHELL", "/bin/bash"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// The entries of `/` that come from the host.
fn host_programs() -> Vec<Fitting> {
    let mut fittings: Vec<Fitting> = PROGRAMS
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

/// Like [`shown`], but under an overlay, so that a sandbox shares no watches and locks with the
/// host.
fn shown_apart(path: PathBuf) -> Option<Fitting> {
    let mut fitting = shown(path)?;
    if let Fitting::Bind { access, .. } = &mut fitting {
        *access = Access::ReadOnlyOverlay;
    }
    Some(fitting)
}

/// The folders that need an overlay. External engines mount them directly, and the overlays are
/// added later.
pub(crate) fn overlaid() -> Vec<PathBuf> {
    let folders = host_programs()
        .into_iter()
        .filter_map(|fitting| match fitting {
            Fitting::Bind {
                target,
                access: Access::ReadOnlyOverlay,
                ..
            } => Some(target),
            _ => None,
        });
    folders.collect()
}

/// A host path unchanged: a symlink as the same symlink, a folder read-only, a file as a copy.
pub(crate) fn shown(path: PathBuf) -> Option<Fitting> {
    let metadata = fs::symlink_metadata(&path).ok()?;
    if metadata.is_symlink() {
        let points_to = fs::read_link(&path).ok()?;
        Some(Fitting::Link {
            target: path,
            points_to,
        })
    } else if metadata.is_dir() {
        Some(bind(path, Access::ReadOnly))
    } else {
        metadata.is_file().then(|| Fitting::Copy {
            source: path.clone(),
            target: path,
        })
    }
}

fn bind(path: impl Into<PathBuf>, access: Access) -> Fitting {
    let path = path.into();
    Fitting::Bind {
        source: path.clone(),
        target: path,
        access,
        idmap: None,
    }
}

fn folder(target: impl Into<PathBuf>) -> Fitting {
    Fitting::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

fn file(target: &str, content: impl Into<String>) -> Fitting {
    Fitting::File {
        target: target.into(),
        content: content.into(),
    }
}

fn link(target: &str, points_to: &str) -> Fitting {
    Fitting::Link {
        target: target.into(),
        points_to: points_to.into(),
    }
}

/// The entries that every root has, with the host's programs or an image.
fn inventory(limits: &Limits) -> Vec<Fitting> {
    let tmpfs = |target: &str, bytes: u64, mode| Fitting::Tmpfs {
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
                 {USER}:x:{UID}:{UID}:{USER}:{HOME}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        file(
            "/etc/group",
            format!("root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n"),
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
        Fitting::Proc {
            target: "/proc".into(),
        },
        tmpfs("/dev", 64 * 1024, 0o755),
    ];
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        all.push(bind(Path::new("/dev").join(device), Access::Device));
    }
    all.push(Fitting::Terminals {
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
        tmpfs(HOME, limits.memory / 4, 0o755),
        tmpfs("/run", (limits.memory / 16).min(16 << 20), 0o755),
    ]);
    all
}

/// Writable paths for Landlock. An image's root is an overlay that belongs to the sandbox alone.
pub(crate) fn writable(root: &RootSpec) -> Vec<PathBuf> {
    let paths: &[&str] = match root {
        RootSpec::Image(_) => &["/"],
        RootSpec::Host => &[
            WORKSPACE,
            "/tmp",
            HOME,
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
