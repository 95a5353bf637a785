//! Parses the request for a new job: JSON, plain text, or a form with a zip.
//!
//! Checks only what concerns the encoding: media types, numbers that fit `i64`, the idempotency key.
//! Whether the job is allowed is decided by [`App::schedule`]. Entry type: [`JobSubmission`].

use axum::extract::Request;
use axum::http::HeaderMap;
use protocol::job::{JobInput, JobRequest};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use store::jobs::IdempotencyKey;
use utoipa::IntoParams;

use crate::app::{AcceptedJob, App, AppError, Caller};
use crate::http::SharedHttp;
use crate::http::extractors::{MediaType, media_type, read, read_json, read_text};
use crate::http::form::{MultipartForm, TextBudget};
use crate::http::problem::{HttpProblem, ProblemKind};
use crate::http::upload::UploadedZip;

const IDEMPOTENCY_KEY: &str = "idempotency-key";

#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it only describes the header")]
pub(crate) struct IdempotencyParameters {
    /// The same request with the same key is scheduled once.
    #[param(
        rename = "Idempotency-Key",
        nullable = false,
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]+$"
    )]
    idempotency_key: Option<String>,
}

/// A parsed request for a new job.
#[derive(Debug)]
pub(crate) struct JobSubmission {
    request: JobRequest,
    upload: Option<UploadedZip>,
    key: Option<IdempotencyKey>,
}

impl JobSubmission {
    /// Reads a request in JSON or plain text.
    pub(crate) async fn read(request: Request) -> Result<Self, HttpProblem> {
        let headers = request.headers().clone();
        let request = match media_type(&headers) {
            Some(MediaType::Json) => read_json(&read(request).await?)?,
            Some(MediaType::Text) => request_for_task(read_text(&read(request).await?)?),
            None => parse_untyped(&read(request).await?)?,
            Some(MediaType::Form | MediaType::Other) => return Err(wrong_media("")),
        };
        Self::new(&headers, request, None)
    }

    /// Reads a request of any kind. A zip is written to the uploads folder.
    pub(crate) async fn read_any(app: &App, request: Request) -> Result<Self, HttpProblem> {
        match media_type(request.headers()) {
            Some(MediaType::Form) => {
                let headers = request.headers().clone();
                let (request, upload) = read_form(app, request).await?;
                Self::new(&headers, request, upload)
            }
            Some(MediaType::Other) => Err(wrong_media(", or a form with a zip")),
            _ => Self::read(request).await,
        }
    }

    fn new(
        headers: &HeaderMap,
        request: JobRequest,
        upload: Option<UploadedZip>,
    ) -> Result<Self, HttpProblem> {
        check_numbers(&request)?;
        let key = idempotency(headers, &request, upload.as_ref())?;
        Ok(Self {
            request,
            upload,
            key,
        })
    }

    pub(crate) async fn schedule(
        self,
        http: &SharedHttp,
        caller: &Caller,
    ) -> Result<AcceptedJob, HttpProblem> {
        let Self {
            request,
            upload,
            key,
        } = self;
        let path = upload.as_ref().map(|upload| upload.path().to_owned());
        let accepted = http.app.schedule(caller, request, path, key).await;
        let accepted = accepted.map_err(|error| {
            let is_upload_named = matches!(error, AppError::UploadNamed);
            let problem = HttpProblem::from(error);
            if is_upload_named {
                problem.hint("send the zip as the file `input` of a form")
            } else {
                problem
            }
        })?;
        if accepted.is_new {
            http.metrics.scheduled();
        }
        // Removes the file unless it was taken over.
        drop(upload);
        Ok(accepted)
    }
}

/// Numbers are limited to `i64`, as in the OpenAPI document.
pub(crate) fn check_numbers(request: &JobRequest) -> Result<(), HttpProblem> {
    let (limits, budget) = (&request.limits, &request.budget);
    let numbers = [
        ("limits.memory", limits.memory),
        ("limits.disk", limits.disk),
        ("limits.open_files", limits.open_files),
        ("budget.tokens", budget.tokens),
        ("timeout", request.timeout),
    ];
    let is_too_large = |number: u64| i64::try_from(number).is_err();
    match numbers
        .iter()
        .find(|(_, number)| number.is_some_and(is_too_large))
    {
        None => Ok(()),
        Some((name, _)) => Err(HttpProblem::new(
            ProblemKind::Invalid,
            format!("{name}: the number is too large"),
        )),
    }
}

/// The idempotency key of a request, with the request's fingerprint.
pub(crate) fn idempotency(
    headers: &HeaderMap,
    request: &JobRequest,
    upload: Option<&UploadedZip>,
) -> Result<Option<IdempotencyKey>, HttpProblem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let key = value.as_bytes();
    let is_key = (1..=255).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
    let key = value.to_str().ok().filter(|_| is_key).ok_or_else(|| {
        HttpProblem::bad("`Idempotency-Key` is not made of 1 to 255 visible ASCII characters")
    })?;
    let mut request = request.clone();
    if let Some(upload) = upload {
        // The input that the stored request has.
        let bytes = upload.bytes;
        request.input = Some(JobInput::Upload { bytes });
    }
    let text = serde_json::to_vec(&request).expect("a request serialises to JSON");
    let mut hash = Sha256::new().chain_update(text);
    if let Some(upload) = upload {
        hash.update(upload.hash);
    }
    Ok(Some(IdempotencyKey {
        key: key.to_owned(),
        fingerprint: hash.finalize().into(),
    }))
}

fn request_for_task(task: String) -> JobRequest {
    JobRequest {
        task,
        ..JobRequest::default()
    }
}

/// A body without a media type: JSON if it is an object, otherwise plain text.
fn parse_untyped(body: &[u8]) -> Result<JobRequest, HttpProblem> {
    match serde_json::from_slice::<Map<String, Value>>(body) {
        Ok(_) => read_json(body),
        Err(_) => read_text(body).map(request_for_task),
    }
}

fn wrong_media(more: &str) -> HttpProblem {
    HttpProblem::new(
        ProblemKind::MediaType,
        format!("the body is neither JSON nor plain text{more}"),
    )
    .hint("send it with `Content-Type: application/json`")
}

/// The fields `request` (JSON), or those of a request one by one, and the file `input`.
async fn read_form(
    app: &App,
    request: Request,
) -> Result<(JobRequest, Option<UploadedZip>), HttpProblem> {
    let mut form = MultipartForm::open(request).await?;
    let config = app.config();
    let mut budget = TextBudget::new(config.largest_body);
    let mut whole: Option<JobRequest> = None;
    let mut fields = Map::new();
    let mut upload = None;
    while let Some((name, field)) = form.next().await? {
        match name.as_str() {
            "input" if upload.is_some() => return Err(duplicate_field(&name)),
            "input" => {
                let limit = config.largest_zip;
                upload = Some(UploadedZip::receive(app.new_upload(), field, limit).await?);
            }
            "request" if whole.is_some() => return Err(duplicate_field(&name)),
            "request" => whole = Some(read_json(&budget.read(field).await?)?),
            _ => {
                let text = read_text(&budget.read(field).await?)?;
                add_field(&mut fields, name, text)?;
            }
        }
    }
    let request = match whole {
        Some(_) if !fields.is_empty() => {
            return Err(HttpProblem::new(
                ProblemKind::Invalid,
                "the form has `request` and other fields",
            ));
        }
        Some(request) => request,
        None => read_json(Value::Object(fields).to_string().as_bytes())?,
    };
    Ok((request, upload))
}

/// Adds one form field, converted to its JSON form.
fn add_field(
    fields: &mut Map<String, Value>,
    name: String,
    text: String,
) -> Result<(), HttpProblem> {
    let bad =
        |what: &str| HttpProblem::new(ProblemKind::Invalid, format!("{name}: it is not {what}"));
    let value = match name.as_str() {
        "task" | "model" | "backend" | "require" => Value::from(text),
        "timeout" => Value::from(text.parse::<u64>().map_err(|_| bad("a number"))?),
        "interactive" => Value::from(text.parse::<bool>().map_err(|_| bad("`true` or `false`"))?),
        "network" => {
            let hosts = fields
                .entry(name)
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(hosts) = hosts {
                hosts.push(Value::from(text));
            }
            return Ok(());
        }
        _ => {
            return Err(HttpProblem::new(
                ProblemKind::Invalid,
                format!("the form has an unknown field `{name}`"),
            )
            .hint("send `request` in JSON and the zip as the file `input`"));
        }
    };
    match fields.insert(name.clone(), value) {
        None => Ok(()),
        Some(_) => Err(duplicate_field(&name)),
    }
}

fn duplicate_field(name: &str) -> HttpProblem {
    HttpProblem::new(ProblemKind::Invalid, format!("the form has `{name}` twice"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_body_without_a_media_type_is_detected() {
        let check = |body: &str, expect: Result<&str, ProblemKind>| {
            let found = parse_untyped(body.as_bytes()).map(|request| request.task);
            let found = found.map_err(|problem| problem.kind);
            assert_eq!(found, expect.map(str::to_owned), "{body}");
        };
        check(r#"{"task":"a"}"#, Ok("a"));
        check("do it", Ok("do it"));
        check("[1]", Ok("[1]"));
        check("{not json", Ok("{not json"));
        check(r#"{"tsk":"a"}"#, Err(ProblemKind::Invalid));
    }

    #[test]
    fn an_idempotency_key_is_short_and_visible() {
        let check = |key: &[u8], expect: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(
                IDEMPOTENCY_KEY,
                axum::http::HeaderValue::from_bytes(key).unwrap(),
            );
            let found = idempotency(&headers, &request_for_task("a".into()), None).is_ok();
            assert_eq!(found, expect, "{key:?}");
        };
        check(b"a", true);
        check(&[b'x'; 255], true);
        check(&[b'x'; 256], false);
        check(b"", false);
        check(b"a b", false);
        check(b"\xff", false);
    }
}
