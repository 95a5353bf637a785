//! Browser internals: its own protocol, its logs, its requests.

use std::str::FromStr;

use fantoccini::wd::WebDriverCompatibleCommand;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use crate::browser::Browser;

/// A WebDriver call that is not in the standard.
#[derive(Debug)]
struct ExtraCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for ExtraCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, <Url as FromStr>::Err> {
        base.join(&format!(
            "session/{}/{}",
            session.unwrap_or_default(),
            self.path
        ))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Calls the browser's own protocol.
    pub(crate) async fn command(&self, name: &str, parameters: Value) -> Value {
        let body = json!({"cmd": name, "params": parameters});
        let path = "goog/cdp/execute";
        let answer = self.client.issue_cmd(ExtraCommand { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Sets the size and touch support of a phone or a desktop.
    pub(crate) async fn size(&self, width: u32, height: u32) {
        let is_phone = width < 600;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone,
        });
        self.command("Emulation.setDeviceMetricsOverride", size)
            .await;
    }

    /// Sets the system's colour scheme.
    pub(crate) async fn scheme(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.command(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .await;
    }

    /// Waits until changes are drawn.
    pub(crate) async fn wait_drawn(&self) {
        let frames =
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.await_value("", frames).await;
        // A screenshot is taken of a complete frame; the wanted one is the next.
        self.picture().await;
    }

    /// A screenshot of the window, as PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// New messages of a log.
    pub(crate) async fn log(&self, name: &str) -> Vec<String> {
        let body = json!({ "type": name });
        let path = "se/log";
        let log = self
            .client
            .issue_cmd(ExtraCommand { path, body })
            .await
            .unwrap();
        let messages = log.as_array().unwrap().iter();
        messages
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The addresses of new requests.
    pub(crate) async fn requests(&self) -> Vec<String> {
        let messages = self.log("performance").await;
        let messages = messages.iter().map(|text| Value::from_str(text).unwrap());
        messages
            .map(|message| message["message"].clone())
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| {
                let url = &message["params"]["request"]["url"];
                url.as_str().unwrap().to_owned()
            })
            .collect()
    }
}
