//! A store that cannot be written for a while: reported, and recovered from.

use std::process::Stdio;

use serde_json::json;
use testkit::{ScriptedAnswer, StreamGate};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::client::problem;
use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;

/// Another process that locks a database until its standard input is closed.
async fn lock_database(path: &std::path::Path) -> Child {
    let script = "import sqlite3, sys\n\
                  base = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                  base.execute('BEGIN IMMEDIATE')\n\
                  print('held', flush=True)\n\
                  sys.stdin.read()\n\
                  base.execute('ROLLBACK')";
    let mut holder = Command::new("python3")
        .args(["-c", script])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(holder.stdout.take().unwrap());
    stdout.read_line(&mut line).await.unwrap();
    assert_eq!(line, "held\n");
    holder
}

async fn unlock_database(mut holder: Child) {
    holder.stdin.take().unwrap().shutdown().await.unwrap();
    assert!(holder.wait().await.unwrap().success());
}

#[test]
fn a_store_that_another_process_holds_is_said_to_be_busy() {
    play(async {
        let gate = StreamGate::new();
        let held = gate.clone();
        let model = serve(move |request| match RequestView::of(request).results {
            0 => ScriptedAnswer::reply(bash("echo 1 > one.txt")).hold(0, &held),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model);
        let server = site.start().await;
        let client = server.client();
        let running = client.schedule_task("Wait").await;
        gate.reached().await;

        let holder = lock_database(&site.data().join("jobs.db")).await;
        // Reads are answered at once.
        assert_eq!(client.job(&running).await["state"], "running");
        let later = json!({ "task": "Later" });
        let (answer, ready) =
            tokio::join!(client.try_schedule(&later), client.get("/readyz").send());
        let wait = answer.headers().get("retry-after").cloned();
        let told = problem(answer, 503).await;
        assert!(wait.is_some(), "{told}");
        problem(ready.unwrap(), 503).await;
        // The running job waits to write its end, and succeeds.
        gate.open();
        unlock_database(holder).await;
        client.complete(&running).await;
        assert_eq!(client.files(&running).await["one.txt"], "1\n");
        let id = client.schedule_task("Later").await;
        client.complete(&id).await;
        assert_eq!(client.jobs("").await.len(), 2);
        let ready = client.get("/readyz").send().await.unwrap();
        assert_eq!(ready.status(), 200);
    });
}
