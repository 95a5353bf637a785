//! Lookups beside the conversation: sessions, previews, exports, model names, rules.

use std::path::{Path, PathBuf};

use protocol::{ApprovalRule, SessionId};
use store::{SearchHit, SessionQuery, SessionStore, SessionSummary};

use super::super::sessions::export_to;
use crate::cli_error::CliError;
use crate::render::transcript;
use crate::settings::{Settings, prices, save_rule};

/// Maximum sessions in a list.
const MAX_LISTED_SESSIONS: u64 = 200;

/// Events at the end of a session that a preview reads.
const PREVIEW_EVENTS: u32 = 200;

/// Lines of a preview.
const PREVIEW_LINES: usize = 60;

/// Sessions that match these words, or all; newest first.
pub(super) async fn sessions(
    store: &SessionStore,
    words: &str,
) -> Result<Vec<SearchHit>, CliError> {
    if !words.trim().is_empty() {
        return Ok(store.search(words, MAX_LISTED_SESSIONS).await?);
    }
    let page = SessionQuery {
        limit: MAX_LISTED_SESSIONS,
        ..SessionQuery::default()
    };
    let all = store.sessions(&page).await?;
    let found = |summary: SessionSummary| SearchHit {
        summary,
        excerpt: String::new(),
    };
    Ok(all.into_iter().map(found).collect())
}

/// The end of a session, as text.
pub(super) async fn preview(store: &SessionStore, session: &SessionId) -> Result<String, CliError> {
    let summary = store.summary(session).await?;
    let after = summary.events.saturating_sub(PREVIEW_EVENTS.into());
    let events = store.events_after(session, after, PREVIEW_EVENTS).await?;
    let text = transcript(&events);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(PREVIEW_LINES)..].join("\n"))
}

/// Writes a session to a file and returns its path.
pub(super) async fn export(
    store: &SessionStore,
    session: &SessionId,
    output: Option<&Path>,
) -> Result<PathBuf, CliError> {
    let output = output.unwrap_or(Path::new("."));
    export_to(store, session, output, false)
        .await
        .map_err(|complaint| complaint.hint("name another file".to_owned()))
}

/// Model names to choose from. The configured model comes first; it is in use unless another was
/// chosen.
pub(super) fn model_names(settings: &Settings) -> Vec<String> {
    let own = settings.get("model").map(|setting| setting.value.clone());
    let mut names: Vec<String> = own.into_iter().collect();
    if let (Some(_), Ok(prices)) = (settings.get("anthropic.api_key"), prices(settings)) {
        let known = prices.names().map(str::to_owned);
        names.extend(
            known.filter(|name| settings.get("model").is_none_or(|own| own.value != *name)),
        );
    }
    names
}

/// Saves a rule for all later sessions and returns a message with its location.
pub(super) async fn keep(
    file: Option<PathBuf>,
    workspace: PathBuf,
    rule: ApprovalRule,
) -> Result<String, CliError> {
    let Some(file) = file else {
        let text = "cannot save the rule: there is no folder for settings";
        return Err(CliError::new(1, text)
            .hint("set HOME, or name a settings file with `--config`".to_owned()));
    };
    let kept = tokio::task::spawn_blocking(move || {
        save_rule(&file, &workspace, &rule)?;
        Ok(format!("saved as a rule in `{}`", file.display()))
    });
    kept.await
        .unwrap_or_else(|lost| Err(CliError::from_error(1, &lost)))
}
