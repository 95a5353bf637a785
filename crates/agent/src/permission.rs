//! Decides whether a call may run and whether a connection may be made: by a rule, or by asking the
//! user.
//!
//! A denial is a text for the model or the program that asked, and names the rule or the user. Entry
//! points: [`check_call`] for calls, [`install_approvals`] for connections.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use egress::{
    ConnectTarget, EgressGate, EgressRule, HostApproval, HostApprovalFuture, HostApprover,
    SharedPolicy,
};
use protocol::{Decision, Scope, Subject};
use sandbox::{Backend, Network, SandboxSpec, WORKSPACE_PATH};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::approval::{Approvals, ToolVerdict};
use crate::approval_audit::ApprovalAudit;
use crate::approval_broker::ApprovalBroker;
use crate::event_log::{EventLog, EventSender};
use crate::pattern::exactly;
use crate::typed_input::TypedInput;

/// Maximum characters of an argument shown in a question.
const MAX_ARGUMENT_CHARS: usize = 400;

const DENIAL_ADVICE: &str = "Do not try it again or in another way: go on without it, or say why \
                            it is needed.";

/// The arguments that rules about tools match.
const COMMAND_ARGUMENT: &str = "command";
const PATH_ARGUMENT: &str = "path";

/// Text typed into a job with `SHELL_JOB_TOOL` is checked against the rules of `SHELL_TOOL`.
pub(crate) const SHELL_TOOL: &str = "bash";
pub(crate) const SHELL_JOB_TOOL: &str = "bash_job";

/// Beginnings of results that report a denial.
const DENIED_BY_RULE: &str = "Denied by rule `";
const DENIED_BY_USER: &str = "Denied by the person. ";
const DENIED_UNASKED: &str = "Denied: rule `";

/// Whether a result reports that its call was denied and not run.
pub(crate) fn is_denial(result: &str) -> bool {
    let is_so = |beginning: &&str| result.starts_with(*beginning);
    result.ends_with(DENIAL_ADVICE)
        && [DENIED_BY_RULE, DENIED_BY_USER, DENIED_UNASKED]
            .iter()
            .any(is_so)
}

/// Permits a call, or returns the reason for the model why it is not run.
pub(crate) async fn check_call(
    broker: &Arc<ApprovalBroker>,
    tool: &str,
    arguments: &Value,
    stop: &CancellationToken,
) -> Result<(), String> {
    let typed = TypedInput::of(tool, arguments);
    let lines = typed.as_ref().map(|typed| typed.lines(broker));
    let argument = match &typed {
        Some(typed) => Some(typed.text().trim().to_owned()),
        None => main_argument(arguments),
    };
    let claims = claims(tool, argument, lines.unwrap_or_default());
    let rules = broker.tool_rules();
    let decide = |claim: &RuleClaim| rules.decide(&claim.tool, claim.argument.as_deref());
    let mut verdicts: Vec<(RuleClaim, ToolVerdict)> = claims
        .into_iter()
        .map(|claim| {
            let verdict = decide(&claim);
            (claim, verdict)
        })
        .collect();
    // Denials first: the user is not asked about a call of which any part is denied.
    verdicts.sort_by_key(|(_, verdict)| !matches!(verdict, ToolVerdict::Deny { .. }));
    for (claim, verdict) in verdicts {
        check_claim(broker, tool, claim, verdict, stop).await?;
    }
    if let Some(typed) = typed {
        typed.remember(broker);
    }
    Ok(())
}

/// What rules are checked against: a tool and its main argument.
#[derive(Debug, PartialEq, Eq)]
struct RuleClaim {
    tool: String,
    argument: Option<String>,
}

/// A call is one claim. Text for a background command may be commands for a shell, so each of its lines
/// is also a claim for `bash`.
fn claims(tool: &str, argument: Option<String>, lines: Vec<String>) -> Vec<RuleClaim> {
    let call = RuleClaim {
        tool: tool.to_owned(),
        argument,
    };
    let typed = lines.into_iter().map(|line| RuleClaim {
        tool: SHELL_TOOL.to_owned(),
        argument: Some(line),
    });
    std::iter::once(call).chain(typed).collect()
}

async fn check_claim(
    broker: &Arc<ApprovalBroker>,
    tool: &str,
    claim: RuleClaim,
    verdict: ToolVerdict,
    stop: &CancellationToken,
) -> Result<(), String> {
    let what = describe_call(tool, claim.argument.as_deref());
    let audit = &broker.audit;
    let recorded = match &verdict {
        ToolVerdict::Allow { rule: None } | ToolVerdict::Ask { .. } => Ok(()),
        ToolVerdict::Allow { rule: Some(rule) } => audit.record_rule(&what, true, rule).await,
        ToolVerdict::Deny { rule } => audit.record_rule(&what, false, rule).await,
    };
    // An action that cannot be recorded is not allowed.
    recorded.map_err(|error| format!("Not run: {error}."))?;
    let rule = match verdict {
        ToolVerdict::Allow { .. } => return Ok(()),
        ToolVerdict::Deny { rule } => {
            return Err(format!("{DENIED_BY_RULE}{rule}`. {DENIAL_ADVICE}"));
        }
        ToolVerdict::Ask { rule } => rule,
    };
    let why = format!("rule `{rule}` says to ask");
    let subject = Subject::Tool {
        tool: exactly(&claim.tool),
        argument: claim.argument.as_deref().map(exactly),
    };
    let decision = tokio::select! {
        biased;
        () = stop.cancelled() => return Err("Not run: the turn was interrupted.".to_owned()),
        decision = broker.ask(what.clone(), why, subject) => decision,
    };
    match decision {
        Some(decision) if decision.is_allowed => Ok(()),
        Some(_) => Err(format!("{DENIED_BY_USER}{DENIAL_ADVICE}")),
        None if stop.is_cancelled() => Err("Not run: the turn was interrupted.".to_owned()),
        None => {
            let _ = audit.record_rule(&what, false, &rule).await;
            Err(format!(
                "{DENIED_UNASKED}{rule}` says to ask, and nobody can be asked here. {DENIAL_ADVICE}"
            ))
        }
    }
}

/// What a rule about a tool is matched against: a command, or a path relative to the workspace.
fn main_argument(arguments: &Value) -> Option<String> {
    if let Some(command) = arguments.get(COMMAND_ARGUMENT).and_then(Value::as_str) {
        return Some(command.trim().to_owned());
    }
    arguments
        .get(PATH_ARGUMENT)
        .and_then(Value::as_str)
        .map(normalize_path)
}

/// A path as rules are written: normalized, and relative to the workspace if it is inside.
fn normalize_path(path: &str) -> String {
    let mut found = PathBuf::new();
    for component in Path::new(WORKSPACE_PATH).join(path.trim()).components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            component => found.push(component),
        }
    }
    match found.strip_prefix(WORKSPACE_PATH) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => found.display().to_string(),
    }
}

/// Describes a call in one line that hides nothing: unprintable characters are escaped, and characters
/// left out are counted.
fn describe_call(tool: &str, argument: Option<&str>) -> String {
    let Some(argument) = argument else {
        return format!("call {tool}");
    };
    let mut line = format!("{tool}: ");
    let mut characters = argument.chars();
    for character in characters.by_ref().take(MAX_ARGUMENT_CHARS) {
        if audit::is_unprintable(character) {
            line.extend(character.escape_default())
        } else {
            line.push(character)
        }
    }
    match characters.count() {
        0 => line,
        more => format!("{line}… and {more} more characters"),
    }
}

/// Makes the gate of the session's sandbox use the rules and, if possible, ask the user. Decisions are
/// recorded under the sandbox's name, which defaults to the session's.
pub(crate) fn install_approvals(
    spec: &mut SandboxSpec,
    approvals: Approvals,
    sender: EventSender,
    log: EventLog,
) -> Arc<ApprovalBroker> {
    let session = sender.session().to_string();
    let name = spec.name.get_or_insert(session).clone();
    let audit = ApprovalAudit::new(name, spec.audit.clone());
    let asks = approvals.asks;
    let gate = gate(spec, &approvals);
    let hosts = gate.as_ref().map(|gate| gate.hosts().clone());
    let broker = ApprovalBroker::new(sender, log, audit, approvals, hosts);
    if let Some(gate) = gate {
        spec.network = Network::Gated(if asks {
            gate.with_approver(Arc::new(GateAsker(broker.clone())))
        } else {
            gate
        });
    }
    broker
}

/// The gate for the sandbox's proxy, with the rules about hosts; `None` when it needs no proxy.
fn gate(spec: &SandboxSpec, approvals: &Approvals) -> Option<EgressGate> {
    if spec.backend == Backend::None {
        return None;
    }
    let has_proxy = approvals.asks || !approvals.hosts.allowed().is_empty();
    let gate = match &spec.network {
        Network::Off if !has_proxy => return None,
        Network::Off => EgressGate::from(SharedPolicy::default()),
        Network::Allow(allow) => EgressGate::from(allow.clone()),
        Network::Gated(gate) => gate.clone(),
    };
    gate.hosts().extend(&approvals.hosts);
    Some(gate)
}

/// Forwards the questions of a gate to the user.
struct GateAsker(Arc<ApprovalBroker>);

impl HostApprover for GateAsker {
    fn ask(&self, target: &ConnectTarget, rule: Option<&EgressRule>) -> HostApprovalFuture {
        let broker = self.0.clone();
        let host = EgressRule::from(target).to_string();
        let what = format!("connect to {target}");
        let why = match rule {
            Some(rule) => format!("rule `{rule}` says to ask"),
            None => "no rule names this host".to_owned(),
        };
        let denied = |because: &str| HostApproval::Denied {
            because: because.to_owned(),
        };
        Box::pin(async move {
            if broker.has_denied(&host) {
                return denied("the person said no");
            }
            match broker.ask(what, why, Subject::Host { host }).await {
                Some(Decision {
                    is_allowed: true,
                    scope,
                }) => HostApproval::Allowed {
                    because: allowed_by_person(scope).to_owned(),
                },
                Some(_) => denied("the person said no"),
                None => denied("nobody answered"),
            }
        })
    }
}

fn allowed_by_person(scope: Scope) -> &'static str {
    match scope {
        Scope::Once => "the person, once",
        Scope::Session => "the person, for this session",
        Scope::Always => "the person, always",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_match_the_main_argument() {
        let check = |input: Value, expect: Option<&str>| {
            assert_eq!(main_argument(&input).as_deref(), expect, "{input}");
        };
        check(json!({"command": "git push"}), Some("git push"));
        check(json!({"command": "\n  git push\n"}), Some("git push"));
        check(
            json!({"path": "src/main.rs", "content": "x"}),
            Some("src/main.rs"),
        );
        check(
            json!({"path": "./src/../src//main.rs"}),
            Some("src/main.rs"),
        );
        check(
            json!({"path": "/workspace/src/main.rs"}),
            Some("src/main.rs"),
        );
        check(json!({"path": "../workspace/a"}), Some("a"));
        check(json!({"path": "../../../etc/passwd"}), Some("/etc/passwd"));
        check(json!({"path": "."}), Some("."));
        check(json!({"path": "output:3"}), Some("output:3"));
        check(json!({"items": []}), None);
        check(json!({"command": 3}), None);
        check(json!("no object"), None);
        check(Value::Null, None);
    }

    #[test]
    fn a_question_shows_every_character_or_its_escape() {
        let check = |argument: Option<&str>, expect: &str| {
            assert_eq!(describe_call("bash", argument), expect);
        };
        check(None, "call bash");
        check(Some("ls -l"), "bash: ls -l");
        check(Some("ls\nrm -rf ~"), r"bash: ls\nrm -rf ~");
        check(Some("ls \u{1b}[2K"), r"bash: ls \u{1b}[2K");
        check(Some("ls \u{202e}txt"), r"bash: ls \u{202e}txt");
        let long = "é".repeat(1000);
        let shown = format!("bash: {}… and 600 more characters", "é".repeat(400));
        check(Some(&long), &shown);
    }
}
