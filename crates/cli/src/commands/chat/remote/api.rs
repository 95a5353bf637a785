//! Requests to a server, one at a time.

use std::time::Duration;

use protocol::job::JobId;
use protocol::root_cause;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::job::{RemoteJob, RemoteJobList, ServerProblem};
use crate::cli_error::{CliError, USAGE_ERROR};
use crate::settings::{Setting, Settings, is_loopback};

/// Timeout for connecting and for the response headers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

/// Maximum bytes of a response body.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// Maximum jobs listed.
const MAX_LISTED_JOBS: u32 = 200;

const REQUEST_FAILED: u8 = 1;

#[derive(Debug)]
pub(crate) struct ServerClient {
    /// Without a trailing slash.
    address: String,
    key: Option<HeaderValue>,
    /// Created at first use: for TLS it reads the system's certificates.
    client: OnceCell<Client>,
}

impl ServerClient {
    /// The server named by the settings.
    pub(crate) fn of(settings: &Settings) -> Result<Self, CliError> {
        let Some(url) = settings.get("server.url") else {
            return Err(CliError::usage("no server is configured")
                .hint("name one with `--server URL`".to_owned()));
        };
        let key = settings.get("server.api_key");
        let Setting { value, source } = url;
        let address = value.trim_end_matches('/').to_owned();
        let mut ways = ["https://", "http://"].iter();
        let host = ways.find_map(|way| address.strip_prefix(way));
        if host.is_none_or(|host| host.is_empty() || host.contains('@')) {
            let text = format!("the server's address from {source} is `{value}`");
            return Err(CliError::usage(text)
                .hint("write it as `https://HOST` or `http://HOST:PORT`".to_owned()));
        }
        let is_near = is_loopback(&address);
        if key.is_some() && address.starts_with("http://") && !is_near {
            let text = format!("the key would be sent to `{value}` unencrypted");
            return Err(CliError::usage(text)
                .hint("use `https://`, or a tunnel that begins on this machine".to_owned()));
        }
        Ok(Self {
            address,
            key: key.map(key_header).transpose()?,
            client: OnceCell::new(),
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The newest jobs.
    pub(crate) async fn jobs(&self) -> Result<Vec<RemoteJob>, CliError> {
        let list: RemoteJobList = self
            .get(&format!("/v1/jobs?limit={MAX_LISTED_JOBS}"))
            .await?;
        Ok(list.jobs)
    }

    /// The job of that name, or the only recent one whose name begins with it.
    pub(crate) async fn find(&self, name: &str) -> Result<RemoteJob, CliError> {
        if let Ok(id) = name.parse::<JobId>() {
            return self.get(&format!("/v1/jobs/{id}")).await;
        }
        let jobs = self.jobs().await?.into_iter();
        let mut found: Vec<RemoteJob> = jobs
            .filter(|job| job.id.to_string().starts_with(&name.to_ascii_lowercase()))
            .collect();
        match (found.pop(), found.len()) {
            (Some(job), 0) => Ok(job),
            (None, _) => Err(CliError::usage(format!("there is no job `{name}`"))
                .hint("`/jobs` lists jobs".to_owned())),
            (Some(_), more) => {
                let text = format!("`{name}` matches {} jobs", more + 1);
                Err(CliError::usage(text).hint("use a longer prefix".to_owned()))
            }
        }
    }

    pub(super) async fn say(&self, id: JobId, text: &str) -> Result<RemoteJob, CliError> {
        let path = format!("/v1/jobs/{id}/messages");
        self.post(&path, json!({"text": text}).to_string()).await
    }

    pub(super) async fn interrupt(&self, id: JobId) -> Result<RemoteJob, CliError> {
        let path = format!("/v1/jobs/{id}/interrupt");
        self.post(&path, String::new()).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        read(self.send(Method::GET, path, None).await?).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: String) -> Result<T, CliError> {
        read(self.send(Method::POST, path, Some(body)).await?).await
    }

    /// Sends a request and waits for the headers of a successful response.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Response, CliError> {
        let client = self.client.get_or_try_init(|| self.connect()).await?;
        let mut request = client.request(method, format!("{}{path}", self.address));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        if let Some(body) = body.filter(|body| !body.is_empty()) {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let answer = timeout(RESPONSE_TIMEOUT, request.send())
            .await
            .map_err(|_| self.unreachable(&"it does not answer"))?
            .map_err(|error| self.unreachable(&root_cause(&error)))?;
        if answer.status().is_success() {
            Ok(answer)
        } else {
            Err(response_error(answer).await)
        }
    }

    async fn connect(&self) -> Result<Client, CliError> {
        let is_plain = self.address.starts_with("http://");
        let build = move || {
            let builder = Client::builder()
                .no_proxy()
                .redirect(Policy::none())
                .connect_timeout(RESPONSE_TIMEOUT)
                .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
            if is_plain {
                builder.tls_certs_only([]).build()
            } else {
                builder.build()
            }
        };
        let built = tokio::task::spawn_blocking(build).await;
        match built {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(self.unreachable(&root_cause(&error))),
            Err(lost) => Err(self.unreachable(&lost)),
        }
    }

    /// Of an HTTP error, `why` is only the root cause: the messages above it repeat each other.
    fn unreachable(&self, why: &dyn std::fmt::Display) -> CliError {
        let text = format!("cannot reach the server `{}`: {why}", self.address);
        CliError::new(REQUEST_FAILED, text)
            .hint("`hotcell serve` starts one; `--server URL` names another".to_owned())
    }
}

fn key_header(key: &Setting) -> Result<HeaderValue, CliError> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", key.value.trim()))
        .map_err(|_| CliError::usage("the server's key has invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn read<T: DeserializeOwned>(answer: Response) -> Result<T, CliError> {
    let not_understood = |why: &dyn std::fmt::Display| {
        CliError::new(
            REQUEST_FAILED,
            format!("cannot read the server's response: {why}"),
        )
    };
    let body = read_body(answer)
        .await
        .map_err(|why| not_understood(&why))?;
    serde_json::from_slice(&body).map_err(|error| not_understood(&error))
}

async fn read_body(mut answer: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let chunk = timeout(RESPONSE_TIMEOUT, answer.chunk());
        let chunk = chunk.await.map_err(|_| "it timed out".to_owned())?;
        match chunk.map_err(|error| root_cause(&error))? {
            Some(_) if body.len() > MAX_RESPONSE_BYTES => return Err("it is too large".to_owned()),
            Some(chunk) => body.extend_from_slice(&chunk),
            None => return Ok(body),
        }
    }
}

/// In the server's own words, if there are any.
async fn response_error(answer: Response) -> CliError {
    let status = answer.status();
    let body = read_body(answer).await.unwrap_or_default();
    let problem: ServerProblem = serde_json::from_slice(&body).unwrap_or_default();
    let text = problem.detail.or(problem.title);
    let text = text.unwrap_or_else(|| format!("the server answers with {status}"));
    let hint = match status.as_u16() {
        401 => Some("set HOTCELL_API_KEY to a key of the server".to_owned()),
        _ => problem.hint,
    };
    // A rejected request is a usage error; a failure of the server is not.
    let code = if status.is_client_error() {
        USAGE_ERROR
    } else {
        REQUEST_FAILED
    };
    CliError::new(code, text).hint(hint)
}
