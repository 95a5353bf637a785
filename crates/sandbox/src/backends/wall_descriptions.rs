//! Descriptions of walls that several backends share.

use walls::plan::LandlockStatus;

use crate::spec::RootSpec;

pub(super) const UNPRIVILEGED: &str = "unprivileged user, no capabilities, no new privileges";
pub(super) const SECCOMP: &str = "seccomp allow-list";

/// The description of `/`.
pub(super) fn root(root: &RootSpec) -> &'static str {
    match root {
        RootSpec::Host => "root of its own, host programs read-only",
        RootSpec::Image(_) => "image under an overlay of its own",
    }
}

pub(crate) fn landlock(landlock: Option<LandlockStatus>) -> Option<String> {
    Some(match landlock? {
        LandlockStatus::Fully => "Landlock".into(),
        LandlockStatus::Partially => "Landlock (as far as the kernel has it)".into(),
    })
}
