//! Full-text search in sessions.
//!
//! User input is data: each word is passed to the index as a quoted string, so that none is an operator.

use sqlx::SqliteConnection;

use crate::error::StoreError;
use crate::rows::{place, summary, summary_columns};
use crate::sessions::SessionSummary;
use crate::store::SessionStore;

const SELECT_SESSIONS_WITH_WORD: &str =
    "SELECT DISTINCT rowid >> 32 FROM words WHERE words MATCH ?1";

// The first of a session's events that has the words. Not ordered by rank, which would have to count the
// words of all sessions.
const SELECT_EXCERPT: &str = "
    SELECT snippet(words, 0, '', '', '…', 16) FROM words
    WHERE words MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid LIMIT 1";

const SELECT_SUMMARY: &str = concat!(
    "SELECT ",
    summary_columns!(),
    " FROM sessions WHERE number = ?1"
);

/// The maximum number of words of a query; further ones are ignored.
const MAX_QUERY_WORDS: usize = 32;

const OPERATION: &str = "search";

/// A session that matches a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub summary: SessionSummary,
    /// The words with some text around them.
    pub excerpt: String,
}

impl SessionStore {
    /// Sessions in which all of the words occur, in prompts, replies or titles, newest first. A word also
    /// matches longer words that begin with it. A limit of 0 means no limit.
    pub async fn search(&self, words: &str, limit: u64) -> Result<Vec<SearchHit>, StoreError> {
        let words = quote_words(words);
        let mut reader = self.sessions_db().slow_reader().await?;
        let found = search_sessions(&mut reader, &words, limit).await;
        found.map_err(StoreError::database(OPERATION))
    }
}

async fn search_sessions(
    connection: &mut SqliteConnection,
    words: &[String],
    limit: u64,
) -> Result<Vec<SearchHit>, sqlx::Error> {
    let mut found = Vec::new();
    for session in sessions_with_all(connection, words).await? {
        let row = sqlx::query(SELECT_SUMMARY)
            .bind(session)
            .fetch_optional(&mut *connection)
            .await?;
        // The session was deleted meanwhile.
        let Some(row) = row else { continue };
        found.push(SearchHit {
            summary: summary(&row)?,
            excerpt: excerpt(connection, words, session).await?,
        });
        if found.len() as u64 == limit {
            break;
        }
    }
    Ok(found)
}

/// Numbers of the sessions that have all words, newest first. The words need not be in one event.
async fn sessions_with_all(
    connection: &mut SqliteConnection,
    words: &[String],
) -> Result<Vec<i64>, sqlx::Error> {
    let mut all: Option<Vec<i64>> = None;
    for word in words {
        let mut with: Vec<i64> = sqlx::query_scalar(SELECT_SESSIONS_WITH_WORD)
            .bind(word)
            .fetch_all(&mut *connection)
            .await?;
        with.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(all) = &all {
            with.retain(|session| all.binary_search_by(|one| session.cmp(one)).is_ok());
        }
        all = Some(with);
    }
    Ok(all.unwrap_or_default())
}

async fn excerpt(
    connection: &mut SqliteConnection,
    words: &[String],
    session: i64,
) -> Result<String, sqlx::Error> {
    // Preferably an event with all words, else one with any of them.
    for join in [" AND ", " OR "] {
        let text: Option<String> = sqlx::query_scalar(SELECT_EXCERPT)
            .bind(words.join(join))
            .bind(place(session, 1))
            .bind(place(session + 1, 0))
            .fetch_optional(&mut *connection)
            .await?;
        if let Some(text) = text {
            return Ok(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    Ok(String::new())
}

/// Quotes each word for an FTS query. Words without letters and digits are not indexed and are left out.
pub(crate) fn quote_words(words: &str) -> Vec<String> {
    words
        .split(|letter: char| letter.is_whitespace() || letter == '\0')
        .filter(|word| word.contains(char::is_alphanumeric))
        .take(MAX_QUERY_WORDS)
        .map(|word| format!("\"{}\"*", word.replace('"', "\"\"")))
        .collect()
}
