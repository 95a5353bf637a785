//! Everything that a probe result of a backend depends on: this release, the machine with its
//! kernel, the user, and the programs, sockets and devices that the backend uses.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, access, geteuid};
use protocol::Backend;
use sha2::Digest;

use crate::backend_config::{BackendConfig, find_program};
use crate::guest_program::GUEST_PROGRAM;

/// Equal as long as none of the facts has changed. A reboot is not a change.
pub(super) fn fingerprint(backend: Backend, provisions: &BackendConfig) -> String {
    let mut facts = String::new();
    let mut fact = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(facts, "{name}={value}");
    };
    fact("release", env!("CARGO_PKG_VERSION"));
    fact("guest", &GUEST_PROGRAM.len().to_string());
    fact("user", &geteuid().to_string());
    fact("kernel", &read_trimmed("/proc/sys/kernel/osrelease"));
    fact("machine", &read_trimmed("/etc/machine-id"));
    fact("processor", &cpu_model());
    fact("backend", backend.name());
    let containers = &provisions.containers;
    let gvisor = &provisions.gvisor;
    let machines = &provisions.machines;
    match backend {
        Backend::Native | Backend::None | Backend::Auto => {}
        Backend::Podman => {
            fact("podman", &program_fingerprint(&containers.podman));
            fact(
                "runtime",
                containers.podman_runtime.as_deref().unwrap_or("-"),
            );
        }
        Backend::Docker => {
            let socket = &containers.docker_socket;
            fact("socket", &socket.to_string_lossy());
            fact("is there", &socket.exists().to_string());
        }
        Backend::Gvisor => {
            fact("runsc", &program_fingerprint(&gvisor.runsc));
            fact("platform", gvisor.platform.as_deref().unwrap_or("-"));
        }
        Backend::Microvm => {
            fact("qemu", &program_fingerprint(&machines.qemu));
            fact("kernels", &kernel_fingerprint(machines.kernel.as_deref()));
            fact("kvm", &device_fingerprint(&machines.kvm));
        }
        Backend::Firecracker => {
            fact("firecracker", &program_fingerprint(&machines.firecracker));
            fact("jailer", &program_fingerprint(&machines.jailer));
            fact("kernels", &kernel_fingerprint(machines.kernel.as_deref()));
            fact("kvm", &device_fingerprint(&machines.kvm));
        }
        Backend::Microsandbox => {
            fact("msb", &program_fingerprint(&machines.microsandbox));
            fact("kvm", &device_fingerprint(&machines.kvm));
        }
    }
    let digest = sha2::Sha256::digest(facts.as_bytes());
    hex::encode(&digest[..16])
}

fn read_trimmed(file: &str) -> String {
    fs::read_to_string(file)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Included because a disk can be moved to another machine.
fn cpu_model() -> String {
    use std::io::Read;
    let mut beginning = [0; 4096];
    let read = fs::File::open("/proc/cpuinfo").and_then(|mut file| file.read(&mut beginning));
    let beginning = String::from_utf8_lossy(&beginning[..read.unwrap_or(0)]).into_owned();
    let mut lines = beginning.lines();
    let name = lines.find(|line| line.starts_with("model name"));
    name.unwrap_or_default().to_owned()
}

/// Identifies a version of a program file, so that an upgrade is noticed.
fn program_fingerprint(named: &Path) -> String {
    find_program(named).map_or("absent".to_owned(), |path| stamp(&path))
}

/// The configured kernel, or else the folder that is searched for one.
fn kernel_fingerprint(named: Option<&Path>) -> String {
    stamp(named.unwrap_or(Path::new("/boot")))
}

fn stamp(path: &Path) -> String {
    match fs::metadata(path) {
        Ok(found) => format!(
            "{} {} {}.{}",
            path.display(),
            found.size(),
            found.mtime(),
            found.mtime_nsec()
        ),
        Err(_) => "absent".to_owned(),
    }
}

/// Includes access, because group membership changes whether this user may open it.
fn device_fingerprint(path: &Path) -> String {
    let is_open = access(path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok();
    match fs::metadata(path) {
        Ok(found) => format!("{:o} {} {is_open}", found.mode(), found.gid()),
        Err(_) => "absent".to_owned(),
    }
}
