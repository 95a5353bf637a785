//! Reads the settings file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::files::read_small_text;
use super::keys::SETTING_KEYS;
use crate::cli_error::CliError;

/// Maximum bytes of the file.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// The parsed settings file.
#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) is_there: bool,
    /// A warning for the user.
    pub(super) warning: Option<String>,
    /// By key name.
    pub(super) values: BTreeMap<String, String>,
    /// The table `prices`, as TOML.
    pub(super) prices: String,
}

pub(super) fn file_path(named: Option<&Path>) -> Option<PathBuf> {
    named.map(Path::to_owned).or_else(|| {
        let strategy = etcetera::base_strategy::choose_base_strategy().ok()?;
        Some(strategy.config_dir().join("hotcell").join("config.toml"))
    })
}

/// The settings file; empty if there is none, unless it was named.
pub(super) fn read_file(named: Option<&Path>) -> Result<SettingsFile, CliError> {
    let Some(path) = file_path(named) else {
        return Ok(SettingsFile::default());
    };
    let complain = |why: &dyn std::fmt::Display| {
        CliError::usage(format!(
            "cannot read the settings `{}`: {why}",
            path.display()
        ))
    };
    let text = match read_small_text(&path, MAX_SETTINGS_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
            return Ok(SettingsFile::default());
        }
        Err(error) => return Err(complain(&error)),
    };
    let mut table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| complain(&line_and_error(&error, &text)))?;
    let prices = match table.remove("prices") {
        // In the format of the built-in list.
        Some(prices @ toml::Value::Table(_)) => {
            toml::Table::from_iter([("model".to_owned(), prices)]).to_string()
        }
        Some(_) => return Err(complain(&"`prices` is not a table")),
        None => String::new(),
    };
    let mut values = BTreeMap::new();
    flatten("", table, &mut values).map_err(|why| complain(&why))?;
    if let Some(unknown) = values
        .keys()
        .find(|name| !SETTING_KEYS.iter().any(|key| key.name == name.as_str()))
    {
        let known: Vec<&str> = SETTING_KEYS.iter().map(|key| key.name).collect();
        return Err(complain(&format!("there is no setting `{unknown}`"))
            .hint(format!("there are {}", known.join(", "))));
    }
    let has_secret = SETTING_KEYS
        .iter()
        .any(|key| key.is_secret && values.contains_key(key.name));
    let is_open = |metadata: fs::Metadata| metadata.permissions().mode() & 0o077 != 0;
    let warning = (has_secret && fs::metadata(&path).is_ok_and(is_open)).then(|| {
        format!(
            "others can read the key in `{0}`\nhint: `chmod 600 {0}`",
            path.display()
        )
    });
    Ok(SettingsFile {
        path,
        is_there: true,
        warning,
        values,
        prices,
    })
}

/// The error and its line number, without the line itself, which may contain a key.
pub(super) fn line_and_error(error: &toml::de::Error, text: &str) -> String {
    let why = error.message().replace('\n', ", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return why;
    };
    format!("line {}: {why}", before.matches('\n').count() + 1)
}

/// `{a: {b: 1}}` becomes `a.b` = `1`.
fn flatten(
    prefix: &str,
    table: toml::Table,
    values: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        let text = match value {
            toml::Value::Table(inner) => {
                flatten(&format!("{name}."), inner, values)?;
                continue;
            }
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(switch) => switch.to_string(),
            toml::Value::Array(_) | toml::Value::Datetime(_) => {
                return Err(format!("`{name}` must be text, a number or a boolean"));
            }
        };
        values.insert(name, text);
    }
    Ok(())
}

/// Whether an address is certainly on this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // What precedes an `@` is not a host.
    if authority.contains('@') {
        return false;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
