//! A server beside the scene's model, used over HTTP. Ends with the test.

use std::io::{BufRead, BufReader};
use std::process::Child;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::place::{eventually, start};
use crate::scene::{Scene, send};

pub(crate) struct Hosted {
    child: Child,
    pub(crate) url: String,
}

impl Hosted {
    pub(crate) fn start(scene: &Scene, flags: &[&str]) -> Self {
        Self::listen(scene, "127.0.0.1:0", flags)
    }

    pub(crate) fn listen(scene: &Scene, address: &str, flags: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", address], flags].concat();
        let mut child = start(&mut scene.hotcell(arguments));
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { child, url }
    }

    /// Sends a request to the server.
    pub(crate) fn ask(&self, path: &str, body: Option<Value>) -> Value {
        let url = format!("{}{path}", self.url);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _ = rustls::crypto::ring::default_provider().install_default();
        runtime.block_on(async {
            let client = reqwest::Client::builder()
                .tls_certs_only([])
                .no_proxy()
                .build()
                .unwrap();
            let request = match body {
                Some(body) => client.post(url).json(&body),
                None => client.get(url),
            };
            request.send().await.unwrap().json().await.unwrap()
        })
    }

    pub(crate) fn schedule(&self, job: Value) -> String {
        let job = self.ask("/v1/jobs", Some(job));
        job["id"].as_str().unwrap().to_owned()
    }

    /// Ends it, unless it has ended.
    pub(crate) fn stop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            send(&self.child, Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, id: &str, state: &str) {
        let path = format!("/v1/jobs/{id}");
        eventually(state, || self.ask(&path, None)["state"] == state);
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        self.stop();
    }
}
