//! Accessibility violations that axe finds on a page. Axe runs in the page; `scripts/setup` installs it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::browser::Browser;

/// The build folder.
pub(crate) fn target() -> PathBuf {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR"));
    below.parent().unwrap().to_owned()
}

/// The source of axe.
pub(crate) fn axe() -> String {
    let lib = target().join("test-tools/lib");
    let folders = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let file = "site-packages/axe_playwright_python/axe.min.js";
    folders
        .map(|folder| folder.path().join(file))
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_else(|| {
            let lib = lib.display();
            panic!("cannot find `{file}` in `{lib}/python3*`\nhint: run scripts/setup")
        })
}

/// Lays out off-screen content too, which may have no styles yet or those of another theme.
pub(crate) async fn lay_out(browser: &Browser) {
    let sheet = "(() => { const sheet = new CSSStyleSheet();\
        sheet.replaceSync('* { content-visibility: visible !important }');\
        document.adoptedStyleSheets = [sheet]; })()";
    browser.value(sheet).await;
    browser.wait_drawn().await;
}

/// Every rule that the page violates, and where.
pub(crate) async fn violations(browser: &Browser, axe: &str) -> Vec<String> {
    let broken = browser
        .await_value(
            axe,
            "axe.run(document).then(({ violations }) => violations.map(({ id, help, nodes }) => ({ \
                id, help, nodes: nodes.map(({ html, failureSummary }) => html.slice(0, 300) + '\\n' + failureSummary) })))",
        )
        .await;
    let broken = broken.as_array().unwrap().iter();
    broken.map(describe).collect()
}

fn describe(violation: &Value) -> String {
    let nodes = violation["nodes"].as_array().unwrap().iter();
    let nodes: Vec<&str> = nodes.take(5).map(|node| node.as_str().unwrap()).collect();
    format!(
        "{}: {}\n{}",
        violation["id"],
        violation["help"],
        nodes.join("\n")
    )
}
