//! Realistic jobs for page screenshots: done, busy, failed, long, a chat.

use llm::script::{Script, ScriptedReply};
use serde_json::{Value, json};
use testkit::{ModelServer, RecordedRequest, ScriptedAnswer, StreamGate};

use crate::client::Client;
use crate::model::{bash, say, serve};
use crate::task::with_text;

const TODO: &str = include_str!("../../../../examples/todo-app.toml");

/// The jobs that are shown.
pub(crate) struct SampleJobs {
    pub(crate) todo: String,
    pub(crate) busy: String,
    pub(crate) failed: String,
    pub(crate) long: String,
    pub(crate) chat: String,
}

/// The model of these jobs. Other tasks wait at the gate.
pub(crate) fn serve_samples(gate: &StreamGate) -> ModelServer {
    let gate = gate.clone();
    let todo = Script::parse(TODO).unwrap().replies;
    serve(move |request| reply(request, &todo, &gate))
}

/// Schedules the jobs and waits until they are in the wanted state.
pub(crate) async fn fill(client: &Client) -> SampleJobs {
    for (user, role, label) in [
        ("ada", "user", "laptop"),
        (
            "ci-bot",
            "user",
            "nightly builds on the machine under the stairs",
        ),
        ("grace", "admin", "old phone"),
    ] {
        let wanted = json!({"user": user, "role": role, "label": label});
        let made: Value = client
            .post("/v1/keys")
            .json(&wanted)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
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
    client
        .schedule_task("Write release notes from the commits since v1.4")
        .await;
    SampleJobs {
        todo,
        busy,
        failed,
        long,
        chat,
    }
}

const LONG: &str = "Read https://example.com/a/very/long/address/that/has/no/place/to/break/and/goes/on/and/on/and/on.html?with=a&long=query#and-a-fragment and tell me what it says.\n\nThen compare it with AnIdentifierWithoutASingleSpaceThatSomebodyReallyUsedInTheirProgramBecauseNobodyStoppedThem.";

/// The model's reply, which depends only on the request.
fn reply(request: &RecordedRequest, todo: &[ScriptedReply], gate: &StreamGate) -> ScriptedAnswer {
    let body = request.json();
    let messages = body["messages"].as_array().unwrap();
    let said = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count();
    let task = messages[0]["content"].to_string();
    let reply = match task {
        task if task.contains("todo") => todo[said.min(todo.len() - 1)].clone(),
        task if task.contains("asyncio") => busy(said),
        task if task.contains("error logs") => match said {
            0 => with_text(
                "I'll look at what there is.",
                bash("ls /var/log/app; cat errors-*.log"),
            ),
            _ => ScriptedReply::error(
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the API. Please go to Plans & Billing to upgrade or purchase credits.",
            ),
        },
        task if task.contains("sorting") => say(SORTING),
        task if task.contains("very/long") => long(said),
        _ => return ScriptedAnswer::reply(say("Soon.")).hold(0, gate),
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
            ..with_text(
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
        2 => with_text(
            "`load` is the only blocking call. I move it to a thread and gather the three.",
            ScriptedReply::call("edit_file", json!({"path": "report.py", "edits": [{"old": "def main() -> None:\n    for name in (\"sales\", \"stock\", \"staff\"):\n        print(load(name))\n", "new": "async def collect() -> list[str]:\n    names = (\"sales\", \"stock\", \"staff\")\n    return await asyncio.gather(*(asyncio.to_thread(load, name) for name in names))\n\n\ndef main() -> None:\n    for text in asyncio.run(collect()):\n        print(text)\n"}]})),
        ),
        3 => bash("printf '\\033[31mFAILED\\033[0m test_report.py::test_order - AssertionError: sales before stock\\n\\033[32m11 passed\\033[0m, \\033[31m1 failed\\033[0m in 0.42s\\n'; exit 1"),
        _ => with_text(
            "One test expects the old order. `gather` keeps the order of its arguments, so the test's fixture must be at fault. I run it alone to see:",
            bash("mkfifo pipe; for n in 1 2 3; do printf '\\033[36m[%s/3]\\033[0m collecting test_report.py::test_order\\n' $n; done; echo waiting for the fixture; cat pipe"),
        ),
    }
}

fn long(said: usize) -> ScriptedReply {
    match said {
        0 => bash(
            "mkdir -p a/folder; name=a-file-with-a-very-long-name-that-does-not-fit-into-any-column-of-any-table-on-a-phone.txt; yes 'a line that is rather long, so that it does not fit beside anything else at all, and needs a scroll bar of its own' | head -n 400 > long-$name; head -c 3000 /dev/zero | tr '\\0' x > a/folder/one-line.txt; seq 300; ls nothing-here-at-all",
        ),
        _ => say(
            "## What it says\n\nThe address https://example.com/a/very/long/address/that/has/no/place/to/break/and/goes/on/and/on/and/on.html cannot be reached: **the network is off**.\n\n`AnIdentifierWithoutASingleSpaceThatSomebodyReallyUsedInTheirProgramBecauseNobodyStoppedThem` is a name.\n\n- one\n  - two\n    - three\n\n| column one | column two | column three | column four | column five |\n|---|---|---|---|---|\n| a cell with words | another cell with words | AnIdentifierWithoutASingleSpace | 12345678901234567890 | the end |\n\n```rust\nfn main() { let answer: HashMap<String, Vec<Option<Result<u64, Box<dyn std::error::Error>>>>> = HashMap::new(); }\n```\n\n- [x] read\n- [ ] compared\n",
        ),
    }
}
