//! Live events of a job as server-sent events.
//!
//! The stream has the job, then its agent's events, the job again after each change, and `end`.
//! Only persistent events have an id: a browser that reconnects sends the last id it has, and
//! misses no persistent event.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use metrics::Gauge;
use protocol::job::{Job, JobId};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

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

/// Request extension that is cancelled when the server shuts down.
#[derive(Debug, Clone)]
pub(crate) struct ShutdownSignal(pub(crate) CancellationToken);

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParameters {
    /// Only events after this one; `Last-Event-ID` goes before it.
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

/// One of the events that are sent.
#[derive(ToSchema)]
#[schema(as = ServerSentEvent)]
#[allow(dead_code, reason = "it only describes what is written")]
pub(crate) struct SentView {
    event: SentKind,
    /// Place among the agent's lasting events; only those have one.
    id: Option<String>,
    /// JSON: a job, an event of the agent, or nothing.
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
/// The data of `job` is a job, that of `agent` an event of the agent. Events that last have an id.
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
    request: Request,
) -> Result<Response, HttpProblem> {
    let after = non_negative("after", parameters.after)?;
    let after = last_event(request.headers())?.or(after).unwrap_or(0);
    let told = http.app.follow(&caller, id, after).await?;
    Ok(answer(&http, &request, told, AllUpdates))
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
    fn hear(&mut self, told: &JobUpdate) -> FilterDecision;
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
    fn hear(&mut self, _: &JobUpdate) -> FilterDecision {
        FilterDecision::Pass
    }
}

struct SseStream<E> {
    told: mpsc::Receiver<JobUpdate>,
    ear: E,
    ending: Option<CancellationToken>,
    _reader: ReaderGauge,
    waiting: Vec<JobUpdate>,
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
pub(crate) fn answer<E: UpdateFilter>(
    http: &SharedHttp,
    request: &Request,
    told: mpsc::Receiver<JobUpdate>,
    ear: E,
) -> Response {
    let reading = SseStream {
        told,
        ear,
        ending: request
            .extensions()
            .get::<ShutdownSignal>()
            .map(|ending| ending.0.clone()),
        _reader: ReaderGauge::new(http.meters.readers()),
        waiting: Vec::with_capacity(MAX_EVENTS_PER_CHUNK),
        has_begun: false,
        is_over: false,
    };
    let pieces = stream::unfold(reading, |mut reading| async move {
        let piece = reading.next().await?;
        Some((Ok::<_, Infallible>(piece), reading))
    });
    let mut response = Response::new(Body::from_stream(pieces));
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

impl<E: UpdateFilter> SseStream<E> {
    /// The next chunk of the stream: all pending updates, or a keep-alive comment.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(Bytes::from_static(RETRY_PREAMBLE));
        }
        let mut text = String::new();
        while !self.is_over {
            self.waiting.clear();
            let count = match self.receive().await {
                Some(count) => count,
                None => return Some(Bytes::from_static(b": alive\n\n")),
            };
            if count == 0 {
                self.is_over = true;
            }
            for told in &self.waiting {
                let heard = self.ear.hear(told);
                if heard != FilterDecision::Skip {
                    write_event(&mut text, told);
                }
                if heard == FilterDecision::Last && !matches!(told, JobUpdate::End) {
                    write_event(&mut text, &JobUpdate::End);
                }
                if heard == FilterDecision::Last || matches!(told, JobUpdate::End) {
                    self.is_over = true;
                    break;
                }
            }
            if !text.is_empty() {
                return Some(text.into());
            }
        }
        None
    }

    /// Waits for updates. 0 when there will be no more; `None` after a timeout.
    async fn receive(&mut self) -> Option<usize> {
        let told = timeout(
            HEARTBEAT_INTERVAL,
            self.told.recv_many(&mut self.waiting, MAX_EVENTS_PER_CHUNK),
        );
        match &self.ending {
            None => told.await.ok(),
            Some(ending) => tokio::select! {
                biased;
                () = ending.cancelled() => Some(0),
                told = told => told.ok(),
            },
        }
    }
}

fn job_json(job: &Job) -> String {
    let view = JobView::from(job.clone());
    serde_json::to_string(&view).expect("a job serialises to JSON")
}

fn write_event(text: &mut String, told: &JobUpdate) {
    let written = match told {
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
