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
//! points: [`approvals`] and [`save_rule`].

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use agent::Approvals;
use protocol::{ApprovalRule, RuleAction, Subject};
use serde::Deserialize;
use toml::Spanned;

use super::files::{lock_beside, make_private_folder, read_small_text, replace};
use super::sandbox::destination;
use super::sources;
use crate::args::StoreFlags;
use crate::cli_error::CliError;

/// Maximum bytes of the file.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// The rules that a session on this workspace starts with; `asks` if there is a user to ask.
pub(crate) fn approvals(
    flags: &StoreFlags,
    workspace: &Path,
    asks: bool,
) -> Result<Approvals, CliError> {
    let rules = match rules_file(flags) {
        Some(path) if path.exists() => read(&path, workspace)?,
        _ => Vec::new(),
    };
    // Hosts are checked where their line is known.
    Approvals::new(&rules, asks)
        .map_err(|error| CliError::from_error(crate::cli_error::USAGE_ERROR, &error))
}

/// Path of the rules file, whether or not it exists.
pub(crate) fn rules_file(flags: &StoreFlags) -> Option<PathBuf> {
    let settings = sources::file_path(flags.config.as_deref())?;
    Some(settings.with_file_name("rules.toml"))
}

fn read(path: &Path, workspace: &Path) -> Result<Vec<ApprovalRule>, CliError> {
    refuse_inside(path, workspace)?;
    let text = read_small_text(path, MAX_RULES_BYTES).map_err(|error| unreadable(path, &error))?;
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
pub(crate) fn save_rule(
    path: &Path,
    workspace: &Path,
    rule: &ApprovalRule,
) -> Result<(), CliError> {
    refuse_inside(path, workspace)?;
    // Writes to the target of a link: the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let complain = |error: &dyn std::fmt::Display| {
        let text = format!("cannot save a rule in `{}`: {error}", path.display());
        CliError::new(1, text)
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    make_private_folder(folder).map_err(|error| complain(&error))?;
    let _lock = lock_beside(&path).map_err(|error| complain(&error))?;
    let text = match read_small_text(&path, MAX_RULES_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(complain(&error)),
    };
    match with_rule(&text, rule).map_err(|why| complain(&why))? {
        Some(changed) => replace(&path, &changed).map_err(|error| complain(&error)),
        None => Ok(()),
    }
}

fn refuse_inside(path: &Path, workspace: &Path) -> Result<(), CliError> {
    if destination(path).starts_with(destination(workspace)) {
        let text = format!("the rules `{}` lie inside the workspace", path.display());
        Err(CliError::usage(text).hint(
            "a sandbox could rewrite them: choose another workspace, or another settings \
                 file with `--config FILE`"
                .to_owned(),
        ))
    } else {
        Ok(())
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::usage(format!("cannot read the rules `{}`: {why}", path.display()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rule: Vec<Spanned<RuleEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    host: Option<String>,
    tool: Option<String>,
    argument: Option<String>,
    action: Spanned<RuleAction>,
}

/// A rule, and the position of its action in the file.
#[derive(Debug)]
struct PlacedRule {
    rule: ApprovalRule,
    action: Range<usize>,
}

fn parse(text: &str) -> Result<Vec<PlacedRule>, String> {
    let lines: RulesFile =
        toml::from_str(text).map_err(|error| sources::line_and_error(&error, text))?;
    let placed = |line: Spanned<RuleEntry>| {
        let start = line.span().start;
        let action = line.get_ref().action.span();
        let action = action.start..action.end;
        match rule(line.into_inner()) {
            Ok(rule) => Ok(PlacedRule { rule, action }),
            Err(why) => {
                let before = text.get(..start).unwrap_or_default();
                Err(format!("line {}: {why}", before.matches('\n').count() + 1))
            }
        }
    };
    lines.rule.into_iter().map(placed).collect()
}

fn rule(line: RuleEntry) -> Result<ApprovalRule, String> {
    let subject = match (line.host, line.tool, line.argument) {
        (Some(host), None, None) => {
            if let Err(error) = host.parse::<egress::EgressRule>() {
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
    Ok(ApprovalRule { subject, action })
}

/// The file's text with the rule added. An existing rule about the same subject is changed; otherwise the
/// rule is appended. `None` if the file already has it.
fn with_rule(text: &str, rule: &ApprovalRule) -> Result<Option<String>, String> {
    let known = parse(text)?;
    let of_subject: Vec<&PlacedRule> = known
        .iter()
        .filter(|placed| placed.rule.subject == rule.subject)
        .collect();
    let action = toml_text(action_word(rule.action));
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
        return verify_edit(text, &known, rule).map(Some);
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
    verify_edit(changed, &known, rule).map(Some)
}

/// Parses the text again, so that a file with another meaning is never written.
fn verify_edit(text: String, before: &[PlacedRule], rule: &ApprovalRule) -> Result<String, String> {
    let mut expected: Vec<ApprovalRule> = before.iter().map(|placed| placed.rule.clone()).collect();
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
    let found: Vec<ApprovalRule> = parse(&text)?
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

fn action_word(action: RuleAction) -> &'static str {
    match action {
        RuleAction::Allow => "allow",
        RuleAction::Ask => "ask",
        RuleAction::Deny => "deny",
    }
}

#[cfg(test)]
mod tests;
