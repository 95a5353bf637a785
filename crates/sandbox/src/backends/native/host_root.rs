//! The host's own programs as a root: what of the host is shown inside, and what is made up.
//!
//! A list of what is shown, never of what is hidden: a secret that nobody thought of stays out.

use std::fs;
use std::path::{Path, PathBuf};

use walls::plan::{Access, Fitting};

/// Folders of programs and libraries. On most systems all but `/usr` are symlinks into it.
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

/// Folders of `/etc` that programs need and that hold no secret.
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

/// Small files of `/etc` of the same kind.
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

/// What `/` holds when it is made of the host's.
pub(super) fn fittings() -> Vec<Fitting> {
    let mut fittings: Vec<Fitting> = PROGRAMS
        .iter()
        .filter_map(|path| shown(path.into()))
        .collect();
    fittings.extend([folder("/etc"), folder("/var")]);
    for parent in ["/etc/ssl", "/etc/pki/tls"] {
        if Path::new(parent).exists() {
            fittings.push(folder(parent));
        }
    }
    let etc = ETC_FOLDERS.iter().chain(ETC_FILES);
    fittings.extend(etc.filter_map(|name| shown(Path::new("/etc").join(name))));
    let lookups = "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n";
    fittings.push(file("/etc/nsswitch.conf", lookups));
    fittings.extend([
        link("/var/tmp", "/tmp"),
        link("/var/run", "/run"),
        link("/var/lock", "/run"),
    ]);
    fittings
}

/// A host path as it is: a symlink as the same symlink, a folder read-only, a file as a copy.
fn shown(path: PathBuf) -> Option<Fitting> {
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

pub(super) fn bind(path: impl Into<PathBuf>, access: Access) -> Fitting {
    let path = path.into();
    Fitting::Bind {
        source: path.clone(),
        target: path,
        access,
        idmap: None,
    }
}

pub(super) fn folder(target: impl Into<PathBuf>) -> Fitting {
    Fitting::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

pub(super) fn file(target: &str, content: impl Into<String>) -> Fitting {
    Fitting::File {
        target: target.into(),
        content: content.into(),
    }
}

pub(super) fn link(target: &str, points_to: &str) -> Fitting {
    Fitting::Link {
        target: target.into(),
        points_to: points_to.into(),
    }
}
