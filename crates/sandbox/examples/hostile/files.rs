//! Lines 1 to 17: files of others, through every kind of path.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Attack, AttackArguments, breach, check, held, in_child, judge, refused};

pub(crate) const ATTACKS: &[Attack] = &[
    ("dot-dot", dot_dot),
    ("absolute-path", absolute_path),
    ("prefix-sibling", prefix_sibling),
    ("symlink-leaf", symlink_leaf),
    ("symlink-parent", symlink_parent),
    ("dangling-symlink", dangling_symlink),
    ("swap-leaf", swap_leaf),
    ("swap-parent", swap_parent),
    ("swap-fifo", swap_fifo),
    ("hard-link", hard_link),
    ("proc-self-root", proc_self_root),
    ("proc-1", proc_1),
    ("descriptors", descriptors),
    ("protected", protected),
    ("alias", alias),
    ("device", device),
    ("planted-device", planted_device),
    ("fifo", fifo),
    ("planted-setuid", planted_setuid),
    ("leave-setuid", leave_setuid),
    ("become-root", become_root),
    ("odd-exec", odd_exec),
    ("whoami", whoami),
    ("plant-configuration", plant_configuration),
];

fn c(path: impl AsRef<Path>) -> CString {
    CString::new(path.as_ref().to_str().unwrap()).unwrap()
}

/// Reads a little. A readable canary is a breach, and its content is printed for the suite.
fn read(path: impl AsRef<Path>) {
    use io::Read;
    let path = path.as_ref();
    let mut start = [0; 200];
    let read = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        file.read(&mut start)
    };
    let name = path.display().to_string();
    match { read }() {
        Ok(length) if name.contains("canary") => {
            breach(format_args!(
                "read {name}: {:?}",
                String::from_utf8_lossy(&start[..length])
            ));
        }
        other => judge_at(path, format_args!("read {name}"), other),
    }
}

/// Folders of a root that belongs to the sandbox alone.
const ROOT: &[&str] = &[
    "/etc", "/usr", "/bin", "/lib", "/root", "/boot", "/srv", "/mnt", "/var", "/home",
];

/// Judges an operation on a path: in its own root nearly everything is allowed, and the suite
/// checks whether it had an effect outside.
fn judge_at<T>(path: &Path, what: impl std::fmt::Display, result: io::Result<T>) {
    let led_to = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_own = || led_to == Path::new("/") || ROOT.iter().any(|one| led_to.starts_with(one));
    // Made in its own `/`, or in its own `/dev` and `/sys`.
    let is_new = || {
        let made = ["/", "/dev", "/sys"].map(|folder| Path::new(folder).join("hostile-was-here"));
        made.contains(&led_to)
    };
    match result {
        Ok(_) if super::has_own_root() && (is_own() || is_new()) => {
            held(format_args!("{what}: its own"));
        }
        result => judge(what, result),
    }
}

fn list(path: impl AsRef<Path>) {
    let path = path.as_ref();
    // An empty folder reveals nothing.
    let first = fs::read_dir(path).and_then(|mut names| {
        let nothing = std::io::Error::from(std::io::ErrorKind::NotFound);
        names.next().unwrap_or(Err(nothing))
    });
    let what = format!("list {}", path.display());
    match first {
        Ok(_) if path == Path::new("/sys") && super::has_own_kernel() => {
            held(format_args!("{what}: of its own kernel"));
        }
        first => judge_at(path, what, first),
    }
}

fn overwrite(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let write = || {
        OpenOptions::new()
            .append(true)
            .open(path)?
            .write_all(b"pwned")
    };
    judge_at(path, format_args!("write {}", path.display()), write());
}

fn create(path: impl AsRef<Path>) {
    let path = path.as_ref();
    let options = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
    };
    judge_at(path, format_args!("create {}", path.display()), options());
}

fn touch_canary(path: &Path) {
    read(path);
    overwrite(path);
    if let Some(folder) = path.parent() {
        list(folder);
        create(folder.join("created"));
    }
}

fn dot_dot(world: &AttackArguments) {
    let canary = world.text("canary").trim_start_matches('/');
    for depth in 1..=12 {
        touch_canary(&Path::new(&"../".repeat(depth)).join(canary));
    }
    // One level at a time.
    for _ in 0..12 {
        std::env::set_current_dir("..").unwrap();
    }
    touch_canary(Path::new(canary));
}

fn absolute_path(world: &AttackArguments) {
    touch_canary(Path::new(world.text("canary")));
    list(world.text("workspace"));
    for path in [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/machine-id",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/vmallocinfo",
        "/proc/slabinfo",
        "/proc/pagetypeinfo",
        "/var/log/dpkg.log",
        "/var/lib/dpkg/status",
    ] {
        read(path);
    }
    for path in [
        "/root", "/boot", "/srv", "/mnt", "/var/lib", "/var/log", "/sys", "/work",
    ] {
        list(path);
    }
}

fn prefix_sibling(world: &AttackArguments) {
    let evil = format!("{}-evil", world.text("workspace"));
    touch_canary(&Path::new(&evil).join("canary"));
    for path in ["../workspace-evil/canary", "/workspace-evil/canary"] {
        touch_canary(Path::new(path));
    }
}

fn symlink_leaf(world: &AttackArguments) {
    symlink(world.text("canary"), "canary-link").unwrap();
    read("canary-link");
    overwrite("canary-link");
    symlink("/etc/shadow", "shadow").unwrap();
    read("shadow");
}

fn symlink_parent(world: &AttackArguments) {
    let canary = Path::new(world.text("canary"));
    symlink(canary.parent().unwrap(), "parent").unwrap();
    touch_canary(&Path::new("parent").join("canary"));
}

fn dangling_symlink(world: &AttackArguments) {
    let folder = Path::new(world.text("canary")).parent().unwrap();
    symlink(folder.join("created"), "dangling").unwrap();
    create("dangling");
}

/// Exchanges pairs of names without end, while the suite reads and writes.
fn exchange_for_ever(pairs: &[(String, String)]) {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(one, other)| (c(one), c(other)))
        .collect();
    held("exchanging");
    for (one, other) in pairs.iter().cycle() {
        unsafe {
            libc::renameat2(
                libc::AT_FDCWD,
                one.as_ptr(),
                libc::AT_FDCWD,
                other.as_ptr(),
                libc::RENAME_EXCHANGE,
            )
        };
    }
}

fn swap_leaf(world: &AttackArguments) {
    fs::write("swapped", "harmless").unwrap();
    symlink(world.text("canary"), "swapped.link").unwrap();
    exchange_for_ever(&[("swapped".into(), "swapped.link".into())]);
}

fn swap_parent(world: &AttackArguments) {
    fs::create_dir("folder").unwrap();
    fs::write("folder/canary", "harmless").unwrap();
    let secret = Path::new(world.text("canary")).parent().unwrap();
    symlink(secret, "folder.link").unwrap();
    exchange_for_ever(&[("folder".into(), "folder.link".into())]);
}

/// Regular files that are replaced by pipes before they are opened, and the reverse.
fn swap_fifo(_: &AttackArguments) {
    fs::create_dir("pipes").unwrap();
    fs::create_dir("others").unwrap();
    let pairs = (0..32).map(|number| {
        let (file, pipe) = (format!("pipes/{number}"), format!("others/{number}"));
        fs::write(&file, "harmless\n").unwrap();
        make_fifo(&pipe);
        (file, pipe)
    });
    exchange_for_ever(&pairs.collect::<Vec<_>>());
}

fn hard_link(world: &AttackArguments) {
    let link = |from: &str, flags: i32| {
        let (from_path, to) = (c(from), c("alias"));
        let returned = unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from_path.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                flags,
            )
        };
        refused(format_args!("link {from}"), returned.into());
        let _ = fs::remove_file("alias");
    };
    link(world.text("canary"), 0);
    link("/usr/bin/env", 0);
    link("/etc/passwd", 0);
    link(
        &format!("/proc/self/root{}", world.text("canary")),
        libc::AT_SYMLINK_FOLLOW,
    );
    let open = File::open("/usr/bin/env").unwrap();
    link(
        &format!("/proc/self/fd/{}", open.as_raw_fd()),
        libc::AT_SYMLINK_FOLLOW,
    );
    let to = c("alias");
    let returned = unsafe {
        libc::linkat(
            open.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    refused("link an open file", returned.into());
}

fn proc_self_root(world: &AttackArguments) {
    let canary = world.text("canary");
    for root in [
        "/proc/self/root",
        "/proc/thread-self/root",
        "/proc/self/task/self/root",
        "/proc/self/cwd/../..",
        "/proc/self/cwd/../../..",
        "/proc/self/root/proc/self/root/..",
    ] {
        touch_canary(Path::new(&format!("{root}{canary}")));
    }
}

fn proc_1(world: &AttackArguments) {
    let parent = std::os::unix::process::parent_id();
    for pid in [1, parent] {
        touch_canary(Path::new(&format!(
            "/proc/{pid}/root{}",
            world.text("canary")
        )));
        for file in ["environ", "maps", "mem", "auxv", "syscall", "stack", "io"] {
            read(format!("/proc/{pid}/{file}"));
        }
        overwrite(format!("/proc/{pid}/mem"));
        overwrite(format!("/proc/{pid}/oom_score_adj"));
        for folder in ["fd", "fdinfo", "map_files", "cwd", "root"] {
            list(format!("/proc/{pid}/{folder}"));
        }
        judge(
            format_args!("follow /proc/{pid}/exe"),
            fs::read_link(format!("/proc/{pid}/exe")),
        );
        for descriptor in 0..16 {
            let path = format!("/proc/{pid}/fd/{descriptor}");
            judge(
                format_args!("open {path}"),
                OpenOptions::new().write(true).open(&path),
            );
        }
    }
}

/// `rightful` lists the descriptors that a command of this kind should have.
fn descriptors(world: &AttackArguments) {
    let rightful = world.list("rightful");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        // The descriptor of this listing itself.
        if target.to_string_lossy().ends_with("/fd") {
            continue;
        }
        found.push((entry.file_name().into_string().unwrap(), target));
    }
    for (number, target) in found {
        let target = target.display();
        if rightful.contains(&&*number) {
            held(format_args!("descriptor {number} is {target}"))
        } else {
            breach(format_args!("descriptor {number} is {target}"))
        }
        if target.to_string().starts_with("socket:") {
            breach(format_args!("descriptor {number} is a socket"));
        }
    }
    let canary = c(world.text("canary"));
    let below = c(format!("../../../../../..{}", world.text("canary")));
    for descriptor in 0..256 {
        let folder = unsafe { libc::openat(descriptor, c".".as_ptr(), libc::O_PATH) };
        if folder >= 0 {
            breach(format_args!("descriptor {descriptor} is a folder"));
        }
        for path in [&canary, &below] {
            if unsafe { libc::openat(descriptor, path.as_ptr(), libc::O_RDONLY) } >= 0 {
                breach(format_args!("opened the canary at descriptor {descriptor}"));
            }
        }
    }
    held("no folder among the descriptors");
}

fn protected(_: &AttackArguments) {
    for path in [
        "/etc/shadow",
        "/etc/ld.so.preload",
        "/etc/sudoers.d/hostile",
        "/etc/cron.d/hostile",
        "/root/.ssh/authorized_keys",
        "/usr/bin/hostile-was-here",
        "/usr/local/bin/hostile-was-here",
        "/lib/hostile-was-here",
        "/hostile-was-here",
        "/dev/hostile-was-here",
        "/var/hostile-was-here",
        "/sys/hostile-was-here",
        "/home/hostile-was-here",
    ] {
        create(path);
    }
    for path in [
        "/etc/passwd",
        "/etc/hosts",
        "/etc/ld.so.cache",
        "/usr/bin/env",
        "/bin/sh",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/user/max_user_namespaces",
        "/proc/sysrq-trigger",
        "/proc/self/uid_map",
        "/proc/self/gid_map",
        "/proc/self/setgroups",
        "/proc/self/attr/current",
    ] {
        overwrite(path);
    }
    let (root, usr) = (Path::new("/"), Path::new("/usr"));
    judge_at(usr, "remove /etc/passwd", fs::remove_file("/etc/passwd"));
    let renamed = fs::rename("/usr", "/usr-old");
    if renamed.is_ok() {
        // The suite still needs this sandbox.
        fs::rename("/usr-old", "/usr").unwrap();
    }
    judge_at(usr, "rename /usr", renamed);
    judge("rename /workspace", fs::rename("/workspace", "/elsewhere"));
    let open = fs::set_permissions("/", fs::Permissions::from_mode(0o777));
    judge_at(root, "chmod /", open);
    let made = fs::create_dir("/hostile-folder");
    judge_at(root, "make a folder in /", made);
    let chown = unsafe { libc::chown(c"/usr/bin/env".as_ptr(), libc::getuid(), libc::getgid()) };
    judge_at(usr, "chown /usr/bin/env", check(chown.into()));
}

fn alias(world: &AttackArguments) {
    let canary = world.text("canary");
    for path in [
        canary.to_uppercase(),
        canary.replace('c', "\u{441}"),
        canary.replace('/', "\u{2215}"),
        canary.replace("canary", "Canary"),
        canary.replace("canary", "canary."),
        canary.replace("canary", "canary "),
        canary.replace('/', "//"),
        canary.replace('/', "/./"),
        format!("{canary}/."),
        format!("/workspace{canary}"),
        "/ETC/SHADOW".into(),
        "/etc/\u{17f}hadow".into(),
        "/etc//shadow".into(),
    ] {
        read(path);
    }
}

fn make_fifo(path: &str) {
    let path = c(path);
    check(unsafe { libc::mkfifo(path.as_ptr(), 0o644) }.into()).unwrap();
}

fn device(_: &AttackArguments) {
    let devices = [
        ("mem", 1, 1),
        ("kmsg", 1, 11),
        ("kvm", 10, 232),
        ("null", 1, 3),
    ];
    for folder in [".", "/tmp", "/dev", "/dev/shm", "/run"] {
        for (name, major, minor) in devices {
            let path = format!("{folder}/made-{name}");
            let kinds = [(libc::S_IFCHR, "character"), (libc::S_IFBLK, "block")];
            for (kind, kind_name) in kinds {
                let number = libc::makedev(major, minor);
                let raw = c(&path);
                let made = unsafe { libc::mknod(raw.as_ptr(), kind | 0o666, number) };
                refused(format_args!("mknod {kind_name} {path}"), made.into());
                let made =
                    unsafe { libc::mknodat(libc::AT_FDCWD, raw.as_ptr(), kind | 0o666, number) };
                refused(format_args!("mknodat {kind_name} {path}"), made.into());
            }
        }
    }
}

/// The host's root put a device node into the workspace.
fn planted_device(_: &AttackArguments) {
    assert!(
        fs::symlink_metadata("planted")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    judge("open a planted device", File::open("planted"));
    judge(
        "write a planted device",
        OpenOptions::new().write(true).open("planted"),
    );
}

/// Names that could block the host; the suite then reads them.
fn fifo(world: &AttackArguments) {
    for name in world.list("names") {
        make_fifo(name);
    }
    held("planted");
}

/// The host's root put a setuid program that prints user ids into the workspace.
fn planted_setuid(_: &AttackArguments) {
    let planted = fs::metadata("planted-id").unwrap();
    assert_eq!(planted.permissions().mode() & 0o4000, 0o4000, "not setuid");
    let own = unsafe { (libc::getuid(), libc::getgid()) };
    for (flag, own) in [("-u", own.0), ("-g", own.1)] {
        let output = Command::new("./planted-id").arg(flag).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if shown == own.to_string() {
            held(format_args!("a setuid program stays {shown}"))
        } else {
            breach(format_args!("a setuid program became {shown}"))
        }
    }
}

/// Setuid files, left for users of the host.
fn leave_setuid(_: &AttackArguments) {
    for (name, bits) in [("setuid", 0o4755), ("setgid", 0o2755)] {
        let plain = |way: &str| {
            let path = format!("{name}-{way}");
            fs::write(&path, "#!/bin/sh\n").unwrap();
            c(path)
        };
        let path = plain("chmod");
        refused(
            format_args!("chmod {name}"),
            unsafe { libc::chmod(path.as_ptr(), bits) }.into(),
        );
        let path = plain("fchmod");
        let open = File::open(path.to_str().unwrap()).unwrap();
        let returned = unsafe { libc::fchmod(open.as_raw_fd(), bits) };
        refused(format_args!("fchmod {name}"), returned.into());
        let path = plain("fchmodat");
        let returned =
            unsafe { libc::syscall(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), bits) };
        refused(format_args!("fchmodat {name}"), returned);
        let path = plain("fchmodat2");
        let returned = unsafe { libc::syscall(452, libc::AT_FDCWD, path.as_ptr(), bits, 0) };
        refused(format_args!("fchmodat2 {name}"), returned);

        let path = c(format!("{name}-open"));
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        left(
            name,
            "open",
            check(unsafe { libc::open(path.as_ptr(), flags, bits) }.into()),
        );
        let path = c(format!("{name}-creat"));
        left(
            name,
            "creat",
            check(unsafe { libc::creat(path.as_ptr(), bits) }.into()),
        );
        let path = c(format!("{name}-mknod"));
        let mode = libc::S_IFREG | bits;
        left(
            name,
            "mknod",
            check(unsafe { libc::mknod(path.as_ptr(), mode, 0) }.into()),
        );
        let path = c(format!("{name}-openat2"));
        let how: [u64; 3] = [flags as u64, u64::from(bits), 0];
        let returned = unsafe {
            libc::syscall(
                libc::SYS_openat2,
                libc::AT_FDCWD,
                path.as_ptr(),
                how.as_ptr(),
                size_of_val(&how),
            )
        };
        left(name, "openat2", check(returned));
    }
}

/// Opening may succeed; the resulting mode counts.
fn left(name: &str, way: &str, made: io::Result<i64>) {
    match (made, fs::metadata(format!("{name}-{way}"))) {
        (Ok(_), Ok(file)) if file.mode() & 0o6000 != 0 => breach(format_args!("{way} {name}")),
        (Err(error), _) => held(format_args!("{way} {name}: {error}")),
        _ => held(format_args!("{way} {name}: the bits were dropped")),
    }
}

fn become_root(_: &AttackArguments) {
    unsafe {
        refused("setuid", libc::syscall(libc::SYS_setuid, 0));
        refused("setgid", libc::syscall(libc::SYS_setgid, 0));
        refused("setresuid", libc::syscall(libc::SYS_setresuid, 0, 0, 0));
        refused("setresgid", libc::syscall(libc::SYS_setresgid, 0, 0, 0));
        let groups = [0u32];
        refused(
            "setgroups",
            libc::syscall(libc::SYS_setgroups, 1, groups.as_ptr()),
        );
        let header: [u32; 2] = [0x2008_0522, 0];
        let everything = [u32::MAX; 6];
        let returned = libc::syscall(libc::SYS_capset, header.as_ptr(), everything.as_ptr());
        refused("capset", returned);
        let raise = libc::PR_CAP_AMBIENT_RAISE as u64;
        let returned = libc::prctl(libc::PR_CAP_AMBIENT, raise, 21u64, 0u64, 0u64);
        refused("raise an ambient capability", returned.into());
        let returned = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 0u64, 0u64, 0u64, 0u64);
        refused("take no-new-privileges back", returned.into());
        refused(
            "set secure bits",
            libc::prctl(libc::PR_SET_SECUREBITS, 0u64).into(),
        );
    }
    // Programs that are setuid on every machine.
    for program in [
        "/usr/bin/su",
        "/usr/bin/newgrp",
        "/usr/bin/passwd",
        "/usr/bin/mount",
    ] {
        let setuid = fs::metadata(program).is_ok_and(|file| file.mode() & 0o4000 != 0);
        if !setuid {
            continue;
        }
        let mut child = Command::new(program)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let uids = status.unwrap_or_default();
        let uids = uids
            .lines()
            .find(|line| line.starts_with("Uid:"))
            .unwrap_or_default();
        let _ = child.kill();
        let _ = child.wait();
        if uids.split_whitespace().skip(1).any(|uid| uid == "0") {
            breach(format_args!("{program} runs as {uids}"))
        } else {
            held(format_args!("{program} runs as {uids:?}"))
        }
    }
}

fn whoami(_: &AttackArguments) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    for (key, good) in [
        ("Uid:", "1000 1000 1000 1000"),
        ("Gid:", "1000 1000 1000 1000"),
        ("CapInh:", "0000000000000000"),
        ("CapPrm:", "0000000000000000"),
        ("CapEff:", "0000000000000000"),
        ("CapBnd:", "0000000000000000"),
        ("CapAmb:", "0000000000000000"),
        ("NoNewPrivs:", "1"),
        ("Seccomp:", "2"),
    ] {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        // Some kernels do not list everything, but answer a system call.
        let line = line.map_or_else(|| asked(key), str::to_owned);
        let value = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if value == good {
            held(format_args!("{key} {value}"))
        } else {
            breach(format_args!("{key} {value}"))
        }
    }
}

/// The kernel's answer to a system call about this process.
fn asked(key: &str) -> String {
    match key {
        "NoNewPrivs:" => unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) }.to_string(),
        "CapAmb:" => {
            // A kernel without capabilities does not know this call.
            let has = |capability: u64| unsafe {
                let question = libc::PR_CAP_AMBIENT_IS_SET;
                libc::prctl(libc::PR_CAP_AMBIENT, question, capability, 0, 0) == 1
            };
            let all = (0..64).filter(|capability| has(*capability));
            format!("{:016x}", all.fold(0u64, |set, one| set | 1 << one))
        }
        _ => String::new(),
    }
}

/// Starting a program in an unusual way is allowed and gains nothing.
fn odd_exec(_: &AttackArguments) {
    let itself = fs::read("/proc/self/exe").unwrap();
    let raw = check(unsafe { libc::memfd_create(c"hostile".as_ptr(), 0) }.into()).unwrap();
    let mut memory = unsafe { File::from_raw_fd(raw as i32) };
    memory.write_all(&itself).unwrap();
    let path = PathBuf::from(format!("/proc/self/fd/{raw}"));
    let mut ways = vec![Command::new(path)];
    let loader = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
    if let Some(loader) = loader.iter().find(|path| Path::new(path).exists()) {
        let mut command = Command::new(loader);
        command.arg("./hostile");
        ways.push(command);
    }
    fs::copy("/proc/self/exe", "/tmp/hostile-copy").unwrap();
    ways.push(Command::new("/tmp/hostile-copy"));
    for mut way in ways {
        let shown = way.arg("whoami").output().unwrap();
        assert!(shown.status.success(), "{shown:?}");
        io::stdout().write_all(&shown.stdout).unwrap();
    }
    // An unreadable program cannot be traced, and still runs behind the walls.
    fs::set_permissions("/tmp/hostile-copy", fs::Permissions::from_mode(0o111)).unwrap();
    let status = in_child(|| {
        let arguments = [c"hostile".as_ptr(), c"whoami".as_ptr(), std::ptr::null()];
        unsafe { libc::execv(c"/tmp/hostile-copy".as_ptr(), arguments.as_ptr()) };
        9
    });
    held(format_args!("an unreadable program ended with {status}"));
}

/// Files that other tools would execute if they trusted this folder.
fn plant_configuration(world: &AttackArguments) {
    let trap = world.text("trap");
    let touch = format!("touch {trap}");
    let script = format!("#!/bin/sh\n{touch}\n");
    for folder in [
        ".git/hooks",
        ".git/info",
        "nested/.git/hooks",
        ".vscode",
        ".claude",
        ".hotcell",
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    let config = format!(
        "[core]\n\tfsmonitor = {touch}\n\thooksPath = .git/hooks\n\tsshCommand = {touch}\n\
         [filter \"x\"]\n\tclean = {touch}\n\tsmudge = {touch}\n[diff \"x\"]\n\ttextconv = {touch}\n"
    );
    let settings = format!("{{\"hooks\":[{{\"command\":\"{touch}\"}}],\"command\":\"{touch}\"}}\n");
    for (path, content) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", &config),
        (".git/info/exclude", "*.hidden\n"),
        (".gitattributes", "* filter=x diff=x\n"),
        (
            ".gitmodules",
            &format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::{touch}\n"),
        ),
        (".mcp.json", &settings),
        (".vscode/tasks.json", &settings),
        (".vscode/settings.json", &settings),
        (".claude/settings.json", &settings),
        (".hotcell/config.toml", &format!("command = \"{touch}\"\n")),
        (
            ".env",
            &format!("LD_PRELOAD=./evil.so\nPATH=.\nBASH_ENV={trap}\n"),
        ),
        (".bashrc", &touch),
        ("--upload-pack=touch", "a file name that is an option\n"),
    ] {
        fs::write(path, content).unwrap();
    }
    for hook in [
        "pre-commit",
        "post-checkout",
        "post-index-change",
        "fsmonitor-watchman",
    ] {
        for folder in [".git/hooks", "nested/.git/hooks"] {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o755);
            options
                .open(Path::new(folder).join(hook))
                .and_then(|mut file| file.write_all(script.as_bytes()))
                .unwrap();
        }
    }
    held("planted");
}
