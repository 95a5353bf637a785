//! Jobs arrive while the server is killed repeatedly: every job is done, once, and correctly.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use llm::script::ScriptedReply;
use serde_json::{Value, json};
use testkit::{ModelServer, RecordedRequest};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::model::{RequestView, bash, say, serve, write};
use crate::play::{eventually, play_alone, portion};
use crate::processes::no_orphans;
use crate::server::Site;
use crate::webhooks::WebhookReceiver;
use testkit::StreamedEvent;

/// Every fifth of them gets a second message.
const JOB_COUNT: usize = 200;
const KILL_COUNT: usize = 50;
/// How long a client waits for a response before it asks again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);
/// Requests of a job that is never killed.
const REQUESTS_PER_JOB: u64 = 5;

#[test]
fn every_job_is_done_once_whenever_the_server_dies() {
    play_alone(async {
        let (jobs, kills) = (portion(JOB_COUNT), portion(KILL_COUNT));
        let seed = std::env::var("HOTCELL_TEST_SEED");
        let seed = seed.map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
        println!("seed {seed}: {jobs} jobs, {kills} kills");
        let mut dice = Rng::with_seed(seed);
        let model = serve(next_step);
        let ear = WebhookReceiver::open().await;
        let site = Site::new(&model).flags(["--private-webhooks", "--concurrency", "12"]);

        // New jobs arrive as long as servers are killed, whether or not one runs.
        let (tell, server_now) = watch::channel(None);
        let allowed = Arc::new(Semaphore::new(0));
        let mut people = JoinSet::new();
        for number in 0..jobs {
            let (server_now, allowed) = (server_now.clone(), allowed.clone());
            let url = ear.url();
            people.spawn(async move {
                allowed.acquire().await.unwrap().forget();
                let person = PersistentClient { server_now, number };
                person.submit_job(&url).await
            });
        }
        for kill in 0..kills {
            let share = jobs * (kill + 1) / kills - jobs * kill / kills;
            allowed.add_permits(share);
            run_and_kill(
                &site,
                &model,
                &tell,
                &mut dice,
                share as u64 * REQUESTS_PER_JOB,
            )
            .await;
        }

        let server = site.start().await;
        tell.send(Some(server.client().clone())).unwrap();
        let mut ids = BTreeMap::new();
        while let Some(given) = people.join_next().await {
            let (number, id) = given.unwrap();
            ids.insert(number, id);
        }
        let client = server.client();
        let mut crashes = 0;
        for (number, id) in &ids {
            client.complete(id).await;
            let job = client.job(id).await;
            crashes += job["crashes"].as_u64().unwrap();
            check(client, &job, *number).await;
        }
        let listed = client.jobs("").await;
        let names = listed.iter().map(|job| job["id"].as_str().unwrap());
        let names: HashSet<_> = names.collect();
        assert_eq!(listed.len(), jobs, "a job was scheduled twice");
        assert_eq!(names, ids.values().map(String::as_str).collect());
        println!(
            "{crashes} deaths under a job, {} requests",
            model.request_count()
        );
        assert!(crashes > 0, "no server died under a job");

        check_ends(&site, &ear, &ids).await;
        assert!(server.end().await.success());
        no_orphans().await;
        for id in ids.values() {
            check_log(&site.data().join("jobs").join(id).join("logs/audit.jsonl"));
        }
        check_log(&site.data().join("server-audit.jsonl"));
        assert!(model.violations().is_empty());
    });
}

/// Starts a server and kills it at some moment.
async fn run_and_kill(
    site: &Site,
    model: &ModelServer,
    tell: &watch::Sender<Option<Client>>,
    dice: &mut Rng,
    requests: u64,
) {
    if dice.u8(..5) == 0 {
        // While it still recovers what the last one left.
        let mut child = site.begin();
        tokio::time::sleep(Duration::from_micros(dice.u64(..150_000))).await;
        child.kill().await.unwrap();
        return;
    }
    let before = model.request_count();
    let server = site.start().await;
    tell.send(Some(server.client().clone())).unwrap();
    // There is work for at least this many.
    let wanted = before + usize::try_from(dice.u64(..requests)).unwrap();
    eventually("the jobs go on", async || model.request_count() >= wanted).await;
    tokio::time::sleep(Duration::from_micros(dice.u64(..60_000))).await;
    server.die().await;
}

/// A client that submits one job, and reconnects whenever the server was gone.
struct PersistentClient {
    server_now: watch::Receiver<Option<Client>>,
    number: usize,
}

impl PersistentClient {
    async fn submit_job(mut self, webhook: &str) -> (usize, String) {
        let request = json!({
            "task": format!("{} Make the files.", name(self.number)),
            "webhook": { "url": webhook },
        });
        let key = format!("job-{}", self.number);
        let job = self
            .retry_request(|client| {
                client
                    .post("/v1/jobs")
                    .header("Idempotency-Key", &key)
                    .json(&request)
            })
            .await;
        let id = job["id"].as_str().unwrap().to_owned();
        if has_second(self.number) {
            self.send_second_message(&id).await;
        }
        (self.number, id)
    }

    /// A message without a response may have arrived: the job tells.
    async fn send_second_message(&mut self, id: &str) {
        let path = format!("/v1/jobs/{id}");
        while self.retry_request(|client| client.get(&path)).await["messages"] == 1 {
            let Some(client) = self.server_now.borrow().clone() else {
                continue;
            };
            let message = json!({ "text": second(self.number) });
            let messages = client.post(&format!("{path}/messages"));
            let _ = tokio::time::timeout(RESPONSE_TIMEOUT, messages.json(&message).send()).await;
        }
    }

    /// Retries until there is a response.
    async fn retry_request(
        &mut self,
        request: impl Fn(&Client) -> reqwest::RequestBuilder,
    ) -> Value {
        loop {
            let client = self.server_now.borrow_and_update().clone();
            if let Some(client) = client {
                let response = async {
                    let answer = request(&client).send().await.ok()?;
                    Some((answer.status(), answer.json::<Value>().await.ok()?))
                };
                // A client once waited for ever, without a connection. The cause is not known.
                let response = tokio::time::timeout(RESPONSE_TIMEOUT, response).await;
                if let Ok(Some((status, body))) = response {
                    assert!(status.is_success(), "{status}: {body}");
                    return body;
                }
            }
            // Waits for the next server; the test ends if there is none.
            let mut server_now = self.server_now.clone();
            let next = tokio::time::timeout(Duration::from_millis(20), server_now.changed());
            let _ = next.await;
        }
    }
}

fn name(number: usize) -> String {
    format!("Job {number:04}.")
}

fn has_second(number: usize) -> bool {
    number.is_multiple_of(5)
}

fn second(number: usize) -> String {
    format!("{} One file more.", name(number))
}

/// The model: its next step depends only on what is done. Every step can be repeated.
fn next_step(request: &RecordedRequest) -> ScriptedReply {
    let heard = RequestView::of(request);
    let name = &heard.task()[..9];
    if !heard.has_done("`one.txt`") {
        return write("one.txt", &format!("{name} one\n"));
    }
    if !heard.has_done("two is made") {
        // Starts a process that would outlive its sandbox if it could.
        return bash(&format!(
            "sleep 1000 & mkdir -p made && echo '{name} two' > made/two.txt && echo two is made"
        ));
    }
    if !heard.has_done("`three.txt`") {
        return write("three.txt", &format!("{name} three\n"));
    }
    if !heard.has_done("all is made") {
        return bash("cat one.txt made/two.txt three.txt > all.txt && echo all is made");
    }
    match heard.said.iter().any(|said| said.contains("One file more")) {
        false => say(&format!("{name} done")),
        true if !heard.has_done("`more.txt`") => write("more.txt", &format!("{name} more\n")),
        true => say(&format!("{name} done twice")),
    }
}

fn expected(number: usize) -> BTreeMap<String, String> {
    let name = name(number);
    let line = |word: &str| format!("{name} {word}\n");
    let mut files = BTreeMap::from([
        ("one.txt".to_owned(), line("one")),
        ("made/two.txt".to_owned(), line("two")),
        ("three.txt".to_owned(), line("three")),
        (
            "all.txt".to_owned(),
            line("one") + &line("two") + &line("three"),
        ),
    ]);
    if has_second(number) {
        files.insert("more.txt".to_owned(), line("more"));
    }
    files
}

/// Checks one job at the end.
async fn check(client: &Client, job: &Value, number: usize) {
    let id = job["id"].as_str().unwrap();
    let files = client.files(id).await;
    assert_eq!(files, expected(number), "{job}");
    let word = if has_second(number) {
        "done twice"
    } else {
        "done"
    };
    assert_eq!(job["answer"], format!("{} {word}", name(number)), "{job}");

    let told = client.follow(id, 0).await.all().await;
    let lasting: Vec<u64> = told.iter().filter_map(|sent| sent.id).collect();
    let count = lasting.len() as u64;
    assert_eq!(lasting, (1..=count).collect::<Vec<_>>(), "{id}");
    // Every message was handled once, and led to one end.
    let heard = told.iter().filter(|sent| sent.kind() == "turn_started");
    let heard: Vec<&str> = heard
        .map(|sent| sent.data["prompt"][0]["text"].as_str().unwrap())
        .collect();
    let mut messages = vec![format!("{} Make the files.", name(number))];
    messages.extend(has_second(number).then(|| second(number)));
    assert_eq!(heard, messages, "{id}");
    let ends: Vec<&StreamedEvent> = told
        .iter()
        .filter(|sent| sent.kind() == "turn_ended")
        .collect();
    assert_eq!(ends.len(), messages.len(), "{id}");
    for end in ends {
        assert_eq!(end.data["outcome"]["kind"], "done", "{id}: {end:?}");
    }
}

/// Every end of a job was recorded once, and its webhook was delivered.
async fn check_ends(site: &Site, ear: &WebhookReceiver, ids: &BTreeMap<usize, String>) {
    eventually("every webhook is told", async || {
        query(
            site,
            "SELECT count(*) FROM deliveries WHERE outcome IS NULL",
        ) == "0"
    })
    .await;
    let mut ends = 0;
    for (number, id) in ids {
        let told = ear.ends_of(id);
        ends += told;
        if has_second(*number) {
            // It may have ended before it was resumed.
            assert!((1..=2).contains(&told), "{id} ended {told} times")
        } else {
            assert_eq!(told, 1, "{id}")
        }
    }
    // Each end has a unique number.
    let given = query(
        site,
        "SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'",
    );
    assert_eq!(given, ends.to_string());
}

/// The result of a read-only query of the store.
fn query(site: &Site, sql: &str) -> String {
    let script = "import sqlite3, sys\n\
                  base = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro', uri=True)\n\
                  print(base.execute(sys.argv[2]).fetchone()[0])";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(site.data().join("jobs.db"))
        .arg(sql)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn check_log(path: &Path) {
    let report = audit::verify(path).unwrap();
    assert!(report.findings.is_empty(), "{path:?}: {report:?}");
}
