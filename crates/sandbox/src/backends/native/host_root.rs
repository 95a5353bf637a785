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

/// What programs need of `/etc` and what holds no secret.
const ETC: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "dictionaries-common",
    "fonts",
    "gai.conf",
    "gss",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "profile.d",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "redhat-release",
    "rpc",
    "selinux/config",
    "services",
    "shells",
    "skel",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
    "vim",
    "X11",
    "xdg",
];

/// What `/` holds when it is made of the host's.
pub(super) fn fittings() -> Vec<Fitting> {
    let mut fittings: Vec<Fitting> = PROGRAMS
        .iter()
        .filter_map(|path| shown(Path::new(path)))
        .collect();
    fittings.push(folder("/etc"));
    for name in ETC {
        let path = Path::new("/etc").join(name);
        if let Some(fitting) = shown(&path) {
            if let Some(parent) = path.parent().filter(|parent| *parent != Path::new("/etc")) {
                fittings.push(folder(parent));
            }
            fittings.push(fitting);
        }
    }
    for (target, content) in [
        (
            "/etc/nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
        ),
        ("/etc/host.conf", "multi on\n"),
    ] {
        fittings.retain(|fitting| !matches!(fitting, Fitting::Bind { target: other, .. } if other == Path::new(target)));
        fittings.push(file(target, content));
    }
    for (target, points_to) in [
        ("/var/tmp", "/tmp"),
        ("/var/run", "/run"),
        ("/var/lock", "/run"),
    ] {
        fittings.push(folder("/var"));
        fittings.push(link(target, points_to));
    }
    fittings
}

/// A host path as it is: a symlink as the same symlink, anything else read-only.
fn shown(path: &Path) -> Option<Fitting> {
    let metadata = fs::symlink_metadata(path).ok()?;
    if metadata.is_symlink() {
        let points_to = fs::read_link(path).ok()?;
        return Some(Fitting::Link {
            target: path.to_owned(),
            points_to,
        });
    }
    (metadata.is_dir() || metadata.is_file()).then(|| bind(path, Access::ReadOnly))
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
