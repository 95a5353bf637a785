//! Chat: each message is a turn of an interactive job; the response is the turn's event stream.

use axum::extract::State;
use axum::response::Response;
use protocol::job::{JobId, JobInput, JobRequest, JobState, Webhook};
use protocol::{Backend, Budget, Limits, Strength};
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::http::SharedHttp;
use crate::http::events::{FilterDecision, SentView, UpdateFilter, respond_with_updates};
use crate::http::extractors::{AuthenticatedCaller, JsonBody, read_json};
use crate::http::problem::HttpProblem;
use crate::http::submission::check_numbers;
use crate::hub::{JobUpdate, TurnBoundary};

/// A message to a new or an existing job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ChatRequest {
    New(Box<NewChat>),
    Next(NextMessage),
}

/// The next message to an existing job, whose options stay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextMessage {
    #[schema(
        min_length = 1,
        max_length = 1_048_576,
        pattern = r"[^\s\x00-\x1f\x7f-\x9f]"
    )]
    message: String,
    job_id: JobId,
}

/// The first message to a new job, and its options.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewChat {
    #[schema(
        min_length = 1,
        max_length = 1_048_576,
        pattern = r"[^\s\x00-\x1f\x7f-\x9f]",
        example = "What is in this folder?"
    )]
    message: String,
    model: Option<String>,
    backend: Option<Backend>,
    require: Option<Strength>,
    limits: Option<Limits>,
    network: Option<Vec<String>>,
    budget: Option<Budget>,
    /// Seconds.
    #[schema(minimum = 1)]
    timeout: Option<u64>,
    #[schema(value_type = Option<protocol::job::RequestedInput>)]
    input: Option<JobInput>,
    webhook: Option<Webhook>,
}

/// Sends a message and streams its turn as server-sent events.
///
/// The first event is the job. The last is `end`, when the turn is over. The job then waits for the
/// next message.
#[utoipa::path(
    post,
    path = "/chat",
    tag = "events",
    operation_id = "chat",
    request_body = ChatRequest,
    responses((status = OK, description = "Server-sent events, until the turn ends.", body = SentView, content_type = "text/event-stream")),
)]
pub(crate) async fn chat(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    JsonBody(body): JsonBody<Map<String, Value>>,
) -> Result<Response, HttpProblem> {
    let app = &http.app;
    let (id, after, turn) = match ChatRequest::read(body)? {
        ChatRequest::New(new) => {
            let accepted = app
                .schedule(&caller, new.into_request()?, None, None)
                .await?;
            http.metrics.scheduled();
            let turn = TurnFilter {
                number: 1,
                has_begun: true,
            };
            (accepted.id, 0, turn)
        }
        ChatRequest::Next(NextMessage {
            message,
            job_id: id,
        }) => {
            let job = app.job(&caller, id).await?;
            let is_idle = job.state.has_ended() || job.state == JobState::Waiting;
            let after = app.last_event(&caller, id).await?;
            let job = app.send_message(&caller, id, message).await?;
            let turn = TurnFilter {
                number: job.messages,
                has_begun: is_idle,
            };
            (id, after, turn)
        }
    };
    let follower = app.follow(&caller, id, after).await?;
    Ok(respond_with_updates(&http, follower, turn))
}

impl ChatRequest {
    fn read(body: Map<String, Value>) -> Result<Self, HttpProblem> {
        let is_next = body.contains_key("job_id");
        let body = Value::Object(body).to_string();
        if is_next {
            read_json(body.as_bytes())
                .map(Self::Next)
                .map_err(|problem| problem.hint("send `message` and `job_id` alone"))
        } else {
            read_json(body.as_bytes()).map(|new| Self::New(Box::new(new)))
        }
    }
}

impl NewChat {
    fn into_request(self) -> Result<JobRequest, HttpProblem> {
        let request = JobRequest {
            task: self.message,
            model: self.model,
            backend: self.backend,
            require: self.require,
            limits: self.limits.unwrap_or_default(),
            network: self.network.unwrap_or_default(),
            budget: self.budget.unwrap_or_default(),
            timeout: self.timeout,
            input: self.input,
            webhook: self.webhook,
            interactive: true,
        };
        check_numbers(&request)?;
        Ok(request)
    }
}

/// Passes the events of one turn of a job.
struct TurnFilter {
    number: u32,
    has_begun: bool,
}

impl UpdateFilter for TurnFilter {
    fn decide(&mut self, update: &JobUpdate) -> FilterDecision {
        let JobUpdate::Event { turn, .. } = update else {
            return FilterDecision::Pass;
        };
        self.has_begun |= *turn == Some(TurnBoundary::Started(self.number));
        match turn {
            _ if !self.has_begun => FilterDecision::Skip,
            Some(TurnBoundary::Ended(turn)) if *turn >= self.number => FilterDecision::Last,
            _ => FilterDecision::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn event(seq: Option<u64>, turn: Option<TurnBoundary>) -> JobUpdate {
        JobUpdate::Event {
            seq,
            turn,
            json: Arc::from("{}"),
        }
    }

    #[test]
    fn a_chat_receives_only_its_own_turn() {
        let mut filter = TurnFilter {
            number: 2,
            has_begun: false,
        };
        let mut check = |update: JobUpdate, expect: FilterDecision| {
            assert_eq!(filter.decide(&update), expect, "{update:?}")
        };
        check(event(None, None), FilterDecision::Skip);
        check(
            event(Some(4), Some(TurnBoundary::Ended(1))),
            FilterDecision::Skip,
        );
        check(
            event(Some(5), Some(TurnBoundary::Started(2))),
            FilterDecision::Pass,
        );
        check(event(None, None), FilterDecision::Pass);
        check(
            event(Some(6), Some(TurnBoundary::Ended(2))),
            FilterDecision::Last,
        );
    }
}
