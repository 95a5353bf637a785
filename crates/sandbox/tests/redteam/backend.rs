//! The backends that the suite runs on.

use std::path::Path;

use sandbox::SandboxSpec;

use crate::under_test;

/// One kind of walls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestedBackend {
    pub(crate) name: &'static str,
    walls: sandbox::Backend,
}

/// The backend under test, which must hold.
pub(crate) fn tested() -> TestedBackend {
    let walls = under_test::backend();
    TestedBackend {
        name: walls.name(),
        walls,
    }
}

/// No walls, to check that the suite then fails.
pub(crate) const NONE: TestedBackend = TestedBackend {
    name: "none",
    walls: sandbox::Backend::None,
};

impl TestedBackend {
    pub(crate) fn spec(&self, workspace: &Path) -> SandboxSpec {
        SandboxSpec {
            backend: self.walls,
            ..under_test::spec(workspace)
        }
    }
}
