//! State of processes from `/proc`: what they are, what they wait for, what they hold open.

use std::fs;

/// All descendants of a process, nearest first.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        for thread in entries(&format!("/proc/{parent}/task")) {
            let file = format!("/proc/{parent}/task/{thread}/children");
            let children = fs::read_to_string(file).unwrap_or_default();
            let children = children
                .split_whitespace()
                .filter_map(|pid| pid.parse::<i32>().ok());
            found.extend(children);
        }
    }
    found.remove(0);
    found
}

/// The name of a process, if it still exists.
pub(crate) fn name(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned())
}

/// Prints every process below this one.
pub(crate) fn print_all() {
    for pid in descendants(std::process::id() as i32) {
        print_one(pid);
    }
}

fn print_one(pid: i32) {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let arguments = read("cmdline").replace('\0', " ");
    println!("== {pid} {} [{arguments}]", read("comm").trim());
    for field in ["State", "PPid", "SigPnd", "ShdPnd", "SigBlk", "SigIgn"] {
        let status = read("status");
        let line = status.lines().find(|line| line.starts_with(field));
        println!("   {}", line.unwrap_or_default());
    }
    println!("   groups {}", read("cgroup").replace('\n', " "));
    for number in entries(&format!("/proc/{pid}/fd")) {
        let target = fs::read_link(format!("/proc/{pid}/fd/{number}"));
        println!("   fd {number} {}", target.unwrap_or_default().display());
    }
    for thread in entries(&format!("/proc/{pid}/task")) {
        let read = |file: &str| read(&format!("task/{thread}/{file}"));
        let (waits_in, call) = (read("wchan"), read("syscall"));
        println!(
            "   thread {thread} {}: {waits_in}, call {}",
            read("comm").trim(),
            call.trim()
        );
        for line in read("stack").lines() {
            println!("      {line}");
        }
    }
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}
