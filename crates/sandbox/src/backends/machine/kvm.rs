//! Checks access to KVM. Only opens the device: whether a guest boots is only known after booting
//! one.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use protocol::Backend;

use crate::error::SandboxError;

/// Fails with a clear message if the device is missing or not accessible to this user.
pub(in crate::backends) fn check(device: &Path, backend: Backend) -> Result<(), SandboxError> {
    let Err(error) = OpenOptions::new().read(true).write(true).open(device) else {
        return Ok(());
    };
    let (reason, advice) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("this machine has no `{}`", device.display()),
            "switch virtualization on in its firmware, or nested virtualization on its host",
        ),
        io::ErrorKind::PermissionDenied => (
            format!("`{}` is closed to this user", device.display()),
            "`usermod --append --groups kvm $USER`, and log in again",
        ),
        _ => (
            format!("`{}` does not open: {error}", device.display()),
            "load the kernel's module: `modprobe kvm_intel` or `modprobe kvm_amd`",
        ),
    };
    Err(SandboxError::Unavailable {
        backend,
        reason,
        advice: Some(advice.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let check = |device: &Path, expect: Option<(&str, &str)>| match (
            super::check(device, Backend::Firecracker),
            expect,
        ) {
            (Ok(()), None) => {}
            (Err(error), Some((reason, hint))) => {
                assert!(error.to_string().contains(reason), "{error}");
                let said = error.hint().unwrap();
                assert!(said.contains(hint), "{said}");
            }
            (outcome, expect) => panic!("{outcome:?}, not {expect:?}"),
        };
        check(Path::new("/dev/null"), None);
        let missing = place.path().join("kvm");
        check(&missing, Some(("this machine has no `", "firmware")));
        check(place.path(), Some(("does not open", "modprobe")));
    }
}
