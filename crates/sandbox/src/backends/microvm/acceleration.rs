//! Whether machines run on the processor (KVM) or are emulated (TCG). A device that opens proves
//! nothing: where this machine is itself a virtual one, guests may die on it. So one is booted, once,
//! and the verdict is kept for this machine, kernel and QEMU.

use std::fs;
use std::path::Path;

use nix::unistd::{AccessFlags, access};

use super::blueprint::Blueprint;
use super::snapshot;
use crate::backends::machine::{self, key, stamp};
use crate::spec::SandboxSpec;

pub(super) const KVM: &str = "/dev/kvm";

/// What runs a machine's instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Acceleration {
    Kvm,
    Emulated {
        /// Why it is not KVM.
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

const WORKS: &str = "works";

/// The verdict for this machine, found by a boot where it is not known. The blueprint says what to
/// boot; how it is accelerated is what is asked.
pub(super) async fn acceleration(spec: &SandboxSpec, blueprint: &Blueprint) -> Acceleration {
    if let Some(reason) = obstacle() {
        return Acceleration::emulated(reason);
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let version = fs::read_to_string("/proc/version").unwrap_or_default();
    let verdict = key(&[
        release,
        version,
        stamp(Path::new(KVM)),
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
            WORKS => Acceleration::Kvm,
            reason => Acceleration::emulated(reason),
        };
    }
    let candidate = Blueprint {
        acceleration: Acceleration::Kvm,
        ..blueprint.clone()
    };
    let found = match snapshot::proves(spec, &candidate).await {
        Ok(()) => Acceleration::Kvm,
        Err(reason) => Acceleration::emulated(format!("{KVM} opens, but {reason}")),
    };
    if let Ok(file) = &file {
        let text = match &found {
            Acceleration::Kvm => WORKS,
            Acceleration::Emulated { reason } => reason,
        };
        // Not kept: then it is found out again.
        let _ = fs::write(file, text);
    }
    found
}

/// What stands in the way before anything is tried.
fn obstacle() -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = fs::metadata(KVM) else {
        return Some(format!("there is no {KVM}"));
    };
    let is_open = if nix::unistd::geteuid().is_root() {
        // QEMU runs as somebody else then, in the device's group.

        found.mode() & 0o006 == 0o006 || (found.mode() & 0o060 == 0o060 && found.gid() != 0)
    } else {
        access(KVM, AccessFlags::R_OK | AccessFlags::W_OK).is_ok()
    };
    (!is_open).then(|| format!("{KVM} is closed to the user that QEMU runs as"))
}
