//! The user's rules: `rules.toml`, next to the settings file.
//!
//! ```toml
//! [[rule]]
//! host = "pypi.org"
//! action = "allow"
//!
//! [[rule]]
//! tool = "bash"
//! argument = "git push*"
//! action = "ask"
//! ```
//!
//! A file inside the workspace is neither read nor written, because a sandbox could change it. Entry
//! points: [`approvals`] and [`remember`].

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use agent::Approvals;
use protocol::{Action, Rule, Subject};
use serde::Deserialize;
use toml::Spanned;

use super::files::{lock, make_private_folder, read_small_text, replace};
use super::sandbox::destination;
use super::sources;
use crate::args::StoreFlags;
use crate::complaint::Complaint;

/// Maximum bytes of the file.
const LONGEST: u64 = 1 << 20;

/// The rules that a session on this workspace starts with; `asks` if there is a user to ask.
pub(crate) fn approvals(
    flags: &StoreFlags,
    workspace: &Path,
    asks: bool,
) -> Result<Approvals, Complaint> {
    let rules = match rules_file(flags) {
        Some(path) if path.exists() => read(&path, workspace)?,
        _ => Vec::new(),
    };
    // Hosts are checked where their line is known.
    Approvals::new(&rules, asks)
        .map_err(|error| Complaint::from_error(crate::complaint::USAGE, &error))
}

/// Path of the rules file, whether or not it exists.
pub(crate) fn rules_file(flags: &StoreFlags) -> Option<PathBuf> {
    let settings = sources::file_path(flags.config.as_deref())?;
    Some(settings.with_file_name("rules.toml"))
}

fn read(path: &Path, workspace: &Path) -> Result<Vec<Rule>, Complaint> {
    refuse_inside(path, workspace)?;
    let text = read_small_text(path, LONGEST).map_err(|error| unreadable(path, &error))?;
    let lines = parse(&text).map_err(|why| {
        unreadable(path, &why).hint(
            "a rule is `[[rule]]` with `host`, or `tool` and perhaps `argument`, and `action`: \
             allow, ask or deny"
                .to_owned(),
        )
    })?;
    Ok(lines.into_iter().map(|line| line.rule).collect())
}

/// Saves a rule for all later sessions. The rest of the file is unchanged. A lock keeps concurrent
/// writers from losing each other's rules.
pub(crate) fn remember(path: &Path, workspace: &Path, rule: &Rule) -> Result<(), Complaint> {
    refuse_inside(path, workspace)?;
    // Writes to the target of a link: the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let complain = |error: &dyn std::fmt::Display| {
        let text = format!("cannot save a rule in `{}`: {error}", path.display());
        Complaint::new(1, text)
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private_folder(folder).map_err(|error| complain(&error))?;
    let _lock = lock(&path).map_err(|error| complain(&error))?;
    let text = match read_small_text(&path, LONGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(complain(&error)),
    };
    match with_rule(&text, rule).map_err(|why| complain(&why))? {
        Some(changed) => replace(&path, &changed).map_err(|error| complain(&error)),
        None => Ok(()),
    }
}

fn refuse_inside(path: &Path, workspace: &Path) -> Result<(), Complaint> {
    if destination(path).starts_with(destination(workspace)) {
        let text = format!("the rules `{}` lie inside the workspace", path.display());
        Err(Complaint::usage(text).hint(
            "a sandbox could rewrite them: choose another workspace, or another settings \
                 file with `--config FILE`"
                .to_owned(),
        ))
    } else {
        Ok(())
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Complaint {
    Complaint::usage(format!("cannot read the rules `{}`: {why}", path.display()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    #[serde(default)]
    rule: Vec<Spanned<Line>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    host: Option<String>,
    tool: Option<String>,
    argument: Option<String>,
    action: Spanned<Action>,
}

/// A rule, and the position of its action in the file.
#[derive(Debug)]
struct Placed {
    rule: Rule,
    action: Range<usize>,
}

fn parse(text: &str) -> Result<Vec<Placed>, String> {
    let lines: Lines = toml::from_str(text).map_err(|error| sources::place(&error, text))?;
    let placed = |line: Spanned<Line>| {
        let start = line.span().start;
        let action = line.get_ref().action.span();
        let action = action.start..action.end;
        match rule(line.into_inner()) {
            Ok(rule) => Ok(Placed { rule, action }),
            Err(why) => {
                let before = text.get(..start).unwrap_or_default();
                Err(format!("line {}: {why}", before.matches('\n').count() + 1))
            }
        }
    };
    lines.rule.into_iter().map(placed).collect()
}

fn rule(line: Line) -> Result<Rule, String> {
    let subject = match (line.host, line.tool, line.argument) {
        (Some(host), None, None) => {
            if let Err(error) = host.parse::<egress::Rule>() {
                return Err(error.to_string());
            }
            Subject::Host { host }
        }
        (None, Some(tool), argument) => Subject::Tool { tool, argument },
        (Some(_), None, Some(_)) => return Err("a host has no `argument`".to_owned()),
        (Some(_), Some(_), _) => return Err("it has both a `host` and a `tool`".to_owned()),
        (None, None, _) => return Err("it has neither a `host` nor a `tool`".to_owned()),
    };
    let action = line.action.into_inner();
    Ok(Rule { subject, action })
}

/// The file's text with the rule added. An existing rule about the same subject is changed; otherwise the
/// rule is appended. `None` if the file already has it.
fn with_rule(text: &str, rule: &Rule) -> Result<Option<String>, String> {
    let known = parse(text)?;
    let of_subject: Vec<&Placed> = known
        .iter()
        .filter(|placed| placed.rule.subject == rule.subject)
        .collect();
    let action = toml_text(word(rule.action));
    if of_subject.is_empty() {
        let mut text = text.to_owned();
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        text.push_str("[[rule]]\n");
        let mut add = |name: &str, value: &str| {
            text.push_str(&format!("{name} = {}\n", toml_text(value)));
        };
        match &rule.subject {
            Subject::Host { host } => add("host", host),
            Subject::Tool { tool, argument } => {
                add("tool", tool);
                if let Some(argument) = argument {
                    add("argument", argument);
                }
            }
        }
        text.push_str(&format!("action = {action}\n"));
        return verified(text, &known, rule).map(Some);
    }
    if of_subject
        .iter()
        .all(|placed| placed.rule.action == rule.action)
    {
        return Ok(None);
    }
    let mut changed = text.to_owned();
    // From the end, so that earlier positions stay valid.
    for placed in of_subject.into_iter().rev() {
        changed.replace_range(placed.action.clone(), &action);
    }
    verified(changed, &known, rule).map(Some)
}

/// Parses the text again, so that a file with another meaning is never written.
fn verified(text: String, before: &[Placed], rule: &Rule) -> Result<String, String> {
    let mut expected: Vec<Rule> = before.iter().map(|placed| placed.rule.clone()).collect();
    let mut is_there = false;
    for known in &mut expected {
        if known.subject == rule.subject {
            known.action = rule.action;
            is_there = true;
        }
    }
    if !is_there {
        expected.push(rule.clone());
    }
    let found: Vec<Rule> = parse(&text)?
        .into_iter()
        .map(|placed| placed.rule)
        .collect();
    if found == expected {
        Ok(text)
    } else {
        Err("a rule cannot be added to this TOML layout".to_owned())
    }
}

fn toml_text(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

#[cfg(test)]
mod tests;
