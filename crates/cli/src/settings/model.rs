//! Converts settings to a model, its prices and a budget.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::ModelCatalog;
use llm::{
    Anthropic, AnthropicConfig, Model, OpenAi, OpenAiConfig, PriceList, RetryPolicy, RetryingModel,
    ScriptedModel, script::Script,
};
use protocol::Budget;
use secrecy::SecretString;

use super::{ConfiguredModels, Setting, Settings, read_small_text};
use crate::args::BudgetFlags;
use crate::cli_error::CliError;
use crate::values::{parse_cost, parse_count, parse_duration};

/// Maximum bytes of a file with scripted replies.
const MAX_SCRIPT_BYTES: u64 = 64 << 20;

/// A model that is ready for requests, and the catalog of others.
#[derive(Debug)]
pub(crate) struct ModelSettings {
    pub(crate) model: agent::ChosenModel,
    pub(crate) models: Arc<dyn ModelCatalog>,
    pub(crate) budget: Budget,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) max_tokens: u32,
}

/// The model named by the settings.
pub(crate) fn choose_model(
    settings: &Settings,
    budget: &BudgetFlags,
) -> Result<ModelSettings, CliError> {
    let name = settings
        .get("model")
        .map(|setting| setting.value.clone())
        .unwrap_or_default();
    let models = ConfiguredModels::for_local_user(settings.clone())?;
    let model = models.named(&name, 0)?;
    let (budget, time_limit) = budget_limits(settings, budget)?;
    if budget.cost.is_some() && !model.price.is_known() {
        let text = format!(
            "the price of `{}` is unknown, so `--max-cost` cannot be enforced",
            name
        );
        return Err(CliError::usage(text).hint(
            "use `--max-tokens-total`, or name its price in the settings file under `prices`"
                .to_owned(),
        ));
    }
    Ok(ModelSettings {
        model,
        models: Arc::new(models),
        budget,
        time_limit,
        max_tokens: reply_tokens(settings)?,
    })
}

/// The model of that name. A scripted one starts with the reply at `place`.
pub(crate) fn model_named(
    settings: &Settings,
    name: &str,
    place: usize,
) -> Result<Arc<dyn Model>, CliError> {
    let max_tokens = reply_tokens(settings)?;
    Ok(match name.split_once('/') {
        Some(("openai", plain)) => Arc::new(with_retries(openai(settings, plain)?)),
        Some(("scripted", file)) => Arc::new(ScriptedModel::starting_at(script(file)?, place)),
        Some(("anthropic", plain)) => {
            Arc::new(with_retries(anthropic(settings, plain, max_tokens)?))
        }
        _ => Arc::new(with_retries(anthropic(settings, name, max_tokens)?)),
    })
}

/// The provider of a model, for display, without a password.
pub(crate) fn provider(settings: &Settings, name: &str) -> String {
    let (kind, own) = match name.split_once('/') {
        Some(("openai", _)) => ("openai", "openai.base_url"),
        Some(("scripted", _)) => return "scripted".to_owned(),
        _ => ("anthropic", "anthropic.base_url"),
    };
    let address = base_url(settings, own).ok();
    let address = address.and_then(|address| address.parse::<reqwest::Url>().ok());
    let host = address.as_ref().and_then(|address| address.host_str());
    match (host, address.as_ref().and_then(|address| address.port())) {
        (Some(host), Some(port)) => format!("{kind} at {host}:{port}"),
        (Some(host), None) => format!("{kind} at {host}"),
        (None, _) => kind.to_owned(),
    }
}

/// Maximum tokens of one reply.
pub(crate) fn reply_tokens(settings: &Settings) -> Result<u32, CliError> {
    Ok(parse_u32(settings, "max_tokens")?.unwrap_or(8096))
}

fn with_retries<M: Model + 'static>(model: M) -> RetryingModel<M> {
    RetryingModel::new(model, RetryPolicy::default())
}

fn anthropic(settings: &Settings, name: &str, max_tokens: u32) -> Result<Anthropic, CliError> {
    let Some(key) = settings.get("anthropic.api_key") else {
        return Err(missing_key());
    };
    let thinking = parse_u32(settings, "thinking")?;
    if thinking.is_some_and(|budget| budget < 1024 || budget >= max_tokens) {
        let text = format!("`thinking` must be from 1024 to below `max_tokens` ({max_tokens})");
        return Err(CliError::usage(text)
            .hint("choose another `--thinking`, or raise `--max-tokens`".to_owned()));
    }
    let base_url = base_url(settings, "anthropic.base_url")?;
    let config = AnthropicConfig {
        proxy: proxy(settings, &base_url),
        base_url,
        thinking_budget: thinking,
        ..AnthropicConfig::new(name, SecretString::from(key.value.clone()))
    };
    Anthropic::new(config).map_err(|error| CliError::from_error(2, &error))
}

fn openai(settings: &Settings, name: &str) -> Result<OpenAi, CliError> {
    let key = settings.get("openai.api_key");
    let base_url = base_url(settings, "openai.base_url")?;
    let config = OpenAiConfig {
        api_key: key.map(|key| SecretString::from(key.value.clone())),
        proxy: proxy(settings, &base_url),
        ..OpenAiConfig::new(name, base_url)
    };
    OpenAi::new(config).map_err(|error| CliError::from_error(2, &error))
}

/// The proxy for requests to the provider, which may contain a password.
fn proxy(settings: &Settings, base_url: &str) -> Option<SecretString> {
    let proxy = settings.get("proxy")?;
    // HTTPS_PROXY applies to HTTPS only: plain HTTP, used by local servers, is not proxied.
    if !base_url.starts_with("https://") {
        return None;
    }
    Some(SecretString::from(proxy.value.clone()))
}

fn script(file: &str) -> Result<Script, CliError> {
    let complain = |why: &dyn std::fmt::Display| {
        CliError::usage(format!("cannot read the script `{file}`: {why}"))
            .hint("`scripted/FILE` names a file of scripted replies".to_owned())
    };
    let text =
        read_small_text(Path::new(file), MAX_SCRIPT_BYTES).map_err(|error| complain(&error))?;
    Script::parse(&text).map_err(|error| {
        // The error also quotes the line; its position is enough.
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        complain(&cause.lines().next().unwrap_or_default())
    })
}

/// The provider's address: the common `base_url`, or the provider's own setting.
fn base_url(settings: &Settings, own: &str) -> Result<String, CliError> {
    let Some(Setting { value, source }) = settings.get("base_url").or(settings.get(own)) else {
        return Err(CliError::usage("an `openai/…` model requires a base URL")
            .hint("set it, such as `--base-url http://127.0.0.1:11434`".to_owned()));
    };
    let mut ways = ["https://", "http://"].iter();
    match ways.find_map(|way| value.strip_prefix(way)) {
        Some(host) if !host.is_empty() => Ok(value.clone()),
        _ => {
            let text = format!("the provider's address from {source} is `{value}`");
            Err(CliError::usage(text)
                .hint("write it as `https://HOST` or `http://HOST:PORT`".to_owned()))
        }
    }
}

fn missing_key() -> CliError {
    let file = Settings::file(None).map_or_else(
        || "the settings file".to_owned(),
        |path| format!("`{}`", path.display()),
    );
    CliError::usage("ANTHROPIC_API_KEY is not set").hint(format!(
        "set it in the environment (`export ANTHROPIC_API_KEY=…`), in `.env` in this folder, or \
         in {file} (`[anthropic]`, `api_key = \"…\"`); `hotcell demo` needs none"
    ))
}

pub(crate) fn prices(settings: &Settings) -> Result<PriceList, CliError> {
    let builtin = PriceList::builtin().clone();
    if settings.prices().is_empty() {
        return Ok(builtin);
    }
    match PriceList::parse(settings.prices()) {
        Ok(more) => Ok(builtin.merge(more)),
        // The error quotes a generated text, not what the user wrote.
        Err(error) => Err(CliError::usage(error).hint(
            "write `[prices.\"NAME\"]` with `input` and `output` in US dollars per million tokens"
                .to_owned(),
        )),
    }
}

/// The budget and the time limit.
pub(crate) fn budget_limits(
    settings: &Settings,
    flags: &BudgetFlags,
) -> Result<(Budget, Option<Duration>), CliError> {
    let cost = settings.parse("budget.cost", parse_cost)?;
    let tokens = settings.parse("budget.tokens", parse_count)?;
    let turns = settings.parse("budget.turns", parse_count)?;
    let time: Option<Duration> = settings.parse("budget.time", parse_duration)?;
    let turns = flags.max_turns.or(turns);
    let budget = Budget {
        cost: flags.max_cost.or(cost),
        tokens: flags.max_tokens_total.or(tokens),
        turns: turns.map(|turns| u32::try_from(turns).unwrap_or(u32::MAX)),
    };
    Ok((budget, flags.max_time.or(time)))
}

fn parse_u32(settings: &Settings, name: &'static str) -> Result<Option<u32>, CliError> {
    settings.parse(name, |text| {
        let count = parse_count(text)?;
        u32::try_from(count).map_err(|_| "this number is too large".to_owned())
    })
}
