//! Handles one request: records it, checks it against the rules, and answers it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use llm::script::ScriptedError;

use crate::answer::{AnswerKind, ScriptedAnswer};
use crate::body::{ConnectionBroken, ScriptedBody};
use crate::check;
use crate::counter::Counter;
use crate::plan::{ResponsePlan, count, plan, plan_error};
use crate::replies::Replies;
use crate::request_log::{RecordedRequest, RequestLog};
use crate::settings::ModelServerSettings;
use crate::wire::{ModelApi, ReplyContext, RequestHead};

#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) settings: ModelServerSettings,
    pub(crate) replies: Mutex<Replies>,
    pub(crate) record: RequestLog,
    pub(crate) connected: Counter,
    pub(crate) counted: Counter,
    pub(crate) hang_ups: Arc<Counter>,
    pub(crate) violations: Mutex<Vec<String>>,
    /// Ids of calls that were served with thinking before them.
    pub(crate) thoughtful: Mutex<HashSet<String>>,
}

pub(crate) async fn serve(
    shared: Arc<ServerState>,
    request: Request<Incoming>,
) -> Result<Response<ScriptedBody>, ConnectionBroken> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|_| ConnectionBroken)?
        .to_bytes();
    let arrived = RecordedRequest {
        number: 0,
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
    };
    let plan = match (parts.method.as_str(), parts.uri.path()) {
        ("POST", "/v1/messages") => shared.reply(ModelApi::Anthropic, arrived),
        ("POST", "/v1/chat/completions") => shared.reply(ModelApi::OpenAi, arrived),
        ("POST", "/v1/messages/count_tokens") => Some(shared.count(&arrived)),
        (method, path) => {
            let message = format!("no `{method} {path}` here");
            Some(plan_error(
                ModelApi::Anthropic,
                &scripted_error(404, "not_found_error", message),
            ))
        }
    };
    let plan = plan.ok_or(ConnectionBroken)?;
    Ok(shared.respond(plan))
}

impl ServerState {
    /// Has no await, so that requests are numbered and answered in the same order.
    fn reply(&self, wire: ModelApi, arrived: RecordedRequest) -> Option<ResponsePlan> {
        let request = self.record.add(arrived, self.settings.keep);
        let refused = self.look(
            wire,
            &request,
            &format!("request {}", request.number),
            false,
        );
        if let Some(refused) = refused {
            return Some(refused);
        }
        let answer = match lock(&self.replies).next(&request) {
            Ok(answer) => answer,
            Err(fault) => {
                lock(&self.violations).push(format!("request {}: {fault}", request.number));
                ScriptedAnswer::hang_up()
            }
        };
        let asked: RequestHead = serde_json::from_slice(&request.body).unwrap_or_default();
        let dialect = self.settings.dialect;
        let speech = |reply| ReplyContext {
            reply,
            asked: &asked,
            dialect,
            number: request.number,
            length: request.body.len(),
        };
        if let AnswerKind::Reply(reply) = &answer.kind
            && reply.thinking.is_some()
            && wire == ModelApi::Anthropic
        {
            lock(&self.thoughtful).extend(speech(reply).call_ids());
        }
        plan(&answer, wire, self.settings.framing, speech)
    }

    fn count(&self, arrived: &RecordedRequest) -> ResponsePlan {
        self.counted.add();
        if let Some(refused) = self.look(ModelApi::Anthropic, arrived, "count", true) {
            return refused;
        }
        match self.settings.count {
            Ok(tokens) => count(tokens),
            Err(status) => {
                let message = "this test does not support counting".to_owned();
                plan_error(
                    ModelApi::Anthropic,
                    &scripted_error(status, "api_error", message),
                )
            }
        }
    }

    /// Records the faults of a request. Refuses a wrong key, as providers do.
    fn look(
        &self,
        wire: ModelApi,
        request: &RecordedRequest,
        what: &str,
        is_count: bool,
    ) -> Option<ResponsePlan> {
        if self.settings.check {
            let thoughtful = lock(&self.thoughtful);
            let faults = match wire {
                ModelApi::Anthropic => check::anthropic::check(request, is_count, &thoughtful),
                ModelApi::OpenAi => check::openai::check(request),
            };
            let faults = faults.into_iter().map(|fault| format!("{what}: {fault}"));
            lock(&self.violations).extend(faults);
        }
        let wanted = self.settings.key.as_deref()?;
        (check::key(&request.headers) != Some(wanted)).then(|| {
            let message = "invalid x-api-key".to_owned();
            plan_error(wire, &scripted_error(401, "authentication_error", message))
        })
    }

    fn respond(&self, plan: ResponsePlan) -> Response<ScriptedBody> {
        let mut response = Response::new(ScriptedBody::begin(plan.steps, &self.hang_ups));
        *response.status_mut() =
            StatusCode::from_u16(plan.status).expect("a script has valid statuses");
        let number = self.record.count();
        for name in ["request-id", "x-request-id"] {
            let value = HeaderValue::try_from(format!("req_{number:04}"));
            let value = value.expect("letters and digits make a header");
            response.headers_mut().insert(name, value);
        }
        for (name, value) in plan.headers {
            let name = HeaderName::try_from(name).expect("a script has valid header names");
            let value = HeaderValue::try_from(value).expect("a script has valid header values");
            response.headers_mut().insert(name, value);
        }
        response
    }
}

fn scripted_error(status: u16, kind: &str, message: String) -> ScriptedError {
    ScriptedError {
        status,
        kind: kind.to_owned(),
        message,
        after: None,
        headers: Vec::new(),
    }
}

/// Ignores poisoning: the panic that caused it is already reported.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
