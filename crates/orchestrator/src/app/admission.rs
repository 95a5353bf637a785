//! Admission: checks each job request against the server's policy before it is stored.
//!
//! A refusal is one line that names the field.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use egress::address::Class;
use egress::{Host, Rule, Target, class_on_host};
use protocol::job::{JobBudget, JobInput, JobLimits, JobRequest, Webhook};
use sandbox::{Backend, LimitKind, Limits, Network};

use super::AppError;
use crate::config::Policy;
use crate::input;
use crate::parts::Parts;
use crate::ports::Models;
use crate::worker::plan;

pub(super) const LONGEST_MESSAGE: usize = 1 << 20;
const MOST_RULES: usize = 256;
const MOST_MODELS: usize = 64;

#[derive(Debug)]
pub(super) struct Admission {
    policy: Policy,
    models: Arc<dyn Models>,
    known: Mutex<HashMap<Option<String>, Known>>,
}

/// The cached result of choosing a model.
#[derive(Debug, Clone)]
enum Known {
    Good { name: String, is_priced: bool },
    Bad(String),
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, AppError> {
    Err(AppError::Invalid(reason.into()))
}

impl Admission {
    pub(super) fn new(parts: &Parts) -> Self {
        Self {
            policy: parts.config.policy.clone(),
            models: parts.models.clone(),
            known: Mutex::default(),
        }
    }

    /// The name of the default model, if it is usable.
    pub(super) fn default_model(&self) -> Option<String> {
        match self.model(None) {
            Known::Good { .. } => Some(self.models.default_name().to_owned()),
            Known::Bad(_) => None,
        }
    }

    pub(super) fn check(&self, request: &JobRequest) -> Result<(), AppError> {
        check_message("task", &request.task)?;
        self.check_limits(&request.limits)?;
        self.check_budget(&request.budget)?;
        self.check_network(&request.network)?;
        self.check_walls(request)?;
        self.check_model(request)?;
        match request.timeout {
            Some(0) => return invalid("timeout: it must be at least 1 second"),
            Some(seconds) if seconds > self.policy.timeout.as_secs() => {
                let most = self.policy.timeout.as_secs();
                return invalid(format!("timeout: at most {most} seconds are possible"));
            }
            _ => {}
        }
        if let Some(JobInput::Git { url, branch }) = &request.input {
            input::check_git(url, branch.as_deref())
                .map_err(|error| AppError::Invalid(format!("input: {error}")))?;
        }
        request.webhook.as_ref().map_or(Ok(()), check_webhook)
    }

    fn check_limits(&self, limits: &JobLimits) -> Result<(), AppError> {
        check_least(limits)?;
        let most = &self.policy.sandbox.limits;
        check_whole("limits.memory", limits.memory, most.memory)?;
        check_whole("limits.pids", limits.pids.map(u64::from), most.pids.into())?;
        check_whole("limits.disk", limits.disk, most.disk)?;
        check_whole("limits.open_files", limits.open_files, most.open_files)?;
        match limits.cpus {
            Some(cpus) if cpus > most.cpus => {
                invalid(format!("limits.cpus: at most {} are possible", most.cpus))
            }
            _ => Ok(()),
        }
    }

    fn check_budget(&self, budget: &JobBudget) -> Result<(), AppError> {
        let most = &self.policy.budget;
        let tokens = most.tokens.unwrap_or(u64::MAX);
        let turns = most.turns.map_or(u64::MAX, u64::from);
        check_whole("budget.tokens", budget.tokens, tokens)?;
        check_whole("budget.turns", budget.turns.map(u64::from), turns)?;
        match (budget.cost, most.cost) {
            (Some(cost), _) if !(cost.is_finite() && cost > 0.0) => {
                invalid("budget.cost: it must be a number above 0")
            }
            (Some(cost), Some(most)) if cost > most => {
                invalid(format!("budget.cost: at most {most} is possible"))
            }
            _ => Ok(()),
        }
    }

    fn check_network(&self, rules: &[String]) -> Result<(), AppError> {
        if rules.len() > MOST_RULES {
            return invalid(format!("network: at most {MOST_RULES} hosts are possible"));
        }
        for text in rules {
            let rule: Rule = text
                .parse()
                .map_err(|error| AppError::Invalid(format!("network: {error}")))?;
            if !is_public(text) && !self.has_rule(&rule) {
                return invalid(format!(
                    "network: `{}` is not a public host, and this server does not open it",
                    text.escape_debug()
                ));
            }
        }
        Ok(())
    }

    /// Refuses a backend that is weaker than required: it would fail at every start.
    fn check_walls(&self, request: &JobRequest) -> Result<(), AppError> {
        let backend = plan::backend(request, &self.policy);
        let require = plan::require(request, &self.policy);
        if backend == Backend::Auto || backend.strength() >= require {
            return Ok(());
        }
        // Name the field that the client can change.
        let field = match request.backend {
            Some(_) => "backend",
            None => "require",
        };
        invalid(format!(
            "{field}: the walls of `{backend}` are `{}`, and `{}` is required",
            backend.strength().name(),
            require.name()
        ))
    }

    /// Whether the server's policy allows this rule for every job.
    fn has_rule(&self, rule: &Rule) -> bool {
        match &self.policy.sandbox.network {
            Network::Off => false,
            Network::Allow(allow) => allow.rules().contains(rule),
            Network::Gated(gate) => gate.hosts().policy().allowed().contains(rule),
        }
    }

    fn check_model(&self, request: &JobRequest) -> Result<(), AppError> {
        match self.model(request.model.as_deref()) {
            Known::Bad(reason) => invalid(format!("model: {reason}")),
            Known::Good {
                is_priced: false,
                name,
            } if request.budget.cost.is_some() => invalid(format!(
                "budget.cost: the prices of `{}` are unknown",
                name.escape_debug()
            )),
            Known::Good { .. } => Ok(()),
        }
    }

    /// Chooses a model and caches the result.
    fn model(&self, name: Option<&str>) -> Known {
        let key = name.map(str::to_owned);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        drop(known);
        let found = match self.models.choose_or_default(name, 0) {
            Ok(chosen) => Known::Good {
                name: chosen.model.name().to_owned(),
                is_priced: chosen.price.is_known(),
            },
            Err(reason) => Known::Bad(reason),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_MODELS {
            known.insert(key, found.clone());
        }
        found
    }
}

/// Refuses a message that is blank or too long.
pub(super) fn check_message(field: &str, text: &str) -> Result<(), AppError> {
    let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
    if text.chars().all(is_blank) {
        return invalid(format!("{field}: it is empty"));
    }
    if text.len() > LONGEST_MESSAGE {
        let most = LONGEST_MESSAGE >> 20;
        return invalid(format!("{field}: it is longer than {most} MiB"));
    }
    Ok(())
}

/// Applies the same minimums as the command line.
fn check_least(wanted: &JobLimits) -> Result<(), AppError> {
    let least = Limits::LEAST;
    let limits = Limits {
        memory: wanted.memory.unwrap_or(least.memory),
        cpus: wanted.cpus.unwrap_or(least.cpus),
        pids: wanted.pids.unwrap_or(least.pids),
        disk: wanted.disk.unwrap_or(least.disk),
        open_files: wanted.open_files.unwrap_or(least.open_files),
        ..least
    };
    limits.check().map_err(|error| {
        let field = match error.limit {
            LimitKind::Memory => "memory",
            LimitKind::Cpu => "cpus",
            LimitKind::Pids => "pids",
            LimitKind::Disk => "disk",
            LimitKind::OpenFiles => "open_files",
            LimitKind::WallTime | LimitKind::Output => error.limit.name(),
        };
        AppError::Invalid(format!("limits.{field}: {error}"))
    })
}

fn check_whole(field: &str, wanted: Option<u64>, most: u64) -> Result<(), AppError> {
    match wanted {
        Some(0) => invalid(format!("{field}: it must be at least 1")),
        Some(wanted) if wanted > most => invalid(format!("{field}: at most {most} is possible")),
        _ => Ok(()),
    }
}

/// Judges addresses only. Names are checked when they are resolved for a connection.
fn is_public(rule: &str) -> bool {
    match Target::parse(rule, Some(443)).map(|target| target.host) {
        Ok(Host::Address(address)) => class_on_host(address) == Class::Public,
        Ok(Host::Name(name)) => name != "localhost",
        // A rule with a wildcard is always a name.
        Err(_) => true,
    }
}

fn check_webhook(webhook: &Webhook) -> Result<(), AppError> {
    let url = reqwest::Url::parse(&webhook.url)
        .map_err(|error| AppError::Invalid(format!("webhook.url: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(()),
        _ => invalid("webhook.url: it must begin with `http://` or `https://`"),
    }
}
