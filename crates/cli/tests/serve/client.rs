//! A client of the server's API.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::play::eventually;
use testkit::EventStream;

#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    address: String,
    key: Option<String>,
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        // Another test in this process may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()
            .unwrap();
        Self {
            http,
            address: address.to_owned(),
            key: None,
        }
    }

    /// The same, with a key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self.clone()
        }
    }

    /// The same, at another address.
    pub(crate) fn at(&self, host: &str) -> Self {
        Self {
            address: format!("{host}:{}", self.port()),
            ..self.clone()
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit_once(':').unwrap().1
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .http
            .request(method, format!("http://{}{path}", self.address));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.request(Method::POST, path)
    }

    pub(crate) fn delete(&self, path: &str) -> RequestBuilder {
        self.request(Method::DELETE, path)
    }

    /// The JSON at a path. Fails if it does not exist.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Submits a job and returns the response.
    pub(crate) async fn try_schedule(&self, request: &Value) -> Response {
        self.post("/v1/jobs").json(request).send().await.unwrap()
    }

    /// Schedules a job and returns its id.
    pub(crate) async fn schedule(&self, request: Value) -> String {
        let answer = self.try_schedule(&request).await;
        let status = answer.status();
        let job: Value = answer.json().await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{job}");
        job["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn schedule_task(&self, task: &str) -> String {
        self.schedule(json!({ "task": task })).await
    }

    pub(crate) async fn job(&self, id: &str) -> Value {
        self.json(&format!("/v1/jobs/{id}")).await
    }

    pub(crate) async fn follow(&self, id: &str, after: u64) -> EventStream {
        let path = format!("/v1/jobs/{id}/events?after={after}");
        EventStream::new(self.get(&path).send().await.unwrap())
    }

    /// The job once it has ended.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        self.follow(id, 0).await.all().await;
        let job = self.job(id).await;
        assert!(job["ended"].is_string(), "{job}");
        job
    }

    /// The job once it is complete.
    pub(crate) async fn complete(&self, id: &str) -> Value {
        let job = self.ended(id).await;
        assert_eq!(job["state"], "complete", "{job}");
        job
    }

    /// The failure message of a job that has failed for this reason.
    pub(crate) async fn failed(&self, id: &str, cause: &str) -> String {
        let job = self.ended(id).await;
        assert_eq!(job["failure"]["cause"], cause, "{job}");
        job["failure"]["message"].as_str().unwrap().to_owned()
    }

    /// Waits until a job is in this state.
    pub(crate) async fn until(&self, id: &str, state: &str) {
        eventually(&format!("{id} is {state}"), async || {
            self.job(id).await["state"] == state
        })
        .await;
    }

    /// All jobs that the caller can see, newest first.
    pub(crate) async fn jobs(&self, query: &str) -> Vec<Value> {
        let mut jobs = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self
                .json(&format!("/v1/jobs?limit=200{query}{cursor}"))
                .await;
            jobs.extend(page["jobs"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return jobs,
            }
        }
    }

    /// The files in a job's zip, without folders.
    pub(crate) async fn files(&self, id: &str) -> BTreeMap<String, String> {
        let path = format!("/v1/jobs/{id}/artifacts");
        let answer = self.get(&path).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "application/zip");
        unzip(&answer.bytes().await.unwrap())
    }
}

pub(crate) fn unzip(bytes: &[u8]) -> BTreeMap<String, String> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut files = BTreeMap::new();
    for place in 0..archive.len() {
        let mut file = archive.by_index(place).unwrap();
        if file.is_dir() {
            continue;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        files.insert(file.name().unwrap().into_owned(), text);
    }
    files
}

/// A problem document with this status.
pub(crate) async fn problem(answer: Response, status: u16) -> Value {
    let found = answer.status().as_u16();
    let kind = answer.headers()["content-type"].clone();
    let text = answer.text().await.unwrap();
    assert_eq!(found, status, "{text}");
    assert_eq!(kind, "application/problem+json", "{text}");
    let problem: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(problem["status"], status, "{text}");
    assert!(problem["title"].is_string(), "{text}");
    problem
}
