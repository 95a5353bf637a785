//! Settings: read once, from `.env`, the environment, a file and flags, and converted to typed values.
//!
//! Later sources override earlier ones: default, `.env`, environment, file, flag. Each value records its
//! source, so that messages can name it. `.env` sets only keys and the model, and only once the user has
//! confirmed its content: see [`env_choice`].

mod backends;
mod env_choice;
mod env_file;
mod env_trust;
mod files;
mod keys;
mod links;
mod model;
mod models;
mod rules;
mod sandbox;
mod sockets;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use self::backends::provisions;
pub(crate) use self::env_choice::{confirm as confirm_env_file, warn_refused};
pub(crate) use self::env_file::EnvFile;
pub(crate) use self::env_trust::EnvTrustRecord as EnvRecord;
pub(crate) use self::files::read_small_text;
use self::keys::DEFAULT_WORKSPACE;
pub(crate) use self::keys::{SETTING_KEYS, SettingKey};
pub(crate) use self::model::{
    ModelSettings, budget_limits, choose_model, model_named, prices, provider, reply_tokens,
};
pub(crate) use self::models::ConfiguredModels;
pub(crate) use self::rules::{approvals, rules_file, save_rule};
pub(crate) use self::sandbox::{data_folder, sandbox_spec, walls, workspace};
use crate::args::{ModelFlags, SandboxFlags, StoreFlags};
use crate::cli_error::{CliError, warn};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    Default,
    /// `.env`, or the file that `--env-file` names.
    EnvFile(PathBuf),
    Environment,
    File(PathBuf),
    Flag,
}

impl SettingSource {
    /// Whether the value was set under its variable name.
    pub(crate) fn is_variable(&self) -> bool {
        matches!(self, Self::Environment | Self::EnvFile(_))
    }
}

impl fmt::Display for SettingSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Environment => formatter.write_str("environment"),
            Self::EnvFile(path) | Self::File(path) => write!(formatter, "`{}`", path.display()),
            Self::Flag => formatter.write_str("flag"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: SettingSource,
}

/// The settings in effect, by key name.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, Setting>,
    /// Prices that the settings file adds, as TOML.
    prices: String,
    /// The data folder, if a flag names it.
    data: Option<PathBuf>,
    /// The settings file, if it was read.
    file: Option<PathBuf>,
}

/// The flags that are also settings.
#[derive(Debug, Default)]
pub(crate) struct SettingOverrides {
    values: Vec<(&'static str, String)>,
    workspace: Option<PathBuf>,
    config: Option<PathBuf>,
    data: Option<PathBuf>,
    env_file: Option<PathBuf>,
    /// Whether keys and a model are needed.
    wants_model: bool,
}

impl SettingOverrides {
    pub(crate) fn sandbox(mut self, flags: &SandboxFlags) -> Self {
        self.workspace = flags.workspace.clone();
        self
    }

    pub(crate) fn model(mut self, flags: &ModelFlags) -> Self {
        let mut set = |key, value: Option<String>| {
            self.values.extend(value.map(|value| (key, value)));
        };
        set("model", flags.model.clone());
        set("base_url", flags.base_url.clone());
        set(
            "max_tokens",
            flags.max_tokens.map(|count| count.to_string()),
        );
        set("thinking", flags.thinking.map(|count| count.to_string()));
        self.env_file = flags.env_file.clone();
        self.wants_model = true;
        self
    }

    /// Overrides the model of flags and files, if a name is given.
    pub(crate) fn model_named(mut self, name: Option<&str>) -> Self {
        if let Some(name) = name {
            self.values.retain(|(key, _)| *key != "model");
            self.values.push(("model", name.to_owned()));
        }
        self
    }

    pub(crate) fn server(mut self, url: Option<&str>) -> Self {
        self.values
            .extend(url.map(|url| ("server.url", url.to_owned())));
        self
    }

    pub(crate) fn store(mut self, flags: &StoreFlags) -> Self {
        self.config = flags.config.clone();
        self.data = flags.data.clone();
        self
    }

    /// Workspaces named by flags, environment and file.
    fn workspaces(&self, file: &sources::SettingsFile) -> Vec<PathBuf> {
        let named = [
            self.workspace.clone(),
            std::env::var_os("SAFEDIR").map(PathBuf::from),
            file.values.get("workspace").map(PathBuf::from),
        ];
        let mut named: Vec<PathBuf> = named.into_iter().flatten().collect();
        if named.is_empty() {
            named.push(DEFAULT_WORKSPACE.into());
        }
        named
    }
}

impl Settings {
    pub(crate) fn read(overrides: &SettingOverrides) -> Result<Self, CliError> {
        let file = sources::read_file(overrides.config.as_deref())?;
        if let Some(warning) = &file.warning {
            warn(warning);
        }
        let env_file = env_choice::env_file_to_use(
            overrides.env_file.as_deref(),
            &overrides.workspaces(&file),
            overrides.wants_model,
        )?;
        let env_path = env_file.as_ref().map(|file| file.path.clone());
        let from_env_file = |name: &str| env_file.as_ref()?.values.get(name).cloned();
        let mut settings = Self::default();
        for key in SETTING_KEYS {
            let flag = overrides.values.iter().find(|(name, _)| *name == key.name);
            let from_environment = |name: &str| std::env::var(name).ok();
            let candidates = [
                (flag.map(|(_, value)| value.clone()), SettingSource::Flag),
                (
                    file.values.get(key.name).cloned(),
                    SettingSource::File(file.path.clone()),
                ),
                (
                    key.variable.and_then(from_environment),
                    SettingSource::Environment,
                ),
                (
                    key.variable.and_then(from_env_file),
                    SettingSource::EnvFile(env_path.clone().unwrap_or_default()),
                ),
                (key.default.map(str::to_owned), SettingSource::Default),
            ];
            // An empty variable counts as not set.
            let found = candidates.into_iter().find_map(|(value, source)| {
                let value = value.filter(|value| !value.is_empty())?;
                Some(Setting { value, source })
            });
            settings
                .values
                .extend(found.map(|setting| (key.name, setting)));
        }
        settings.prices = file.prices;
        settings.data = overrides.data.clone();
        settings.file = file.is_there.then_some(file.path);
        Ok(settings)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.values.get(name)
    }

    /// A typed value, or a complaint that names the source of the invalid one.
    pub(crate) fn parse<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, CliError> {
        let Some(setting) = self.get(name) else {
            return Ok(None);
        };
        parse(&setting.value).map(Some).map_err(|why| {
            let Setting { value, source } = setting;
            let name = self.name(name);
            CliError::usage(format!("`{name}` from {source} is `{value}`: {why}"))
                .hint("`hotcell config` shows all settings and where they come from".to_owned())
        })
    }

    /// The name of a setting in the source of its value.
    fn name(&self, name: &'static str) -> &'static str {
        let is_variable = |setting: &&Setting| setting.source.is_variable();
        let key = SETTING_KEYS.iter().find(|key| key.name == name);
        match (self.get(name).filter(is_variable), key) {
            (Some(_), Some(key)) => key.variable.unwrap_or(name),
            _ => name,
        }
    }

    pub(crate) fn prices(&self) -> &str {
        &self.prices
    }

    /// Path of the settings file, whether or not it exists.
    pub(crate) fn file(named: Option<&Path>) -> Option<PathBuf> {
        sources::file_path(named)
    }
}

/// Whether an address is certainly on this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    sources::is_loopback(url)
}

/// A boolean in the usual spellings.
pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it must be true or false".to_owned()),
    }
}
