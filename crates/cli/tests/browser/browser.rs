//! A browser window: where it is and what it shows. User input is in `hands`, and browser internals are
//! in `inside`.

use std::time::Duration;

use fantoccini::Client;
use fantoccini::elements::{Element, ElementRef};
use fantoccini::error::CmdError;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::driver::BrowserDriver;
use crate::server::Server;

/// How long to wait for a page. Far longer than any page takes.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(40);
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(15);

/// The key under which WebDriver returns elements.
const ELEMENT_KEY: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Prepended to every script: finds the first visible element with these words. Content scrolled out of
/// view may have no `innerText`.
const SCRIPT_PRELUDE: &str = "const all = (css) => [...document.querySelectorAll(css)];\
    const seen = (css, words = '') => all(css).find((one) => one.checkVisibility() \
        && [one.innerText, one.textContent, one.ariaLabel ?? ''].join(' ').includes(words));";

/// A window on one server.
pub(crate) struct Browser {
    pub(crate) client: Client,
    pub(crate) driver: BrowserDriver,
    address: String,
    has_ended: bool,
}

impl Browser {
    /// Opens a page of a server.
    pub(crate) async fn open(server: &Server, path: &str) -> Self {
        let driver = BrowserDriver::start().await;
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

    /// Goes to a page as if its address was typed.
    pub(crate) async fn go(&self, path: &str) {
        let address = format!("{}{path}", self.address);
        self.client.goto(&address).await.unwrap();
    }

    pub(crate) async fn reload(&self) {
        self.client.refresh().await.unwrap();
    }

    /// The current path, without the server's name.
    pub(crate) async fn path(&self) -> String {
        self.client.current_url().await.unwrap().path().to_owned()
    }

    pub(crate) async fn title(&self) -> String {
        self.client.title().await.unwrap()
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        let script = format!("{SCRIPT_PRELUDE} return ({expression});");
        self.client
            .execute(&script, vec![])
            .await
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value of an expression that is a promise.
    pub(crate) async fn await_value(&self, before: &str, expression: &str) -> Value {
        let script = format!(
            "{before}\nconst done = arguments[arguments.length - 1];\
             Promise.resolve({expression}).then((value) => done({{ value }}), \
                (error) => done({{ error: String(error) }}));"
        );
        let answer = self.client.execute_async(&script, vec![]).await.unwrap();
        assert_eq!(answer["error"], Value::Null, "{expression}");
        answer["value"].clone()
    }

    /// Waits until an expression is truthy. Tolerates a page that is being replaced.
    #[track_caller]
    pub(crate) fn until<'a>(&'a self, expression: &str) -> impl Future<Output = Value> + use<'a> {
        let script = format!("{SCRIPT_PRELUDE} return ({expression});");
        let expression = expression.to_owned();
        let place = std::panic::Location::caller();
        async move {
            let give_up = Instant::now() + PAGE_TIMEOUT;
            loop {
                let last = self.client.execute(&script, vec![]).await;
                match &last {
                    Ok(Value::Null | Value::Bool(false)) => {}
                    Ok(value) => return value.clone(),
                    Err(error) => assert!(is_transient(error), "{expression}: {error}"),
                }
                if Instant::now() > give_up {
                    let page = self.text("body").await;
                    panic!(
                        "{place}: never came about: {expression} ({last:?})\n--- the page\n{page}"
                    );
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
    }

    /// The visible element with these words, as soon as there is one.
    #[track_caller]
    pub(crate) fn find<'a>(
        &'a self,
        css: &str,
        words: &str,
    ) -> impl Future<Output = Element> + use<'a> {
        let found = self.until(&format!("seen({}, {})", json!(css), json!(words)));
        async {
            let found = found.await;
            let id = found[ELEMENT_KEY].as_str().unwrap().to_owned();
            Element::from_element_id(self.client.clone(), ElementRef::from(id))
        }
    }

    /// Waits until these words are visible there.
    #[track_caller]
    pub(crate) fn wait_visible<'a>(
        &'a self,
        css: &str,
        words: &str,
    ) -> impl Future<Output = ()> + use<'a> {
        let found = self.find(css, words);
        async { drop(found.await) }
    }

    /// Waits until no such element is visible.
    #[track_caller]
    pub(crate) fn misses<'a>(
        &'a self,
        css: &str,
        words: &str,
    ) -> impl Future<Output = ()> + use<'a> {
        let gone = self.until(&format!("!seen({}, {})", json!(css), json!(words)));
        async { drop(gone.await) }
    }

    /// The text of an element.
    pub(crate) async fn text(&self, css: &str) -> String {
        let text = format!("document.querySelector({})?.innerText ?? ''", json!(css));
        self.value(&text).await.as_str().unwrap().to_owned()
    }

    /// The texts of all matching elements.
    pub(crate) async fn texts(&self, css: &str) -> Vec<String> {
        let texts = format!("all({}).map((one) => one.textContent)", json!(css));
        serde_json::from_value(self.value(&texts).await).unwrap()
    }

    /// Closes the window. Asserts that pages logged no errors except the expected ones, and that all requests
    /// went to the server.
    pub(crate) async fn end(mut self, expected: &[&str]) {
        self.has_ended = true;
        let complaints: Vec<String> = self.log("browser").await;
        let is_expected = |line: &String| expected.iter().any(|words| line.contains(words));
        let wrong: Vec<&String> = complaints
            .iter()
            .filter(|line| !is_expected(line))
            .collect();
        let requests = self.requests().await;
        let own = format!("{}/", self.address);
        let foreign: Vec<&String> = requests
            .iter()
            .filter(|url| {
                !["data:", "chrome:", &own]
                    .iter()
                    .any(|own| url.starts_with(own))
            })
            .collect();
        self.client.clone().close().await.unwrap();
        assert!(wrong.is_empty(), "the browser complains: {wrong:#?}");
        assert!(foreign.is_empty(), "asked of others: {foreign:#?}");
    }
}

/// Whether an error only means that the page is being replaced.
fn is_transient(error: &CmdError) -> bool {
    let text = error.to_string();
    [
        "stale element",
        "navigated",
        "no such execution context",
        "Cannot find context",
        "aborted",
    ]
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
