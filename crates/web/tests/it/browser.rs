//! Runs the module tests in a headless browser, and reads their result from the page.

use std::process::{Command, Stdio};

use crate::page_server;

/// Limit in milliseconds of the page's virtual clock.
const VIRTUAL_TIME_BUDGET: &str = "--virtual-time-budget=120000";

/// Needs Debian's `chromium`, or the browser that `CHROMIUM` names.
#[test]
fn modules_do_in_a_browser_what_they_should() {
    let browser = std::env::var_os("CHROMIUM").unwrap_or_else(|| "chromium".into());
    let profile = tempfile::tempdir().unwrap();
    let address = page_server::start();
    let output = Command::new(&browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            VIRTUAL_TIME_BUDGET,
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/pages/index.html"))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("cannot start {browser:?}: {error}"));
    let page = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<&str> = page
        .split("<li>")
        .filter_map(|line| line.split("</li>").next())
        .filter(|line| line.starts_with("FAILED"))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(
        page.contains("data-result=\"passed\""),
        "the page did not finish:\n{page}"
    );
}
