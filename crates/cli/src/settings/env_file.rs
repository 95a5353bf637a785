//! `.env`, or the file that `--env-file` names: API keys and the model, and nothing else.
//!
//! A sandbox may have written it, so it can set no path, address, backend or policy, even if it is
//! allowed. `.env` is used only with a content that the user has confirmed; `--env-file` confirms by
//! naming the file. Its format is `NAME=VALUE` with optional quotes; nothing is substituted. Entry point:
//! [`EnvFile::read`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::files::read_small_text;
use super::keys::SETTING_KEYS;

/// The file that is looked for in the current folder.
pub(crate) const DEFAULT_ENV_FILE: &str = ".env";

const MAX_ENV_FILE_BYTES: u64 = 64 << 10;

/// Variables that are read only from the environment, besides those that begin with `HOTCELL_`.
const ENVIRONMENT_ONLY: &[&str] = &["DOCKER_HOST"];

/// A parsed env file.
#[derive(Debug, Clone)]
pub(crate) struct EnvFile {
    /// As it was named.
    pub(crate) path: PathBuf,
    /// The real path of its folder, joined with its name.
    pub(crate) location: PathBuf,
    /// SHA-256 of its content, in hexadecimal.
    pub(crate) sha256: String,
    /// The variables that it may set.
    pub(crate) values: BTreeMap<String, String>,
    /// Variables that it may not set.
    pub(crate) refused: Vec<String>,
}

impl EnvFile {
    /// The file at a path, if there is one. An error is the reason why it cannot be used.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, String> {
        let text = match read_small_text(path, MAX_ENV_FILE_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (values, refused) = parse(&text)?;
        Ok(Some(Self {
            path: path.to_owned(),
            location: Self::location_of(path).map_err(|error| error.to_string())?,
            sha256: hex::encode(Sha256::digest(&text)),
            values,
            refused,
        }))
    }

    /// Where a file is, without following a link in its place: a confirmation of the link's target does not
    /// apply to the link.
    pub(crate) fn location_of(path: &Path) -> io::Result<PathBuf> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        Ok(fs::canonicalize(folder)?.join(path.file_name().unwrap_or_default()))
    }

    /// The variables that it may set.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.values.keys().map(String::as_str).collect();
        names.join(", ")
    }
}

type ParsedEnv = (BTreeMap<String, String>, Vec<String>);

/// Only lines with Hotcell's variables must parse: the others belong to the project.
fn parse(text: &str) -> Result<ParsedEnv, String> {
    let mut values = BTreeMap::new();
    let mut refused: Vec<String> = Vec::new();
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let name = name.trim_end();
        let Some(is_allowed) = may_set(name) else {
            continue;
        };
        // Without the line itself, which may contain a key.
        let value = unquote(value.trim_start())
            .ok_or_else(|| format!("the value of {name} must be one word or quoted"))?;
        match is_allowed && !is_file_path(name, &value) {
            // An empty value is ignored.
            _ if value.is_empty() => {}
            true => drop(values.insert(name.to_owned(), value)),
            false if refused.iter().any(|one| one == name) => {}
            false => refused.push(name.to_owned()),
        }
    }
    Ok((values, refused))
}

/// Whether a variable may be set in such a file; `None` if it is not one of Hotcell's.
fn may_set(name: &str) -> Option<bool> {
    if let Some(key) = SETTING_KEYS.iter().find(|key| key.variable == Some(name)) {
        return Some(key.in_env_file);
    }
    let is_ours = name.starts_with("HOTCELL_") || ENVIRONMENT_ONLY.contains(&name);
    is_ours.then_some(false)
}

/// A scripted model is a path.
fn is_file_path(name: &str, value: &str) -> bool {
    name == "MODEL" && value.starts_with("scripted/")
}

/// The value after `NAME=`, without a comment.
fn unquote(text: &str) -> Option<String> {
    let (value, rest) = match text.chars().next() {
        Some('\'') => text[1..]
            .split_once('\'')
            .map(|(value, rest)| (value.to_owned(), rest))?,
        Some('"') => double_quoted(&text[1..])?,
        _ => {
            let end = text.find(char::is_whitespace).unwrap_or(text.len());
            (text[..end].to_owned(), &text[end..])
        }
    };
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[place + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_and_names_are_taken_and_nothing_else() {
        let text = "\u{feff}# a comment\n\nexport ANTHROPIC_API_KEY = \"a\\\"b\" # mine\r\nMODEL=claude-x\n\
                    MAX_TOKENS='12'\nTHINKING=\nDATABASE_URL=no matter what\n-----BEGIN KEY-----\n\
                    SAFEDIR=/root\nUSE_SANDBOX=false\nOPENAI_BASE_URL=http://evil\nHTTPS_PROXY=p\n\
                    SAFEDIR=/twice\nHOTCELL_DATA=x\nHOTCELL_SERVER=x\nDOCKER_HOST=x\nHOTCELL_ANY=x\n\
                    HOTCELL_API_KEY=k\nANTHROPIC_BASE_URL=\n";
        let (values, refused) = parse(text).unwrap();
        let values: Vec<(&str, &str)> = values.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            values,
            [
                ("ANTHROPIC_API_KEY", "a\"b"),
                ("HOTCELL_API_KEY", "k"),
                ("MAX_TOKENS", "12"),
                ("MODEL", "claude-x"),
            ]
        );
        assert_eq!(
            refused,
            [
                "SAFEDIR",
                "USE_SANDBOX",
                "OPENAI_BASE_URL",
                "HTTPS_PROXY",
                "HOTCELL_DATA",
                "HOTCELL_SERVER",
                "DOCKER_HOST",
                "HOTCELL_ANY",
            ]
        );
    }

    #[test]
    fn a_scripted_model_is_a_path() {
        let (values, refused) = parse("MODEL=scripted//etc/passwd\n").unwrap();
        assert!(values.is_empty());
        assert_eq!(refused, ["MODEL"]);
        let (values, refused) = parse("MODEL=openai/qwen3\n").unwrap();
        assert_eq!((values.len(), refused.len()), (1, 0));
    }

    #[test]
    fn values() {
        for (text, expect) in [
            ("plain", Some("plain")),
            ("plain # comment", Some("plain")),
            ("a#b", Some("a#b")),
            ("'single $X \\n' # c", Some("single $X \\n")),
            ("\"a\\nb\\$c\"", Some("a\nb$c")),
            ("", Some("")),
            ("'open", None),
            ("\"open\\", None),
            ("two words", None),
            ("'a' b", None),
        ] {
            assert_eq!(unquote(text).as_deref(), expect, "{text}");
        }
    }

    /// Variables that expand each other can turn a few lines into gigabytes.
    #[test]
    fn nothing_is_substituted() {
        let (values, _) = parse("MODEL=${HOME}$HOME\n").unwrap();
        assert_eq!(values["MODEL"], "${HOME}$HOME");
    }
}
