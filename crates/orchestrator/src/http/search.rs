//! Full-text search in the sessions of jobs.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::extractors::{AuthenticatedCaller, QueryParameters};
use crate::http::problem::HttpProblem;
use crate::http::view::JobView;

/// Number of results when the request does not specify one.
const DEFAULT_RESULTS: usize = 20;
const MAX_RESULTS: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParameters {
    /// Words of prompts, replies and titles; a prefix of a word is enough.
    q: String,
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<usize>,
}

/// Jobs that were found, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundList {
    found: Vec<FoundView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FoundJob)]
pub(crate) struct FoundView {
    job: JobView,
    /// The words with their context.
    excerpt: String,
}

/// Finds jobs by words in their prompts, replies and titles.
#[utoipa::path(
    get,
    path = "/v1/search",
    tag = "jobs",
    operation_id = "search_jobs",
    params(SearchParameters),
    responses((status = OK, body = FoundList, description = "The jobs that were found.")),
)]
pub(crate) async fn search(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    QueryParameters(SearchParameters { q, limit }): QueryParameters<SearchParameters>,
) -> Result<Json<FoundList>, HttpProblem> {
    let limit = limit.unwrap_or(DEFAULT_RESULTS);
    if !(1..=MAX_RESULTS).contains(&limit) {
        return Err(HttpProblem::bad(format!(
            "limit: {limit} is not from 1 to {MAX_RESULTS}"
        )));
    }
    let found = app.search(&caller, &q, limit).await?;
    let found = found.into_iter().map(|found| FoundView {
        job: JobView::abridged(found.job),
        excerpt: found.excerpt,
    });
    Ok(Json(FoundList {
        found: found.collect(),
    }))
}
