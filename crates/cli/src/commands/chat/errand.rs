//! Lookups beside the conversation: sessions, previews, exports, model names, rules.

use std::path::{Path, PathBuf};

use protocol::{Rule, SessionId};
use store::{Found, Page, Store, Summary};

use super::super::sessions::export_to;
use crate::complaint::Complaint;
use crate::render::transcript;
use crate::settings::{Settings, prices, remember};

/// Maximum sessions in a list.
const MOST_SESSIONS: u64 = 200;

/// Events at the end of a session that a preview reads.
const LAST_EVENTS: u32 = 200;

/// Lines of a preview.
const PREVIEW: usize = 60;

/// Sessions that match these words, or all; newest first.
pub(super) async fn sessions(store: &Store, words: &str) -> Result<Vec<Found>, Complaint> {
    if !words.trim().is_empty() {
        return Ok(store.search(words, MOST_SESSIONS).await?);
    }
    let page = Page {
        limit: MOST_SESSIONS,
        ..Page::default()
    };
    let all = store.sessions(&page).await?;
    let found = |summary: Summary| Found {
        summary,
        excerpt: String::new(),
    };
    Ok(all.into_iter().map(found).collect())
}

/// The end of a session, as text.
pub(super) async fn preview(store: &Store, session: &SessionId) -> Result<String, Complaint> {
    let summary = store.summary(session).await?;
    let after = summary.events.saturating_sub(LAST_EVENTS.into());
    let events = store.events_after(session, after, LAST_EVENTS).await?;
    let text = transcript(&events);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(PREVIEW)..].join("\n"))
}

/// Writes a session to a file and returns its path.
pub(super) async fn export(
    store: &Store,
    session: &SessionId,
    output: Option<&Path>,
) -> Result<PathBuf, Complaint> {
    let output = output.unwrap_or(Path::new("."));
    export_to(store, session, output, false)
        .await
        .map_err(|complaint| complaint.hint("name another file".to_owned()))
}

/// Model names to choose from. The configured model comes first; it is in use unless another was
/// chosen.
pub(super) fn models(settings: &Settings) -> Vec<String> {
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
    rule: Rule,
) -> Result<String, Complaint> {
    let Some(file) = file else {
        let text = "cannot save the rule: there is no folder for settings";
        return Err(Complaint::new(1, text)
            .hint("set HOME, or name a settings file with `--config`".to_owned()));
    };
    let kept = tokio::task::spawn_blocking(move || {
        remember(&file, &workspace, &rule)?;
        Ok(format!("saved as a rule in `{}`", file.display()))
    });
    kept.await
        .unwrap_or_else(|lost| Err(Complaint::from_error(1, &lost)))
}
