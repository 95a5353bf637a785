//! Every page with real content, wide and narrow, dark and light: no axe violations, nothing wider than a
//! phone, and a screenshot of each for review.

use testkit::StreamGate;

use crate::accessibility::{axe, lay_out, target, violations};
use crate::browser::Browser;
use crate::play::play;
use crate::sample_jobs::{SampleJobs, fill, serve_samples};
use crate::server::Site;

const DESKTOP: (u32, u32) = (1280, 900);
const PHONE: (u32, u32) = (390, 844);

/// A page, how to tell that it is ready, and what is clicked on it first.
struct GalleryPage {
    name: &'static str,
    path: String,
    ready: &'static str,
    clicks: &'static [(&'static str, &'static str)],
}

fn scene(name: &'static str, path: impl Into<String>, ready: &'static str) -> GalleryPage {
    GalleryPage {
        name,
        path: path.into(),
        ready,
        clicks: &[],
    }
}

impl GalleryPage {
    fn clicking(self, clicks: &'static [(&'static str, &'static str)]) -> Self {
        Self { clicks, ..self }
    }
}

#[test]
fn pages_are_fit_to_be_seen_on_a_desktop() {
    play(check_pages(DESKTOP, pages));
}

#[test]
fn pages_are_fit_to_be_seen_on_a_phone() {
    play(check_pages(PHONE, pages));
}

#[test]
fn jobs_are_fit_to_be_seen_on_a_desktop() {
    play(check_pages(DESKTOP, job_pages));
}

#[test]
fn jobs_are_fit_to_be_seen_on_a_phone() {
    play(check_pages(PHONE, job_pages));
}

/// Shows scenes in this size to a signed-in user.
async fn check_pages(size: (u32, u32), scenes: fn(&SampleJobs) -> Vec<GalleryPage>) {
    let gate = StreamGate::new();
    let model = serve_samples(&gate);
    let site = Site::new(&model).flags(["--require-keys", "--concurrency", "2"]);
    let server = site.start().await;
    let arguments = ["keys", "create", "--user", "morgan", "--role", "admin"];
    let output = site.hotcell(arguments).output().await.unwrap();
    let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let jobs = fill(&server.client().with_key(&key)).await;
    let browser = Browser::open(&server, "/login").await;
    browser.size(size.0, size.1).await;

    let mut wrong = Vec::new();
    let axe = axe();
    let login = scene("login", "/login", "seen('h1', 'Sign in')");
    check_page(&browser, &login, size, &axe, &mut wrong).await;
    browser.write("#key", &key).await;
    browser.click("button[type=submit]", "Sign in").await;
    browser.wait_visible(".job-row", "").await;
    for scene in scenes(&jobs) {
        check_page(&browser, &scene, size, &axe, &mut wrong).await;
    }
    gate.open();
    browser.end(&["404", "401"]).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Shows a scene, dark and light.
async fn check_page(
    browser: &Browser,
    scene: &GalleryPage,
    (width, _): (u32, u32),
    axe: &str,
    wrong: &mut Vec<String>,
) {
    let folder = target().join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    browser.go(&scene.path).await;
    browser.until(scene.ready).await;
    for (css, words) in scene.clicks {
        browser.click(css, words).await;
    }
    browser.until("!seen('.loading')").await;
    lay_out(browser).await;
    for scheme in ["dark", "light"] {
        browser.scheme(scheme).await;
        browser.wait_drawn().await;
        let name = format!("{}-{width}-{scheme}", scene.name);
        std::fs::write(folder.join(format!("{name}.png")), browser.picture().await).unwrap();
        let widest = browser.value("document.scrollingElement.scrollWidth").await;
        if widest.as_u64().unwrap() > u64::from(width) {
            wrong.push(format!("{name}: {widest} pixels wide"));
        }
        for violation in violations(browser, axe).await {
            wrong.push(format!("{name}: {violation}"));
        }
    }
}

fn pages(_: &SampleJobs) -> Vec<GalleryPage> {
    vec![
        scene("dashboard", "/", "all('.job-row').length >= 6"),
        scene("dashboard-nothing", "/?q=zebra", "seen('.empty')"),
        scene("new", "/new", "seen('.task-box')"),
        scene("new-options", "/new?options", "seen('#field-memory')"),
        scene("new-refused", "/new?options", "seen('#field-memory')")
            .clicking(&[("button[type=submit]", "Schedule")]),
        scene("new-git", "/new?options", "seen('#field-memory')")
            .clicking(&[("label.chip", "Git")]),
        scene("chat", "/chat", "seen('.chat-start .job-row')"),
        scene("history", "/history", "all('.job-row').length >= 6"),
        scene("history-found", "/history?q=tests", "seen('mark')"),
        scene("keys", "/keys", "seen('table.keys')"),
        scene("help", "/", "seen('.job-row')")
            .clicking(&[("button[aria-label='Help and shortcuts']", "")]),
        scene("docs", "/docs", "seen('main h2')"),
        scene("missing", "/no/such/page", "seen('h1', 'Not found')"),
    ]
}

fn job_pages(jobs: &SampleJobs) -> Vec<GalleryPage> {
    const COMPLETE: &str = "seen('.job-page[data-state=complete] .item.outcome')";
    let job = |id: &str, tab: &str| format!("/jobs/{id}{tab}");
    vec![
        scene("job", job(&jobs.todo, ""), COMPLETE),
        scene("job-call", job(&jobs.todo, ""), COMPLETE).clicking(&[(".call summary", "unittest")]),
        scene(
            "job-files",
            job(&jobs.todo, "?tab=files"),
            "seen('.tree-row', 'todo.py')",
        )
        .clicking(&[(".tree-row", "todo.py")]),
        scene(
            "job-diff",
            job(&jobs.todo, "?tab=diff"),
            "seen('.diff-row')",
        ),
        scene(
            "job-logs",
            job(&jobs.todo, "?tab=logs"),
            "seen('.log', 'bash:')",
        ),
        scene(
            "job-audit",
            job(&jobs.todo, "?tab=logs"),
            "seen('.log', 'bash:')",
        )
        .clicking(&[(".chip", "Audit log")]),
        scene(
            "job-details",
            job(&jobs.todo, "?tab=details"),
            "seen('.details-panel .facts')",
        ),
        scene("job-delete", job(&jobs.todo, ""), COMPLETE)
            .clicking(&[(".job-actions button", "Delete")]),
        scene(
            "job-running",
            job(&jobs.busy, ""),
            "seen('.output.live', 'waiting')",
        ),
        scene(
            "job-failed",
            job(&jobs.failed, ""),
            "seen('.job-page[data-state=failed] .item.outcome')",
        ),
        scene("job-long", job(&jobs.long, ""), COMPLETE),
        scene(
            "job-long-files",
            job(&jobs.long, "?tab=files"),
            "seen('.tree-row', 'long')",
        )
        .clicking(&[(".tree-row", "long")]),
        scene(
            "chat-job",
            job(&jobs.chat, ""),
            "seen('.job-page[data-state=waiting] .item.outcome')",
        ),
    ]
}
