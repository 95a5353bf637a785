//! The table of all settings.

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// In the settings file; a dot stands for a table.
    pub(crate) name: &'static str,
    /// In the environment and in `.env`.
    pub(crate) variable: Option<&'static str>,
    pub(crate) default: Option<&'static str>,
    /// Never shown whole.
    pub(crate) is_secret: bool,
}

pub(crate) const DEFAULT_MODEL: &str = "claude-sonnet-4-5-20250929";

const fn key(
    name: &'static str,
    variable: Option<&'static str>,
    default: Option<&'static str>,
) -> Key {
    Key {
        name,
        variable,
        default,
        is_secret: false,
    }
}

const fn secret(name: &'static str, variable: &'static str) -> Key {
    Key {
        name,
        variable: Some(variable),
        default: None,
        is_secret: true,
    }
}

pub(crate) const KEYS: &[Key] = &[
    key("model", Some("MODEL"), Some(DEFAULT_MODEL)),
    key("max_tokens", Some("MAX_TOKENS"), Some("8096")),
    key("thinking", Some("THINKING"), None),
    // Wins over the providers' own addresses.
    key("base_url", None, None),
    // On the way to the provider; may have a password in it.
    secret("proxy", "HTTPS_PROXY"),
    secret("anthropic.api_key", "ANTHROPIC_API_KEY"),
    key(
        "anthropic.base_url",
        Some("ANTHROPIC_BASE_URL"),
        Some("https://api.anthropic.com"),
    ),
    secret("openai.api_key", "OPENAI_API_KEY"),
    key("openai.base_url", Some("OPENAI_BASE_URL"), None),
    key("workspace", Some("SAFEDIR"), Some("./workspace")),
    key("sandbox", Some("USE_SANDBOX"), Some("true")),
    // None of these can come from `.env`: a sandbox may have written it.
    key("backend", None, None),
    key("require", None, None),
    key("image", None, None),
    key("backends.cache", None, None),
    key("backends.podman", None, None),
    key("backends.podman_runtime", None, None),
    // `DOCKER_HOST` in the environment, where this is not set.
    key("backends.docker_socket", None, None),
    key("backends.runsc", None, None),
    key("backends.gvisor_platform", None, None),
    key("backends.qemu", None, None),
    key("backends.firecracker", None, None),
    key("backends.jailer", None, None),
    key("backends.microsandbox", None, None),
    key("backends.kernel", None, None),
    key("backends.modules", None, None),
    // Of a server whose jobs get machines of QEMU's.
    key("backends.machines_waiting", None, Some("1")),
    key("budget.cost", None, None),
    key("budget.tokens", None, None),
    key("budget.turns", None, None),
    key("budget.time", None, None),
    // Whose jobs `/jobs` lists.
    key(
        "server.url",
        Some("HOTCELL_SERVER"),
        Some("http://127.0.0.1:3001"),
    ),
    secret("server.api_key", "HOTCELL_API_KEY"),
    key("colour", None, Some("auto")),
];
