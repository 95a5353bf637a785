//! Live events of a job as server-sent events.
//!
//! The stream has the job, then its agent's events, the job again after each change, and `end`.
//! Only persistent events have an id: a browser that reconnects sends the last id it has, and
//! misses no persistent event.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use metrics::Gauge;
use protocol::job::{Job, JobId};
use serde::Deserialize;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

use crate::app::JobFollower;
use crate::http::SharedHttp;
use crate::http::extractors::{AuthenticatedCaller, JobPath, QueryParameters, non_negative};
use crate::http::problem::HttpProblem;
use crate::http::view::JobView;
use crate::hub::JobUpdate;

/// Interval of keep-alive comments when there are no events.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Maximum number of events per chunk.
const MAX_EVENTS_PER_CHUNK: usize = 64;

/// Tells the browser to reconnect after this many milliseconds.
const RETRY_PREAMBLE: &[u8] = b"retry: 1000\n\n";

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParameters {
    /// Only events after this one. `Last-Event-ID` has precedence.
    #[param(minimum = 0)]
    after: Option<i64>,
}

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(crate) struct EventHeaders {
    /// Only events after this one.
    #[param(rename = "Last-Event-ID", nullable = false, minimum = 0)]
    last_event_id: Option<i64>,
}

/// A server-sent event.
#[derive(ToSchema)]
#[schema(as = ServerSentEvent)]
#[allow(dead_code, reason = "it only describes what is written")]
pub(crate) struct SentView {
    event: SentKind,
    /// Sequence number of a persistent event of the agent; others have none.
    id: Option<String>,
    /// JSON: a job, an event of the agent, or an empty object.
    data: String,
}

#[derive(ToSchema)]
#[schema(as = ServerSentEventKind, rename_all = "snake_case")]
#[allow(dead_code, reason = "it only describes what is written")]
pub(crate) enum SentKind {
    Job,
    Agent,
    End,
}

/// Follows a job: `job`, `agent` and `end` events.
///
/// The data of `job` is a job, that of `agent` an event of the agent. Persistent events have an id.
/// When the job has ended, the last event is `end` and the stream closes.
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}/events",
    tag = "events",
    operation_id = "follow_job",
    params(
        ("id" = JobId, Path),
        EventParameters,
        EventHeaders,
    ),
    responses((status = OK, description = "Server-sent events, until the job ends.", body = SentView, content_type = "text/event-stream")),
)]
pub(crate) async fn follow(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    JobPath(id): JobPath,
    QueryParameters(parameters): QueryParameters<EventParameters>,
    headers: HeaderMap,
) -> Result<Response, HttpProblem> {
    let after = non_negative("after", parameters.after)?;
    let after = last_event(&headers)?.or(after).unwrap_or(0);
    let follower = http.app.follow(&caller, id, after).await?;
    Ok(respond_with_updates(&http, follower, AllUpdates))
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, HttpProblem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| HttpProblem::bad("`Last-Event-ID` is not a number"))?;
    non_negative("Last-Event-ID", Some(number))
}

/// Decides which updates a stream contains.
pub(crate) trait UpdateFilter: Send + 'static {
    fn decide(&mut self, update: &JobUpdate) -> FilterDecision;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterDecision {
    Pass,
    Skip,
    /// Pass this one and end the stream.
    Last,
}

struct AllUpdates;

impl UpdateFilter for AllUpdates {
    fn decide(&mut self, _: &JobUpdate) -> FilterDecision {
        FilterDecision::Pass
    }
}

struct SseStream<F> {
    follower: JobFollower,
    filter: F,
    _reader: ReaderGauge,
    has_begun: bool,
    is_over: bool,
}

/// Counts an open stream in a gauge.
struct ReaderGauge(Gauge);

impl ReaderGauge {
    fn new(readers: Gauge) -> Self {
        readers.increment(1.0);
        Self(readers)
    }
}

impl Drop for ReaderGauge {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Responds with updates as server-sent events, until their end or the server's shutdown.
pub(crate) fn respond_with_updates<F: UpdateFilter>(
    http: &SharedHttp,
    follower: JobFollower,
    filter: F,
) -> Response {
    let sse_stream = SseStream {
        follower,
        filter,
        _reader: ReaderGauge::new(http.metrics.readers()),
        has_begun: false,
        is_over: false,
    };
    let chunks = stream::unfold(sse_stream, |mut sse_stream| async move {
        let chunk = sse_stream.next().await?;
        Some((Ok::<_, Infallible>(chunk), sse_stream))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

impl<F: UpdateFilter> SseStream<F> {
    /// The next chunk of the stream: all pending updates, or a keep-alive comment.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(Bytes::from_static(RETRY_PREAMBLE));
        }
        let mut text = String::new();
        while !self.is_over {
            let Ok(mut next) = timeout(HEARTBEAT_INTERVAL, self.follower.next()).await else {
                return Some(Bytes::from_static(b": alive\n\n"));
            };
            self.is_over = next.is_none();
            let mut count = 0;
            while let Some(update) = next {
                self.write(&mut text, &update);
                count += 1;
                next = if self.is_over || count == MAX_EVENTS_PER_CHUNK {
                    None
                } else {
                    self.follower.try_next()
                };
            }
            if !text.is_empty() {
                return Some(text.into());
            }
        }
        None
    }

    /// Writes an update, unless it is filtered out.
    fn write(&mut self, text: &mut String, update: &JobUpdate) {
        let decision = self.filter.decide(update);
        let is_end = matches!(update, JobUpdate::End);
        if decision != FilterDecision::Skip {
            write_event(text, update);
        }
        if decision == FilterDecision::Last && !is_end {
            write_event(text, &JobUpdate::End);
        }
        self.is_over = is_end || decision == FilterDecision::Last;
    }
}

fn job_json(job: &Job) -> String {
    let view = JobView::from(job.clone());
    serde_json::to_string(&view).expect("a job serialises to JSON")
}

fn write_event(text: &mut String, update: &JobUpdate) {
    let written = match update {
        JobUpdate::Job(snapshot) => {
            let json = snapshot.json(job_json);
            write!(text, "event: job\ndata: {json}\n\n")
        }
        JobUpdate::Event {
            seq: Some(seq),
            json,
            ..
        } => write!(text, "event: agent\nid: {seq}\ndata: {json}\n\n"),
        JobUpdate::Event {
            seq: None, json, ..
        } => write!(text, "event: agent\ndata: {json}\n\n"),
        JobUpdate::End => write!(text, "event: end\ndata: {{}}\n\n"),
    };
    written.expect("writing to a string cannot fail");
}
