//! Settings: read once, from `.env`, the environment, a file and flags, and made into the typed
//! values that the rest of the program works with.
//!
//! Later ones win over earlier ones: default, `.env`, environment, file, flag. Each value knows
//! where it came from, so that a message about it can say so.

mod backends;
mod keys;
mod model;
mod models;
mod rules;
mod sandbox;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use self::backends::provisions;
pub(crate) use self::keys::{KEYS, Key};
pub(crate) use self::model::{
    Chosen, ceilings, choose_model, model_named, prices, provider, reply_tokens,
};
pub(crate) use self::models::ConfiguredModels;
pub(crate) use self::rules::{approvals, remember, rules_file};
pub(crate) use self::sandbox::{data_folder, sandbox_spec, walls, workspace};
use crate::args::{ModelFlags, SandboxFlags, StoreFlags};
use crate::complaint::{Complaint, warn};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    DotEnv,
    Environment,
    File(PathBuf),
    Flag,
}

impl Source {
    /// Whether the value stood under the name of its variable.
    pub(crate) fn is_variable(&self) -> bool {
        matches!(self, Self::Environment | Self::DotEnv)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::DotEnv => formatter.write_str("`.env`"),
            Self::Environment => formatter.write_str("environment"),
            Self::File(path) => write!(formatter, "`{}`", path.display()),
            Self::Flag => formatter.write_str("flag"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// What is in force, by the name of the key.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    values: BTreeMap<&'static str, Setting>,
    /// Prices that the settings file adds, as TOML.
    prices: String,
    /// Where sessions and images are kept, if a flag says so.
    data: Option<PathBuf>,
}

/// The flags that are settings too.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    values: Vec<(&'static str, String)>,
    workspace: Option<PathBuf>,
    config: Option<PathBuf>,
    data: Option<PathBuf>,
}

impl Overrides {
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
        self
    }

    /// Another model than flags and files name, if there is one.
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
}

impl Settings {
    pub(crate) fn read(overrides: &Overrides) -> Result<Self, Complaint> {
        let file = sources::read_file(overrides.config.as_deref())?;
        let workspaces = [
            overrides.workspace.clone(),
            std::env::var_os("SAFEDIR").map(PathBuf::from),
            file.values.get("workspace").map(PathBuf::from),
        ];
        let dotenv = sources::read_dotenv(workspaces.into_iter().flatten())?;
        let mut settings = Self::default();
        for key in KEYS {
            let flag = overrides.values.iter().find(|(name, _)| *name == key.name);
            let from_environment = |name: &str| std::env::var(name).ok();
            let candidates = [
                (flag.map(|(_, value)| value.clone()), Source::Flag),
                (
                    file.values.get(key.name).cloned(),
                    Source::File(file.path.clone()),
                ),
                (key.variable.and_then(from_environment), Source::Environment),
                (
                    key.variable.and_then(|name| dotenv.get(name).cloned()),
                    Source::DotEnv,
                ),
                (key.default.map(str::to_owned), Source::Default),
            ];
            // A variable that is set to nothing is not set.
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
        settings.keep_the_sandbox_on();
        settings.distrust_dotenv_url()?;
        Ok(settings)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.values.get(name)
    }

    /// A value in its own type, or a complaint that says where the wrong one came from.
    pub(crate) fn parse<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Complaint> {
        let Some(setting) = self.get(name) else {
            return Ok(None);
        };
        parse(&setting.value).map(Some).map_err(|why| {
            let Setting { value, source } = setting;
            let name = self.name(name);
            Complaint::usage(format!("`{name}` from {source} is `{value}`: {why}"))
                .hint("`hotcell config` shows all settings and where they come from".to_owned())
        })
    }

    /// What a setting is called where its value came from.
    fn name(&self, name: &'static str) -> &'static str {
        let is_variable = |setting: &&Setting| setting.source.is_variable();
        let key = KEYS.iter().find(|key| key.name == name);
        match (self.get(name).filter(is_variable), key) {
            (Some(_), Some(key)) => key.variable.unwrap_or(name),
            _ => name,
        }
    }

    /// `.env` may be what an earlier sandbox left in what was its workspace.
    fn keep_the_sandbox_on(&mut self) {
        let Some(setting) = self.values.get_mut("sandbox") else {
            return;
        };
        if setting.source == Source::DotEnv && parse_switch(&setting.value) == Ok(false) {
            warn(
                "`.env` cannot switch the sandbox off: it stays on\n\
                 hint: `--backend none`, or USE_SANDBOX=false in the environment",
            );
            "true".clone_into(&mut setting.value);
        }
    }

    /// For the same reason, an address from `.env` gets no key but one from there: whoever wrote
    /// the address would get the key.
    fn distrust_dotenv_url(&self) -> Result<(), Complaint> {
        for provider in ["anthropic", "openai"] {
            let get = |part: &str| self.get(&format!("{provider}.{part}"));
            let (Some(url), Some(key)) = (get("base_url"), get("api_key")) else {
                continue;
            };
            let is_suspect = url.source == Source::DotEnv && key.source != Source::DotEnv;
            if is_suspect && !sources::is_loopback(&url.value) && self.get("base_url").is_none() {
                let text = format!(
                    "`.env` sends the {provider} key from {} to `{}`",
                    key.source, url.value
                );
                return Err(Complaint::usage(text).hint(
                    "a sandbox may have written that file: name the address with `--base-url`, \
                     in the environment or in the settings file"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn prices(&self) -> &str {
        &self.prices
    }

    /// Where the settings file is, or would be.
    pub(crate) fn file(named: Option<&Path>) -> Option<PathBuf> {
        sources::file_path(named)
    }
}

/// Whether an address can only be on this machine.
pub(crate) fn is_loopback(url: &str) -> bool {
    sources::is_loopback(url)
}

/// A switch as people write it.
pub(crate) fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("it is neither true nor false".to_owned()),
    }
}
