//! Handles one request: records it, checks it against the rules, and answers it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use llm::script::ScriptedError;

use crate::answer::{Answer, Kind};
use crate::body::{Broken, WrittenBody};
use crate::check;
use crate::counter::Counter;
use crate::plan::{Plan, count, plan, refuse};
use crate::record::{Record, Recorded};
use crate::replies::Replies;
use crate::settings::Settings;
use crate::wire::{Asked, Speech, Wire};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) replies: Mutex<Replies>,
    pub(crate) record: Record,
    pub(crate) connected: Counter,
    pub(crate) counted: Counter,
    pub(crate) hang_ups: Arc<Counter>,
    pub(crate) violations: Mutex<Vec<String>>,
    /// Ids of calls that were served with thinking before them.
    pub(crate) thoughtful: Mutex<HashSet<String>>,
}

pub(crate) async fn serve(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<WrittenBody>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let arrived = Recorded {
        number: 0,
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body,
    };
    let plan = match (parts.method.as_str(), parts.uri.path()) {
        ("POST", "/v1/messages") => shared.reply(Wire::Anthropic, arrived),
        ("POST", "/v1/chat/completions") => shared.reply(Wire::OpenAi, arrived),
        ("POST", "/v1/messages/count_tokens") => Some(shared.count(&arrived)),
        (method, path) => {
            let message = format!("no `{method} {path}` here");
            Some(refuse(
                Wire::Anthropic,
                &mistake(404, "not_found_error", message),
            ))
        }
    };
    let plan = plan.ok_or(Broken)?;
    Ok(shared.respond(plan))
}

impl Shared {
    /// Has no await, so that requests are numbered and answered in the same order.
    fn reply(&self, wire: Wire, arrived: Recorded) -> Option<Plan> {
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
                Answer::hang_up()
            }
        };
        let asked: Asked = serde_json::from_slice(&request.body).unwrap_or_default();
        let dialect = self.settings.dialect;
        let speech = |reply| Speech {
            reply,
            asked: &asked,
            dialect,
            number: request.number,
            length: request.body.len(),
        };
        if let Kind::Reply(reply) = &answer.kind
            && reply.thinking.is_some()
            && wire == Wire::Anthropic
        {
            lock(&self.thoughtful).extend(speech(reply).call_ids());
        }
        plan(&answer, wire, self.settings.framing, speech)
    }

    fn count(&self, arrived: &Recorded) -> Plan {
        self.counted.add();
        if let Some(refused) = self.look(Wire::Anthropic, arrived, "count", true) {
            return refused;
        }
        match self.settings.count {
            Ok(tokens) => count(tokens),
            Err(status) => {
                let message = "this test does not support counting".to_owned();
                refuse(Wire::Anthropic, &mistake(status, "api_error", message))
            }
        }
    }

    /// Records the faults of a request. Refuses a wrong key, as providers do.
    fn look(&self, wire: Wire, request: &Recorded, what: &str, is_count: bool) -> Option<Plan> {
        if self.settings.check {
            let thoughtful = lock(&self.thoughtful);
            let faults = match wire {
                Wire::Anthropic => check::anthropic::check(request, is_count, &thoughtful),
                Wire::OpenAi => check::openai::check(request),
            };
            let faults = faults.into_iter().map(|fault| format!("{what}: {fault}"));
            lock(&self.violations).extend(faults);
        }
        let wanted = self.settings.key.as_deref()?;
        (check::key(&request.headers) != Some(wanted)).then(|| {
            let message = "invalid x-api-key".to_owned();
            refuse(wire, &mistake(401, "authentication_error", message))
        })
    }

    fn respond(&self, plan: Plan) -> Response<WrittenBody> {
        let mut response = Response::new(WrittenBody::begin(plan.steps, &self.hang_ups));
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

fn mistake(status: u16, kind: &str, message: String) -> ScriptedError {
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
