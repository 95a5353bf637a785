//! `hotcell config`: the settings in effect, and where each comes from. Secrets are masked.

use serde_json::json;

use super::{print, written};
use crate::args::ConfigCommand;
use crate::cli_error::CliError;
use crate::render::{clean, write_line};
use crate::settings::{SETTING_KEYS, SettingKey, SettingOverrides, Settings};

pub(crate) fn run(config: &ConfigCommand) -> Result<u8, CliError> {
    let overrides = SettingOverrides::default()
        .model(&config.model)
        .store(&config.store);
    let settings = Settings::read(&overrides)?;
    let rows: Vec<[String; 3]> = SETTING_KEYS
        .iter()
        .map(|key| match settings.get(key.name) {
            Some(setting) => [
                key.name.to_owned(),
                masked_value(key, &setting.value),
                match key.variable {
                    Some(variable) if setting.source.is_variable() => {
                        format!("{variable} in {}", setting.source)
                    }
                    _ => setting.source.to_string(),
                },
            ],
            None => [key.name.to_owned(), "-".to_owned(), "not set".to_owned()],
        })
        .collect();
    if config.json {
        let values = rows
            .iter()
            .map(|[name, value, source]| (name.clone(), json!({"value": value, "from": source})));
        let values: serde_json::Map<_, _> = values.collect();
        return written(write_line(&values));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (first, second) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    let lines: Vec<String> = rows
        .iter()
        // A sandbox may have written `.env`.
        .map(|[name, value, source]| clean(&format!("{name:first$}  {value:second$}  {source}")))
        .collect();
    let file = Settings::file(config.store.config.as_deref());
    let file = file.map_or_else(String::new, |path| {
        let state = if path.exists() { "" } else { " (not found)" };
        format!("\nsettings file: {}{state}", path.display())
    });
    print(&format!("{}\n{file}\n", lines.join("\n")))
}

/// Enough of a secret to tell two apart, and no more.
fn masked_value(key: &SettingKey, value: &str) -> String {
    if !key.is_secret {
        return value.to_owned();
    }
    let last: String = match value.chars().count() {
        20.. => value.chars().skip(value.chars().count() - 4).collect(),
        _ => String::new(),
    };
    format!("********{last}")
}
