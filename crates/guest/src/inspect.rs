//! Reports from `/proc`: resources in use, and the walls around this process.

use std::collections::HashMap;
use std::fs;
use std::rc::Rc;
use std::time::Duration;

use link::Stream;
use link::request::{GuestResult, ObservedWalls, ResourceUsage};

use crate::files::run_and_answer;
use crate::refusal::refuse;
use crate::session::Guest;

pub(crate) async fn stats(guest: &Rc<Guest>, stream: Stream) {
    run_and_answer(guest, stream, || Ok(read_stats())).await;
}

pub(crate) async fn walls(guest: &Rc<Guest>, stream: Stream) {
    run_and_answer(guest, stream, read_walls).await;
}

fn read_stats() -> ResourceUsage {
    let mut stats = ResourceUsage {
        cpu: Duration::ZERO,
        memory: 0,
        processes: 0,
        threads: 0,
    };
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().unwrap_or(4096) as u64;
    let tick = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK);
    let tick = tick.ok().flatten().unwrap_or(100) as u64;
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        // Skip `self`, `thread-self` and files.
        let name = process.file_name();
        if !name.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        let Some((_, fields)) = stat.rsplit_once(')') else {
            continue;
        };
        // The first of these is the state, which is field 3 of the file.
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| -> u64 {
            fields
                .get(number - 3)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0)
        };
        stats.processes += 1;
        stats.cpu += Duration::from_millis((field(14) + field(15)) * 1000 / tick);
        stats.threads += field(20) as u32;
        stats.memory += field(24) * page;
    }
    stats
}

fn read_walls() -> GuestResult<ObservedWalls> {
    let status = fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| refuse("read /proc/self/status", error))?;
    let fields: HashMap<&str, &str> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let field = |name: &str| fields.get(name).map_or("", |value| value.trim());
    // Some kernels do not report ambient capabilities, which are a subset of the permitted ones.
    let is_told = |name: &&str| *name != "CapAmb" || fields.contains_key("CapAmb");
    let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let capabilities = capabilities
        .into_iter()
        .filter(is_told)
        .map(|name| u64::from_str_radix(field(name), 16).unwrap_or(u64::MAX))
        .fold(0, |all, set| all | set);
    // By name, because the `ns` folder of an undumpable process cannot be listed.
    let namespaces = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        .into_iter()
        .filter_map(|name| {
            let identity = fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
            Some((name.to_owned(), identity.to_string_lossy().into_owned()))
        })
        .collect();
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let interfaces = interfaces
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect();
    Ok(ObservedWalls {
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        capabilities,
        no_new_privileges: nix::sys::prctl::get_no_new_privs().unwrap_or(false),
        seccomp: field("Seccomp").parse().unwrap_or(0),
        namespaces,
        interfaces,
        root_read_only: fs::write("/.hotcell-probe", "").is_err(),
    })
}
