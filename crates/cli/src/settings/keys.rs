//! The table of all settings.

/// One setting.
#[derive(Debug)]
pub(crate) struct SettingKey {
    /// Name in the settings file; a dot separates a table.
    pub(crate) name: &'static str,
    /// Name of its environment variable.
    pub(crate) variable: Option<&'static str>,
    /// Whether `.env` may set it: keys, and the model with its numbers. Never a path, an address, a backend
    /// or a policy, because a sandbox may have written that file.
    pub(crate) in_env_file: bool,
    pub(crate) default: Option<&'static str>,
    /// Never shown in full.
    pub(crate) is_secret: bool,
}

pub(crate) const DEFAULT_MODEL: &str = "claude-sonnet-4-5-20250929";
pub(crate) const DEFAULT_WORKSPACE: &str = "./workspace";

const fn key(
    name: &'static str,
    variable: Option<&'static str>,
    default: Option<&'static str>,
) -> SettingKey {
    SettingKey {
        name,
        variable,
        in_env_file: false,
        default,
        is_secret: false,
    }
}

/// A setting of the model, which `.env` may set.
const fn model_key(
    name: &'static str,
    variable: &'static str,
    default: Option<&'static str>,
) -> SettingKey {
    SettingKey {
        in_env_file: true,
        ..key(name, Some(variable), default)
    }
}

/// A key, which `.env` may set.
const fn secret_key(name: &'static str, variable: &'static str) -> SettingKey {
    SettingKey {
        in_env_file: true,
        is_secret: true,
        ..key(name, Some(variable), None)
    }
}

pub(crate) const SETTING_KEYS: &[SettingKey] = &[
    model_key("model", "MODEL", Some(DEFAULT_MODEL)),
    model_key("max_tokens", "MAX_TOKENS", Some("8096")),
    model_key("thinking", "THINKING", None),
    // Overrides the providers' own addresses.
    key("base_url", None, None),
    // For requests to the provider; may contain a password. An address, so never from `.env`.
    SettingKey {
        in_env_file: false,
        ..secret_key("proxy", "HTTPS_PROXY")
    },
    secret_key("anthropic.api_key", "ANTHROPIC_API_KEY"),
    key(
        "anthropic.base_url",
        Some("ANTHROPIC_BASE_URL"),
        Some("https://api.anthropic.com"),
    ),
    secret_key("openai.api_key", "OPENAI_API_KEY"),
    key("openai.base_url", Some("OPENAI_BASE_URL"), None),
    key("workspace", Some("SAFEDIR"), Some(DEFAULT_WORKSPACE)),
    key("sandbox", Some("USE_SANDBOX"), Some("true")),
    key("backend", None, None),
    key("require", None, None),
    key("image", None, None),
    key("backends.cache", None, None),
    key("backends.podman", None, None),
    key("backends.podman_runtime", None, None),
    // Defaults to `DOCKER_HOST` in the environment.
    key("backends.docker_socket", None, None),
    key("backends.runsc", None, None),
    key("backends.gvisor_platform", None, None),
    key("backends.qemu", None, None),
    key("backends.firecracker", None, None),
    key("backends.jailer", None, None),
    key("backends.microsandbox", None, None),
    key("backends.kernel", None, None),
    key("backends.modules", None, None),
    // For a server whose jobs run in QEMU machines.
    key("backends.machines_waiting", None, Some("1")),
    key("budget.cost", None, None),
    key("budget.tokens", None, None),
    key("budget.turns", None, None),
    key("budget.time", None, None),
    // The server whose jobs `/jobs` lists.
    key(
        "server.url",
        Some("HOTCELL_SERVER"),
        Some("http://127.0.0.1:3001"),
    ),
    secret_key("server.api_key", "HOTCELL_API_KEY"),
    key("colour", None, Some("auto")),
];
