//! Records the requests that the server received.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::Value;

use crate::counter::Counter;

#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// 1 for the first request for a reply.
    pub number: usize,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl RecordedRequest {
    /// The body, parsed on each call: it may be long, and is rarely needed.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("request {} is not JSON: {error}", self.number),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// All requests in order, of which the latest are kept.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    list: Mutex<LoggedRequests>,
    arrived: Counter,
}

#[derive(Debug, Default)]
struct LoggedRequests {
    kept: VecDeque<RecordedRequest>,
    total: usize,
    taken: usize,
}

impl RequestLog {
    pub(crate) fn add(&self, mut request: RecordedRequest, keep: usize) -> RecordedRequest {
        let mut list = self.lock();
        list.total += 1;
        request.number = list.total;
        list.kept.push_back(request.clone());
        while list.kept.len() > keep.max(1) {
            list.kept.pop_front();
        }
        drop(list);
        self.arrived.add();
        request
    }

    pub(crate) fn all(&self) -> Vec<RecordedRequest> {
        self.lock().kept.iter().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.arrived.get()
    }

    pub(crate) async fn next(&self) -> RecordedRequest {
        let number = {
            let mut list = self.lock();
            list.taken += 1;
            list.taken
        };
        self.arrived.reaches(number).await;
        self.get(number)
    }

    pub(crate) fn wait(&self, number: usize) -> RecordedRequest {
        self.arrived.wait(number, "request");
        self.get(number)
    }

    fn get(&self, number: usize) -> RecordedRequest {
        let list = self.lock();
        let found = list.kept.iter().find(|request| request.number == number);
        match found {
            Some(request) => request.clone(),
            None => panic!(
                "request {number} is no longer kept: see `ModelServerSettings::max_kept_requests`"
            ),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LoggedRequests> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
