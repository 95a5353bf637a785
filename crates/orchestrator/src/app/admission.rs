//! Admission: checks each job request against the server's policy before it is stored.
//!
//! The only place for rules about a request, apart from those about its upload in `scheduling.rs`.
//! HTTP checks only the encoding. A refusal is one line that names the field.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use egress::address::AddressClass;
use egress::{ConnectTarget, EgressRule, Host, classify_on_host};
use protocol::job::{JobInput, JobRequest, Webhook};
use protocol::{Backend, Budget, Limits};
use sandbox::{LimitKind, Network, SandboxLimits};

use super::AppError;
use crate::config::JobPolicy;
use crate::input;
use crate::parts::ServerParts;
use crate::plan;
use crate::ports::ServerModels;

pub(super) const MAX_MESSAGE_BYTES: usize = 1 << 20;
const MAX_NETWORK_RULES: usize = 256;
const MAX_CACHED_MODELS: usize = 64;

#[derive(Debug)]
pub(super) struct JobAdmission {
    policy: JobPolicy,
    models: Arc<dyn ServerModels>,
    known: Mutex<HashMap<Option<String>, ModelCheck>>,
}

/// The cached result of choosing a model.
#[derive(Debug, Clone)]
enum ModelCheck {
    Good { name: String, is_priced: bool },
    Bad(String),
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, AppError> {
    Err(AppError::Invalid(reason.into()))
}

impl JobAdmission {
    pub(super) fn new(parts: &ServerParts) -> Self {
        Self {
            policy: parts.config.policy.clone(),
            models: parts.models.clone(),
            known: Mutex::default(),
        }
    }

    /// The name of the default model, if it is usable.
    pub(super) fn default_model(&self) -> Option<String> {
        match self.model(None) {
            ModelCheck::Good { .. } => Some(self.models.default_name().to_owned()),
            ModelCheck::Bad(_) => None,
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

    fn check_limits(&self, limits: &Limits) -> Result<(), AppError> {
        check_minimums(limits)?;
        let most = &self.policy.sandbox.limits;
        check_range("limits.memory", limits.memory, most.memory)?;
        check_range("limits.pids", limits.pids.map(u64::from), most.pids.into())?;
        check_range("limits.disk", limits.disk, most.disk)?;
        check_range("limits.open_files", limits.open_files, most.open_files)?;
        match limits.cpus {
            Some(cpus) if cpus > most.cpus => {
                invalid(format!("limits.cpus: at most {} are possible", most.cpus))
            }
            _ => Ok(()),
        }
    }

    fn check_budget(&self, budget: &Budget) -> Result<(), AppError> {
        let most = &self.policy.budget;
        let tokens = most.tokens.unwrap_or(u64::MAX);
        let turns = most.turns.map_or(u64::MAX, u64::from);
        check_range("budget.tokens", budget.tokens, tokens)?;
        check_range("budget.turns", budget.turns.map(u64::from), turns)?;
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
        if rules.len() > MAX_NETWORK_RULES {
            return invalid(format!(
                "network: at most {MAX_NETWORK_RULES} hosts are possible"
            ));
        }
        for text in rules {
            let rule: EgressRule = text
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
        // The JSON of a request cannot name it.
        if request.backend == Some(Backend::None) {
            return invalid("backend: a job requires a sandbox");
        }
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
    fn has_rule(&self, rule: &EgressRule) -> bool {
        match &self.policy.sandbox.network {
            Network::Off => false,
            Network::Allow(allow) => allow.rules().contains(rule),
            Network::Gated(gate) => gate.hosts().policy().allowed().contains(rule),
        }
    }

    fn check_model(&self, request: &JobRequest) -> Result<(), AppError> {
        match self.model(request.model.as_deref()) {
            ModelCheck::Bad(reason) => invalid(format!("model: {reason}")),
            ModelCheck::Good {
                is_priced: false,
                name,
            } if request.budget.cost.is_some() => invalid(format!(
                "budget.cost: the prices of `{}` are unknown",
                name.escape_debug()
            )),
            ModelCheck::Good { .. } => Ok(()),
        }
    }

    /// Chooses a model and caches the result.
    fn model(&self, name: Option<&str>) -> ModelCheck {
        let key = name.map(str::to_owned);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        drop(known);
        let found = match self.models.choose_or_default(name, 0) {
            Ok(chosen) => ModelCheck::Good {
                name: chosen.model.name().to_owned(),
                is_priced: chosen.price.is_known(),
            },
            Err(reason) => ModelCheck::Bad(reason),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_CACHED_MODELS {
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
    if text.len() > MAX_MESSAGE_BYTES {
        let most = MAX_MESSAGE_BYTES >> 20;
        return invalid(format!("{field}: it is longer than {most} MiB"));
    }
    Ok(())
}

/// Applies the same minimums as the command line.
fn check_minimums(wanted: &Limits) -> Result<(), AppError> {
    let limits = SandboxLimits::MIN_LIMITS.with(wanted);
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

fn check_range(field: &str, wanted: Option<u64>, most: u64) -> Result<(), AppError> {
    match wanted {
        Some(0) => invalid(format!("{field}: it must be at least 1")),
        Some(wanted) if wanted > most => invalid(format!("{field}: at most {most} is possible")),
        _ => Ok(()),
    }
}

/// Judges addresses only. Names are checked when they are resolved for a connection.
fn is_public(rule: &str) -> bool {
    match ConnectTarget::parse(rule, Some(443)).map(|target| target.host) {
        Ok(Host::Address(address)) => classify_on_host(address) == AddressClass::Public,
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
