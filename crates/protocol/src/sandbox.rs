//! The choice of a sandbox (backend, strength of the isolation, limits), and what protects a running
//! one.
//!
//! Only names and facts; never starts anything. Entry types: [`Backend`], [`SandboxInfo`].

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// The sandbox backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobBackend))]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The strongest allowed backend that was proved to work on this machine; never `None`.
    #[default]
    Auto,
    Native,
    Podman,
    Docker,
    Gvisor,
    Microvm,
    Firecracker,
    Microsandbox,
    /// No walls at all. A local user must request it explicitly; it is never read from JSON, so
    /// that no request to a server can name it.
    #[serde(skip_deserializing)]
    None,
}

impl Backend {
    /// The backends with walls.
    pub const WALLED: [Self; 7] = [
        Self::Native,
        Self::Podman,
        Self::Docker,
        Self::Gvisor,
        Self::Microvm,
        Self::Firecracker,
        Self::Microsandbox,
    ];

    /// All backends, in display order.
    pub const ALL: [Self; 9] = [
        Self::Auto,
        Self::Native,
        Self::Podman,
        Self::Docker,
        Self::Gvisor,
        Self::Microvm,
        Self::Firecracker,
        Self::Microsandbox,
        Self::None,
    ];

    /// Parses a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it cannot show the host's programs and therefore needs an image.
    pub fn needs_image(self) -> bool {
        self.strength() == Strength::Vm
    }

    /// The name in settings and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
            Self::Firecracker => "firecracker",
            Self::Microsandbox => "microsandbox",
            Self::None => "none",
        }
    }

    /// The barrier between a command and the host's kernel. `Auto` has none of its own: it is as
    /// strong as the policy requires.
    pub fn strength(self) -> Strength {
        match self {
            Self::None | Self::Auto => Strength::None,
            Self::Native | Self::Podman | Self::Docker => Strength::Namespaces,
            Self::Gvisor => Strength::Kernel,
            Self::Microvm | Self::Firecracker | Self::Microsandbox => Strength::Vm,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// The isolation that an escape from the sandbox has to break, weakest first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobStrength))]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Nothing. Like [`Backend::None`], it is never read from JSON.
    #[default]
    #[serde(skip_deserializing)]
    None,
    /// The host's kernel, through namespaces and filters.
    Namespaces,
    /// A kernel in user space, then the host's.
    Kernel,
    /// A guest kernel in a virtual machine, then the host's.
    Vm,
}

impl Strength {
    /// Values that can be required.
    pub const REQUIRABLE: [Self; 3] = [Self::Namespaces, Self::Kernel, Self::Vm];

    /// Parses a name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = [Self::None].into_iter().chain(Self::REQUIRABLE);
        all.find(|one| one.name() == name)
    }

    /// The value of `--require`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespaces => "namespaces",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
        }
    }
}

/// Requested resource limits of the sandbox. The defaults apply where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobLimits))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 8_388_608))]
    pub memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0.01))]
    pub cpus: Option<f64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<u64>, minimum = 8, maximum = 4_294_967_295_i64)
    )]
    pub pids: Option<u32>,
    /// Bytes by which the workspace may grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1_048_576))]
    pub disk: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 16))]
    pub open_files: Option<u64>,
}

/// What protects a running sandbox, as all user interfaces show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobSandbox))]
pub struct SandboxInfo {
    #[serde(deserialize_with = "any_backend")]
    #[schemars(with = "String")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub backend: Backend,
    /// The isolation that an escape from the sandbox has to break: `namespaces`, `kernel` or
    /// `vm`; `none` without isolation. Absent from sessions of older releases.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "any_strength"
    )]
    #[schemars(with = "String")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = true))]
    pub strength: Option<Strength>,
    /// Why this backend was chosen.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub reason: String,
    /// The walls, each in a few words.
    pub walls: Vec<String>,
    /// Hosts that can be reached. Empty when the network is off.
    pub network: Vec<String>,
    /// Limits by name, each with its value and how it is enforced.
    // An older release did not send it with `ready`.
    #[serde(default)]
    #[schemars(!default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub limits: BTreeMap<String, String>,
    /// Whether it is a virtual machine that is emulated in software.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_emulated: bool,
}

impl SandboxInfo {
    /// The reason for a backend that was requested by name.
    pub const REQUESTED_REASON: &str = "asked for";

    /// A sandbox with a backend that was requested by name, without network.
    pub fn requested(backend: Backend, walls: Vec<String>) -> Self {
        Self {
            backend,
            strength: Some(backend.strength()),
            reason: Self::REQUESTED_REASON.to_owned(),
            walls,
            network: Vec::new(),
            limits: BTreeMap::new(),
            is_emulated: false,
        }
    }

    /// Whether commands are isolated from the machine at all.
    pub fn has_walls(&self) -> bool {
        self.backend != Backend::None
    }
}

/// Reads a backend that runs, which can be [`Backend::None`].
fn any_backend<'de, D: Deserializer<'de>>(input: D) -> Result<Backend, D::Error> {
    let name = String::deserialize(input)?;
    Backend::named(&name)
        .ok_or_else(|| serde::de::Error::custom(format!("there is no backend `{name}`")))
}

fn any_strength<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Strength>, D::Error> {
    Ok(Strength::named(&String::deserialize(input)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn names_are_the_json_form_and_parse_back() {
        for backend in Backend::ALL {
            assert_eq!(json!(backend), backend.name());
            assert_eq!(Backend::named(backend.name()), Some(backend));
            let is_read = from_value::<Backend>(json!(backend.name())).is_ok();
            assert_eq!(is_read, backend != Backend::None, "{backend}");
        }
        for strength in [Strength::None].into_iter().chain(Strength::REQUIRABLE) {
            assert_eq!(json!(strength), strength.name());
            assert_eq!(Strength::named(strength.name()), Some(strength));
            let is_read = from_value::<Strength>(json!(strength.name())).is_ok();
            assert_eq!(is_read, strength != Strength::None, "{strength:?}");
        }
    }

    #[test]
    fn a_running_sandbox_can_be_without_walls_and_from_an_older_release() {
        for backend in Backend::ALL {
            let info = SandboxInfo::requested(backend, vec!["seccomp".to_owned()]);
            assert_eq!(from_value::<SandboxInfo>(json!(info)).unwrap(), info);
        }
        let old = json!({"backend": "native", "walls": [], "network": ["pypi.org"]});
        let expect = SandboxInfo {
            strength: None,
            reason: String::new(),
            network: vec!["pypi.org".to_owned()],
            ..SandboxInfo::requested(Backend::Native, Vec::new())
        };
        assert_eq!(from_value::<SandboxInfo>(old).unwrap(), expect);
        let unknown = json!({"backend": "moat", "walls": [], "network": []});
        assert!(from_value::<SandboxInfo>(unknown).is_err());
    }
}
