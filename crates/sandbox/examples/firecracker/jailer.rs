//! The jailer: checks its arguments as documented, changes into the folder and to the user, and
//! continues as Firecracker without an exec, because a jail has no libraries.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, chdir, chroot, getpid, setgroups, setresgid, setresuid};

use crate::{Behaviour, check_id, serve};

const SINGLE_OPTIONS: &[&str] = &[
    "--id",
    "--exec-file",
    "--uid",
    "--gid",
    "--chroot-base-dir",
    "--cgroup-version",
    "--parent-cgroup",
];

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let mut given: HashMap<&str, &str> = HashMap::new();
    let mut rest = arguments.iter();
    let mut api_socket = "/run/firecracker.socket".to_owned();
    while let Some(flag) = rest.next() {
        if flag == "--" {
            match rest.as_slice() {
                [name, path] if name == "--api-sock" => api_socket = path.clone(),
                other => return Err(format!("unknown arguments for Firecracker: {other:?}")),
            }
            break;
        }
        let value = rest.next().ok_or(format!("`{flag}` needs a value"))?;
        match flag.as_str() {
            "--cgroup" if value.contains('=') => {}
            flag if SINGLE_OPTIONS.contains(&flag) => {
                if given.insert(flag, value).is_some() {
                    return Err(format!("`{flag}` was given twice"));
                }
            }
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    let need = |name: &str| {
        given
            .get(name)
            .copied()
            .ok_or(format!("`{name}` is missing"))
    };
    let id = need("--id")?;
    check_id(id)?;
    let program = PathBuf::from(need("--exec-file")?);
    let name = program
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or("`--exec-file` has no name")?;
    if !program.is_file() || !name.contains("firecracker") {
        return Err(format!("`{name}` is not Firecracker"));
    }
    let number = |flag: &str| -> Result<u32, String> {
        need(flag)?
            .parse()
            .map_err(|_| format!("`{flag}` is no number"))
    };
    let (uid, gid) = (number("--uid")?, number("--gid")?);
    let root = Path::new(need("--chroot-base-dir")?)
        .join(name)
        .join(id)
        .join("root");
    enter(&root, &program, uid, gid)?;
    serve(Behaviour::of(name), Path::new("/"), Path::new(&api_socket))
}

/// The steps of the documentation that need no device.
fn enter(root: &Path, program: &Path, uid: u32, gid: u32) -> Result<(), String> {
    let words = |error: std::io::Error| error.to_string();
    let errno = |error: nix::Error| error.to_string();
    // It must be held by process 1 of a namespace, which ends it.
    if getpid().as_raw() != 1 {
        return Err("not in a process namespace of its own".into());
    }
    fs::create_dir_all(root).map_err(words)?;
    let copy = root.join(program.file_name().unwrap_or_default());
    fs::copy(program, copy).map_err(words)?;
    chown(root, Some(uid), Some(gid)).map_err(words)?;
    chroot(root).map_err(errno)?;
    chdir("/").map_err(errno)?;
    setgroups(&[]).map_err(errno)?;
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setresgid(gid, gid, gid).map_err(errno)?;
    setresuid(uid, uid, uid).map_err(errno)?;
    if fs::metadata("/").map_err(words)?.uid() == uid.as_raw() {
        Ok(())
    } else {
        Err("the root of the jail belongs to somebody else".into())
    }
}
