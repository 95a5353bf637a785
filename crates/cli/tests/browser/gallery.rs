//! Every page with something real on it, wide and narrow, dark and light: nothing that axe finds,
//! nothing wider than a phone, and a picture of each for people to judge.

use llm::script::{Script, ScriptedReply};
use serde_json::{Value, json};
use testkit::{Answer, Gate, Recorded};

use crate::accessibility::{axe, target, violations};
use crate::browser::Browser;
use crate::client::Client;
use crate::model::{bash, say, serve};
use crate::play::play;
use crate::server::Site;
use crate::task::speaking;

const TODO: &str = include_str!("../../../../examples/todo-app.toml");

const LOOKS: [(u32, u32, &str); 4] = [
    (1280, 900, "light"),
    (1280, 900, "dark"),
    (390, 844, "light"),
    (390, 844, "dark"),
];

/// A page, when it is ready, and what is clicked on it first.
struct Scene {
    name: &'static str,
    path: String,
    ready: &'static str,
    clicks: &'static [(&'static str, &'static str)],
}

fn scene(name: &'static str, path: impl Into<String>, ready: &'static str) -> Scene {
    Scene {
        name,
        path: path.into(),
        ready,
        clicks: &[],
    }
}

impl Scene {
    fn clicking(self, clicks: &'static [(&'static str, &'static str)]) -> Self {
        Self { clicks, ..self }
    }
}

/// The jobs that are shown.
struct Jobs {
    todo: String,
    busy: String,
    failed: String,
    long: String,
    chat: String,
}

#[test]
fn every_page_is_fit_to_be_seen_in_every_look() {
    play(async {
        let gate = Gate::new();
        let model = {
            let gate = gate.clone();
            let todo = Script::parse(TODO).unwrap().replies;
            serve(move |request| reply(request, &todo, &gate))
        };
        let site = Site::new(&model).flags(["--require-keys", "--concurrency", "2"]);
        let server = site.start().await;
        let arguments = ["keys", "create", "--user", "morgan", "--role", "admin", "--label", "first key"];
        let output = site.hotcell(arguments).output().await.unwrap();
        let key = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let client = server.client().with_key(&key);
        let jobs = fill(&client).await;
        let browser = Browser::open(&server, "/login").await;

        let mut wrong = Vec::new();
        let axe = axe();
        let login = scene("login", "/login", "seen('h1', 'Sign in')");
        look(&browser, &login, &axe, &mut wrong).await;
        browser.go("/login").await;
        browser.write("#key", &key).await;
        browser.click("button[type=submit]", "Sign in").await;
        browser.sees(".job-row", "").await;
        for scene in scenes(&jobs) {
            look(&browser, &scene, &axe, &mut wrong).await;
        }
        gate.open();
        browser.end(&["404"]).await;
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    });
}

/// Shows a scene in every look.
async fn look(browser: &Browser, scene: &Scene, axe: &str, wrong: &mut Vec<String>) {
    let folder = target().join("screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    let mut width_now = 0;
    for (width, height, scheme) in LOOKS {
        browser.scheme(scheme).await;
        if width != width_now {
            width_now = width;
            browser.size(width, height).await;
            browser.go(&scene.path).await;
            browser.until(scene.ready).await;
            for (css, words) in scene.clicks {
                browser.click(css, words).await;
            }
            browser.until("!seen('.loading')").await;
        }
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

fn scenes(jobs: &Jobs) -> Vec<Scene> {
    const COMPLETE: &str = "seen('.job-page[data-state=complete] .item.outcome')";
    let job = |id: &str, tab: &str| format!("/jobs/{id}{tab}");
    vec![
        scene("dashboard", "/", "all('.job-row').length >= 6"),
        scene("dashboard-nothing", "/?q=zebra", "seen('.empty')"),
        scene("new", "/new", "seen('.task-box')"),
        scene("new-options", "/new?options", "seen('#field-memory')"),
        scene("new-refused", "/new?options", "seen('#field-memory')").clicking(&[("button[type=submit]", "Schedule")]),
        scene("new-git", "/new?options", "seen('#field-memory')").clicking(&[("label.chip", "Git")]),
        scene("job", job(&jobs.todo, ""), COMPLETE),
        scene("job-call", job(&jobs.todo, ""), COMPLETE).clicking(&[(".call summary", "unittest")]),
        scene("job-files", job(&jobs.todo, "?tab=files"), "seen('.tree-row', 'todo.py')").clicking(&[(".tree-row", "todo.py")]),
        scene("job-diff", job(&jobs.todo, "?tab=diff"), "seen('.diff-row')"),
        scene("job-logs", job(&jobs.todo, "?tab=logs"), "seen('.log', 'bash:')"),
        scene("job-audit", job(&jobs.todo, "?tab=logs"), "seen('.log', 'bash:')").clicking(&[(".chip", "Audit log")]),
        scene("job-details", job(&jobs.todo, "?tab=details"), "seen('.details-panel .facts')"),
        scene("job-delete", job(&jobs.todo, ""), COMPLETE).clicking(&[(".job-actions button", "Delete")]),
        scene("job-running", job(&jobs.busy, ""), "seen('.output.live', 'waiting')"),
        scene("job-failed", job(&jobs.failed, ""), "seen('.job-page[data-state=failed] .item.outcome')"),
        scene("job-long", job(&jobs.long, ""), COMPLETE),
        scene("job-long-files", job(&jobs.long, "?tab=files"), "seen('.tree-row', 'long')").clicking(&[(".tree-row", "long")]),
        scene("chat", "/chat", "seen('.chat-start .job-row')"),
        scene("chat-job", job(&jobs.chat, ""), "seen('.job-page[data-state=waiting] .item.outcome')"),
        scene("history", "/history", "all('.job-row').length >= 6"),
        scene("history-found", "/history?q=tests", "seen('mark')"),
        scene("keys", "/keys", "seen('table.keys')"),
        scene("help", "/", "seen('.job-row')").clicking(&[("button[aria-label='Help and shortcuts']", "")]),
        scene("docs", "/docs", "seen('main h2')"),
        scene("missing", "/no/such/page", "seen('h1', 'Not found')"),
    ]
}

/// Schedules what is shown, and waits until it is there.
async fn fill(client: &Client) -> Jobs {
    for (user, role, label) in [
        ("ada", "user", "laptop"),
        ("ci-bot", "user", "nightly builds on the machine under the stairs"),
        ("grace", "admin", "old phone"),
    ] {
        let wanted = json!({"user": user, "role": role, "label": label});
        let made: Value = client.post("/v1/keys").json(&wanted).send().await.unwrap().json().await.unwrap();
        if user == "grace" {
            let path = format!("/v1/keys/{}", made["key"]["id"].as_str().unwrap());
            client.delete(&path).send().await.unwrap();
        }
    }
    let todo = client.schedule_task("Build me a todo app").await;
    client.complete(&todo).await;
    let failed = client.schedule(json!({
        "task": "Summarise last week's error logs and open an issue for each new kind",
        "budget": {"cost": 0.25},
    }));
    let failed = failed.await;
    client.ended(&failed).await;
    let long = client.schedule_task(LONG).await;
    client.complete(&long).await;
    let chat = json!({"task": "Which sorting algorithm does Python use?", "interactive": true});
    let chat = client.schedule(chat).await;
    client.until(&chat, "waiting").await;
    let busy = client.schedule(json!({
        "task": "Port the report generator to `asyncio` and keep the tests green",
        "budget": {"cost": 2.0, "tokens": 200_000, "turns": 40},
        "network": ["pypi.org", "files.pythonhosted.org"],
    }));
    let busy = busy.await;
    client.follow(&busy, 0).await.until("tool_output").await;
    client.schedule_task("Write release notes from the commits since v1.4").await;
    Jobs { todo, busy, failed, long, chat }
}

const LONG: &str = "Read https://example.com/a/very/long/address/that/has/no/place/to/break/and/goes/on/and/on/and/on.html?with=a&long=query#and-a-fragment and tell me what it says.\n\nThen compare it with AnIdentifierWithoutASingleSpaceThatSomebodyReallyUsedInTheirProgramBecauseNobodyStoppedThem.";

/// What the model says, from what it is asked alone.
fn reply(request: &Recorded, todo: &[ScriptedReply], gate: &Gate) -> Answer {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let said = messages.iter().filter(|message| message["role"] == "assistant").count();
    let task = messages[0]["content"].to_string();
    let reply = match task {
        task if task.contains("todo") => todo[said.min(todo.len() - 1)].clone(),
        task if task.contains("asyncio") => busy(said),
        task if task.contains("error logs") => match said {
            0 => speaking("I'll look at what there is.", bash("ls /var/log/app; cat errors-*.log")),
            _ => ScriptedReply::error(400, "invalid_request_error", "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits."),
        },
        task if task.contains("sorting") => say(SORTING),
        task if task.contains("very/long") => long(said),
        _ => return Answer::reply(say("Soon.")).hold(0, gate),
    };
    let mut reply = reply;
    (reply.pace_ms, reply.delay_ms) = (0, 0);
    reply.into()
}

const SORTING: &str = "Since 3.11 it is **Powersort**, a descendant of Timsort:\n\n1. It finds *runs* that are already in order.\n2. It merges them by their *power*, which keeps the merges balanced.\n\n| | best | worst | stable |\n|---|---:|---:|:---:|\n| Powersort | `n` | `n log n` | yes |\n| Quicksort | `n log n` | `n²` | no |\n\n> A list that is nearly sorted costs nearly nothing.\n\n```python\nsorted(words, key=str.casefold)\n```\n";

fn busy(said: usize) -> ScriptedReply {
    match said {
        0 => ScriptedReply {
            thinking: Some("The generator reads three sources one after the other. They do not depend on each other, so `asyncio.gather` fits. I should look at the tests before I touch anything.".to_owned()),
            ..speaking(
                "I'll read the code and its tests, then change one layer at a time.",
                ScriptedReply::call("plan", json!({"steps": [
                    {"title": "Read `report.py` and its tests", "status": "done"},
                    {"title": "Make `load_sources()` asynchronous", "status": "active"},
                    {"title": "Keep a synchronous `main()` for scripts that call it", "status": "pending"},
                    {"title": "Run everything, compare the output with the old one", "status": "pending"},
                ]})),
            )
        },
        1 => ScriptedReply::call("write_file", json!({"path": "report.py", "content": "import asyncio\n\n\ndef load(name: str) -> str:\n    return open(name).read()\n\n\ndef main() -> None:\n    for name in (\"sales\", \"stock\", \"staff\"):\n        print(load(name))\n"})),
        2 => speaking(
            "`load` is the only blocking call. I move it to a thread and gather the three.",
            ScriptedReply::call("edit_file", json!({"path": "report.py", "old_text": "def main() -> None:\n    for name in (\"sales\", \"stock\", \"staff\"):\n        print(load(name))\n", "new_text": "async def collect() -> list[str]:\n    names = (\"sales\", \"stock\", \"staff\")\n    return await asyncio.gather(*(asyncio.to_thread(load, name) for name in names))\n\n\ndef main() -> None:\n    for text in asyncio.run(collect()):\n        print(text)\n"})),
        ),
        3 => bash("printf '\\033[31mFAILED\\033[0m test_report.py::test_order - AssertionError: sales before stock\\n\\033[32m11 passed\\033[0m, \\033[31m1 failed\\033[0m in 0.42s\\n'; exit 1"),
        _ => speaking(
            "One test expects the old order. `gather` keeps the order of its arguments, so the test's fixture must be at fault. I run it alone to see:",
            bash("mkfifo pipe; for n in 1 2 3; do printf '\\033[36m[%s/3]\\033[0m collecting test_report.py::test_order\\n' $n; done; echo waiting for the fixture; cat pipe"),
        ),
    }
}

fn long(said: usize) -> ScriptedReply {
    match said {
        0 => bash("mkdir -p a/folder; name=a-file-with-a-very-long-name-that-does-not-fit-into-any-column-of-any-table-on-a-phone.txt; yes 'a line that is rather long, so that it does not fit beside anything else at all, and needs a scroll bar of its own' | head -n 400 > long-$name; head -c 3000 /dev/zero | tr '\\0' x > a/folder/one-line.txt; seq 300; ls nothing-here-at-all"),
        _ => say("## What it says\n\nThe address https://example.com/a/very/long/address/that/has/no/place/to/break/and/goes/on/and/on/and/on.html cannot be reached: **the network is off**.\n\n`AnIdentifierWithoutASingleSpaceThatSomebodyReallyUsedInTheirProgramBecauseNobodyStoppedThem` is a name.\n\n- one\n  - two\n    - three\n\n| column one | column two | column three | column four | column five |\n|---|---|---|---|---|\n| a cell with words | another cell with words | AnIdentifierWithoutASingleSpace | 12345678901234567890 | the end |\n\n```rust\nfn main() { let answer: HashMap<String, Vec<Option<Result<u64, Box<dyn std::error::Error>>>>> = HashMap::new(); }\n```\n\n- [x] read\n- [ ] compared\n"),
    }
}
