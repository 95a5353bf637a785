//! A browser window, as the person in front of it has it: what it shows, and what can be done.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use fantoccini::Client;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::elements::{Element, ElementRef};
use fantoccini::error::CmdError;
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::unzip;
use crate::driver::Driver;
use crate::server::Server;

/// Past this a page will never show what it should. None comes near it.
const PATIENCE: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(15);

/// Under this name WebDriver hands elements over.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// What every script begins with: the first element that is seen, and has these words.
const PRELUDE: &str = "const all = (css) => [...document.querySelectorAll(css)];\
    const seen = (css, words = '') => all(css).find((one) => one.checkVisibility() \
        && (one.innerText + ' ' + (one.getAttribute('aria-label') ?? '')).includes(words));";

/// A window on one server.
pub(crate) struct Browser {
    client: Client,
    driver: Driver,
    address: String,
    has_ended: bool,
}

/// A call of WebDriver that is not in its standard.
#[derive(Debug)]
struct Extra {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Extra {
    fn endpoint(
        &self,
        base: &Url,
        session: Option<&str>,
    ) -> Result<Url, <Url as FromStr>::Err> {
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
    /// Opens a page of a server.
    pub(crate) async fn open(server: &Server, path: &str) -> Self {
        let driver = Driver::start().await;
        let browser = Self {
            client: driver.open().await,
            driver,
            address: format!("http://{}", server.client().address()),
            has_ended: false,
        };
        browser.go(path).await;
        browser
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Goes to a page as one does who types its address.
    pub(crate) async fn go(&self, path: &str) {
        let address = format!("{}{path}", self.address);
        self.client.goto(&address).await.unwrap();
    }

    pub(crate) async fn reload(&self) {
        self.client.refresh().await.unwrap();
    }

    /// Where it is, without the server's name.
    pub(crate) async fn path(&self) -> String {
        self.client.current_url().await.unwrap().path().to_owned()
    }

    pub(crate) async fn title(&self) -> String {
        self.client.title().await.unwrap()
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let script = format!("{PRELUDE} return ({expression});");
        self.client
            .execute(&script, vec![])
            .await
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value of an expression that is a promise.
    pub(crate) async fn promised(&self, before: &str, expression: &str) -> Value {
        let script = format!(
            "{before}\nconst done = arguments[arguments.length - 1];\
             Promise.resolve({expression}).then((value) => done({{ value }}), \
                (error) => done({{ error: String(error) }}));"
        );
        let answer = self.client.execute_async(&script, vec![]).await.unwrap();
        assert_eq!(answer["error"], Value::Null, "{expression}");
        answer["value"].clone()
    }

    /// Waits until an expression is true, or a thing. A page that is just going away is waited for.
    #[track_caller]
    pub(crate) fn until<'a>(&'a self, expression: &str) -> impl Future<Output = Value> + use<'a> {
        let script = format!("{PRELUDE} return ({expression});");
        let expression = expression.to_owned();
        let place = std::panic::Location::caller();
        async move {
            let give_up = Instant::now() + PATIENCE;
            loop {
                let last = self.client.execute(&script, vec![]).await;
                match &last {
                    Ok(Value::Null | Value::Bool(false)) => {}
                    Ok(value) => return value.clone(),
                    Err(error) => assert!(passes(error), "{expression}: {error}"),
                }
                if Instant::now() > give_up {
                    let page = self.text("body").await;
                    panic!("{place}: never came about: {expression} ({last:?})\n--- the page\n{page}");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// The element that is seen and has these words, as soon as there is one.
    #[track_caller]
    pub(crate) fn find<'a>(&'a self, css: &str, words: &str) -> impl Future<Output = Element> + use<'a> {
        let found = self.until(&format!("seen({}, {})", json!(css), json!(words)));
        async {
            let found = found.await;
            let id = found[ELEMENT].as_str().unwrap().to_owned();
            Element::from_element_id(self.client.clone(), ElementRef::from(id))
        }
    }

    /// Waits until these words are seen there.
    #[track_caller]
    pub(crate) fn sees<'a>(&'a self, css: &str, words: &str) -> impl Future<Output = ()> + use<'a> {
        let found = self.find(css, words);
        async { drop(found.await) }
    }

    /// Waits until nothing of the kind is seen.
    #[track_caller]
    pub(crate) fn misses<'a>(&'a self, css: &str, words: &str) -> impl Future<Output = ()> + use<'a> {
        let gone = self.until(&format!("!seen({}, {})", json!(css), json!(words)));
        async { drop(gone.await) }
    }

    /// What is written there.
    pub(crate) async fn text(&self, css: &str) -> String {
        let text = format!("document.querySelector({})?.innerText ?? ''", json!(css));
        self.value(&text).await.as_str().unwrap().to_owned()
    }

    /// What is written in each of these.
    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let texts = format!("all({}).map((one) => one.textContent)", json!(css));
        serde_json::from_value(self.value(&texts).await).unwrap()
    }

    /// Presses the mouse on it.
    #[track_caller]
    pub(crate) fn click<'a>(&'a self, css: &str, words: &str) -> impl Future<Output = ()> + use<'a> {
        let what = format!("{css} {words}");
        let found = self.find(css, words);
        async move {
            let clicked = found.await.click().await;
            clicked.unwrap_or_else(|error| panic!("cannot click {what}: {error}"));
        }
    }

    /// Clicks into a field and writes.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        self.find(css, "").await.send_keys(text).await.unwrap();
    }

    /// Hands a file to a field that takes files, which need not be seen.
    pub(crate) async fn hand_over(&self, css: &str, file: &std::path::Path) {
        let field = self.client.find(fantoccini::Locator::Css(css)).await;
        field.unwrap().send_keys(file.to_str().unwrap()).await.unwrap();
    }

    /// Presses keys, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in keys.chars() {
            actions = actions
                .then(KeyAction::Down { value })
                .then(KeyAction::Up { value });
        }
        self.client.perform_actions(actions).await.unwrap();
    }

    /// Presses a key while Control is held.
    pub(crate) async fn press_with_control(&self, key: Key) {
        let (control, value) = (char::from(Key::Control), char::from(key));
        let actions = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value: control })
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value })
            .then(KeyAction::Up { value: control });
        self.client.perform_actions(actions).await.unwrap();
    }

    /// A zip that is being downloaded, when it is whole: its files.
    pub(crate) async fn downloaded(&self) -> BTreeMap<String, String> {
        let folder = self.driver.downloads();
        let give_up = Instant::now() + PATIENCE;
        loop {
            let entries = std::fs::read_dir(&folder).unwrap().flatten();
            let is_zip = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "zip");
            if let Some(file) = entries.map(|entry| entry.path()).find(is_zip) {
                return unzip(&std::fs::read(file).unwrap());
            }
            assert!(Instant::now() < give_up, "no zip was downloaded");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A call of the browser's own protocol.
    pub(crate) async fn command(&self, name: &str, parameters: Value) -> Value {
        let body = json!({"cmd": name, "params": parameters});
        let path = "goog/cdp/execute";
        let answer = self.client.issue_cmd(Extra { path, body }).await;
        answer.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Gives the window the size and the touch of a phone, or of a desktop.
    pub(crate) async fn size(&self, width: u32, height: u32) {
        let is_phone = width < 600;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone,
        });
        self.command("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// What the system says of dark and light.
    pub(crate) async fn scheme(&self, scheme: &str) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.command("Emulation.setEmulatedMedia", json!({ "features": features }))
            .await;
    }

    /// A picture of the window, as a PNG.
    pub(crate) async fn picture(&self) -> Vec<u8> {
        self.client.screenshot().await.unwrap()
    }

    /// The messages of a log since it was last read.
    async fn log(&self, name: &str) -> Vec<String> {
        let body = json!({ "type": name });
        let path = "se/log";
        let log = self.client.issue_cmd(Extra { path, body }).await.unwrap();
        let messages = log.as_array().unwrap().iter();
        messages
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The addresses of all requests since this was last asked.
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

    /// Closes the window. Nothing was wrong in any page but what is named here, and nothing was
    /// asked of anybody but the server.
    pub(crate) async fn end(mut self, expected: &[&str]) {
        self.has_ended = true;
        let complaints: Vec<String> = self.log("browser").await;
        let is_expected = |line: &String| expected.iter().any(|words| line.contains(words));
        let wrong: Vec<&String> = complaints.iter().filter(|line| !is_expected(line)).collect();
        let requests = self.requests().await;
        let own = format!("{}/", self.address);
        let foreign: Vec<&String> = requests
            .iter()
            .filter(|url| !url.starts_with(&own) && !url.starts_with("data:"))
            .collect();
        self.client.clone().close().await.unwrap();
        assert!(wrong.is_empty(), "the browser complains: {wrong:#?}");
        assert!(foreign.is_empty(), "asked of others: {foreign:#?}");
    }
}

/// Whether an error only says that the page is just becoming another one.
fn passes(error: &CmdError) -> bool {
    let text = error.to_string();
    ["stale element", "navigated", "no such execution context", "Cannot find context", "aborted"]
        .iter()
        .any(|words| text.contains(words))
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.has_ended && !std::thread::panicking() {
            panic!("a test must end its browser: only then are its complaints heard");
        }
    }
}
