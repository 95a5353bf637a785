//! The walls that the suite is played on.

use std::path::Path;

use sandbox::SandboxSpec;

/// One kind of walls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    walls: sandbox::Backend,
}

/// Every backend that must hold.
pub(crate) const ALL: &[Backend] = &[Backend {
    name: "native",
    walls: sandbox::Backend::Native,
}];

/// No walls, to see the suite fail.
pub(crate) const NONE: Backend = Backend {
    name: "none",
    walls: sandbox::Backend::None,
};

impl Backend {
    pub(crate) fn spec(&self, workspace: &Path) -> SandboxSpec {
        SandboxSpec {
            backend: self.walls,
            ..SandboxSpec::new(workspace)
        }
    }
}
