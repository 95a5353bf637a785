//! Landlock, as a second layer behind the mounts. Allows reading and executing everywhere in the root,
//! and writing only to the paths that the plan lists. Scopes signals and abstract sockets to the sandbox.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

use crate::plan::LandlockStatus;

/// The newest version that this program knows. An older kernel enforces the part that it supports.
const LANDLOCK_ABI: ABI = ABI::V6;

/// Restricts this process and its descendants; `None` where the kernel has no Landlock.
pub(crate) fn restrict(writable: &[PathBuf]) -> io::Result<Option<LandlockStatus>> {
    let status = || -> Result<RulesetStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
            .scope(Scope::from_all(LANDLOCK_ABI))?
            .create()?;
        if let Ok(root) = PathFd::new("/") {
            rules = rules.add_rule(PathBeneath::new(root, AccessFs::from_read(LANDLOCK_ABI)))?;
        }
        for path in writable {
            // A path that does not exist in this root needs no rule.
            if let Ok(open) = PathFd::new(path) {
                let access = if path.is_dir() {
                    AccessFs::from_all(LANDLOCK_ABI)
                } else {
                    AccessFs::from_file(LANDLOCK_ABI)
                };
                rules = rules.add_rule(PathBeneath::new(open, access))?;
            }
        }
        Ok(rules.restrict_self()?.ruleset)
    };
    Ok(match status().map_err(io::Error::other)? {
        RulesetStatus::FullyEnforced => Some(LandlockStatus::Fully),
        RulesetStatus::PartiallyEnforced => Some(LandlockStatus::Partially),
        RulesetStatus::NotEnforced => None,
    })
}
