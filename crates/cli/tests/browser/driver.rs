//! The browser and `chromedriver` processes. Both end when the driver is dropped.

use std::path::PathBuf;
use std::process::Stdio;

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::place::processes_with;

const STARTED_MESSAGE: &str = "started successfully on port ";

/// `chromedriver`, and the folder with the browser's profile and downloads.
pub(crate) struct BrowserDriver {
    process: Child,
    port: u16,
    folder: TempDir,
}

impl BrowserDriver {
    /// Starts it on a free port.
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "profile", "downloads"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", folder.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("cannot start `chromedriver`: {error}\nhint: run scripts/setup")
            });
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap();
            let line = line.expect("chromedriver says its port before it ends");
            if let Some((_, rest)) = line.split_once(STARTED_MESSAGE) {
                break rest.trim_end_matches('.').parse().unwrap();
            }
        };
        // Its output must be drained, or it would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            process,
            port,
            folder,
        }
    }

    /// Opens a window of a new browser.
    pub(crate) async fn open(&self) -> Client {
        let Value::Object(capabilities) = self.capabilities() else {
            unreachable!("capabilities are an object");
        };
        ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities)
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .unwrap_or_else(|error| {
                panic!("cannot start `chromium`: {error}\nhint: run scripts/setup")
            })
    }

    fn capabilities(&self) -> Value {
        let folder = self.folder.path();
        json!({
            "goog:chromeOptions": {
                "args": [
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                    "--disable-dev-shm-usage",
                    "--no-first-run",
                    "--disable-background-networking",
                    "--disable-component-update",
                    "--disable-sync",
                    "--disable-extensions",
                    "--window-size=1280,900",
                    "--lang=en-GB",
                    format!("--user-data-dir={}", folder.join("profile").display()),
                ],
                "prefs": {
                    "download.default_directory": folder.join("downloads"),
                    "download.prompt_for_download": false,
                },
            },
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        })
    }

    /// The download folder.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.folder.path().join("downloads")
    }
}

impl Drop for BrowserDriver {
    fn drop(&mut self) {
        drop(self.process.start_kill());
        // A failed test may have left its browser running.
        for pid in processes_with(&self.folder.path().display().to_string()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
