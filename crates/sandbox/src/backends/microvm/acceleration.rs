//! Whether machines use KVM or are emulated (TCG). Opening the device proves nothing: on a host
//! that is itself a virtual machine, guests may crash. So one machine is booted once, and the
//! result is stored for this host, kernel and QEMU.

use std::fs;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use super::blueprint::Blueprint;
use super::snapshot;
use crate::backends::machine::{self, key, stamp};
use crate::spec::SandboxSpec;

pub(super) const KVM_PATH: &str = "/dev/kvm";

/// How a machine's instructions are executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acceleration {
    Kvm,
    Emulated {
        /// Why KVM is not used.
        reason: String,
    },
}

impl Acceleration {
    fn emulated(reason: impl Into<String>) -> Self {
        Self::Emulated {
            reason: reason.into(),
        }
    }
}

const KVM_WORKS: &str = "works";

/// The stored result for this host, or else the result of a boot. The acceleration of the blueprint
/// is ignored.
pub(super) async fn acceleration(spec: &SandboxSpec, blueprint: &Blueprint) -> Acceleration {
    if let Some(reason) = kvm_problem() {
        return Acceleration::emulated(reason);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = fs::read_to_string("/proc/version").unwrap_or_default();
    let verdict = key(&[
        release,
        version,
        stamp(Path::new(KVM_PATH)),
        stamp(&blueprint.qemu),
        stamp(&blueprint.kernel.image),
        blueprint.initramfs.key.clone(),
    ]);
    let folder = machine::folder(&spec.provisions.cache);
    let file = folder.map(|folder| folder.join(format!("kvm-{verdict}")));
    if let Ok(file) = &file
        && let Ok(kept) = fs::read_to_string(file)
    {
        return match kept.as_str() {
            KVM_WORKS => Acceleration::Kvm,
            reason => Acceleration::emulated(reason),
        };
    }
    let candidate = Blueprint {
        acceleration: Acceleration::Kvm,
        ..blueprint.clone()
    };
    let found = match snapshot::try_boot(spec, &candidate).await {
        Ok(()) => Acceleration::Kvm,
        Err(reason) => Acceleration::emulated(format!("{KVM_PATH} opens, but {reason}")),
    };
    if let Ok(file) = &file {
        let text = match &found {
            Acceleration::Kvm => KVM_WORKS,
            Acceleration::Emulated { reason } => reason,
        };
        // If it cannot be stored, it is determined again.
        let _ = fs::write(file, text);
    }
    found
}

/// The reason why KVM cannot work, as far as it is known without trying.
fn kvm_problem() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = fs::metadata(KVM_PATH) else {
        return Some(format!("there is no {KVM_PATH}"));
    };
    let is_open = if nix::unistd::geteuid().is_root() {
        // QEMU then runs as another user, in the device's group.

        found.mode() & 0o006 == 0o006 || (found.mode() & 0o060 == 0o060 && found.gid() != 0)
    } else {
        access(KVM_PATH, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
    };
    (!is_open).then(|| format!("{KVM_PATH} is closed to the user that QEMU runs as"))
}
