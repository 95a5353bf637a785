//! Every job route with valid requests.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::scene::{bash, run_test, text};

#[test]
fn a_task_is_scheduled_and_its_status_has_the_link() {
    run_test(async |scene| {
        scene
            .models
            .add("maker", [bash("echo hi > hi.txt"), text("I made it.")]);
        let answer = scene
            .post("/schedule")
            .json(&json!({"task": "Make it.", "model": "maker"}));
        let answer = answer.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let scheduled: Value = answer.json().await.unwrap();
        let id = scheduled["job_id"].as_str().unwrap();
        assert_eq!(scheduled, json!({"job_id": id}));

        let job = scene.ended(id).await;
        let status = scene.json(&format!("/status/{id}")).await;
        assert_eq!(status["job_id"], *id);
        assert_eq!(status["status"], "complete");
        assert_eq!(status["result"], format!("/jobs/{id}/output.zip"));
        assert_eq!(status["error"], Value::Null);
        assert_eq!(status["answer"], "I made it.");
        assert_eq!(job["result"], status["result"]);
        assert_eq!(job["answer"], status["answer"]);
        assert_eq!(status["artifact_url"], format!("/v1/jobs/{id}/artifacts"));
        assert_eq!(status["files"], 1);
        assert!(status.as_object().unwrap().contains_key("error"));
        for link in ["artifact_url", "result"] {
            let zip = scene.get(status[link].as_str().unwrap());
            assert_eq!(zip.send().await.unwrap().status(), StatusCode::OK);
        }
    });
}

#[test]
fn a_task_is_accepted_in_every_encoding() {
    run_test(async |scene| {
        let check = async |media: Option<&str>, body: &str, task: &str| {
            for path in ["/schedule", "/v1/jobs"] {
                let mut request = scene.post(path).body(body.to_owned());
                if let Some(media) = media {
                    request = request.header("content-type", media);
                }
                let answer = request.send().await.unwrap();
                assert!(answer.status().is_success(), "{path} {media:?} {body}");
                let said: Value = answer.json().await.unwrap();
                let id = said.get("id").unwrap_or(&said["job_id"]).as_str().unwrap();
                let job = scene.json(&format!("/v1/jobs/{id}")).await;
                assert_eq!(job["task"], task, "{path} {media:?} {body}");
            }
        };
        check(Some("application/json"), r#"{"task":"a"}"#, "a").await;
        check(
            Some("application/json; charset=utf-8"),
            r#"{"task":"é"}"#,
            "é",
        )
        .await;
        check(Some("text/plain"), "plain words", "plain words").await;
        // As `curl -d` sends it.
        let form = Some("application/x-www-form-urlencoded");
        check(form, "plain words", "plain words").await;
        check(form, r#"{"task":"a"}"#, "a").await;
        check(Some("text/plain"), r#"{"task":"a"}"#, r#"{"task":"a"}"#).await;
        check(None, "words alone", "words alone").await;
        check(None, r#"{"task":"guessed"}"#, "guessed").await;
    });
}

#[test]
fn a_job_view_has_everything_but_the_secret() {
    run_test(async |scene| {
        let request = json!({
            "task": "Do it.",
            "backend": "native",
            "require": "namespaces",
            "limits": {"memory": 268_435_456, "cpus": 0.5},
            "network": ["pypi.org"],
            "budget": {"turns": 3, "cost": 9.5},
            "timeout": 30,
            "webhook": {"url": "http://127.0.0.1:9/", "secret": "hush hush"},
        });
        let answer = scene.post("/v1/jobs").json(&request).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let job: Value = answer.json().await.unwrap();
        let id = job["id"].as_str().unwrap();
        assert_eq!(location, format!("/v1/jobs/{id}"));
        assert_eq!(job["links"]["self"], location);
        for name in [
            "task", "backend", "require", "limits", "network", "budget", "timeout",
        ] {
            assert_eq!(job[name], request[name], "{name}");
        }
        assert_eq!(job["has_webhook"], true);

        let ended = scene.ended(id).await;
        assert_eq!(ended["status"], "complete");
        assert_eq!(ended["state"], "complete");
        assert_eq!(ended["owner"], "local");
        assert_eq!(ended["messages"], 1);
        assert_eq!(ended["attempts"], 1);
        assert_eq!(ended["crashes"], 0);
        assert_eq!(ended["answer"], "Done.");
        assert_eq!(ended["spending"]["requests"], 1);
        assert_eq!(ended["is_abridged"], false);
        assert_eq!(ended["artifact"]["url"], format!("/v1/jobs/{id}/artifacts"));
        let sandbox = scene.json(&location).await["sandbox"].clone();
        assert_eq!(sandbox["backend"], "native");
        assert_eq!(sandbox["strength"], "namespaces");
        assert_eq!(sandbox["reason"], "asked for");
        assert_eq!(sandbox["network"], json!(["pypi.org"]));
        let memory = sandbox["limits"]["memory"].as_str().unwrap();
        assert!(memory.starts_with("256M by "), "{memory}");
        assert!(sandbox["walls"].as_array().unwrap().len() > 3);
        let whole = ended.to_string() + &scene.json("/v1/jobs").await.to_string();
        assert!(!whole.contains("hush"), "{whole}");
    });
}

#[test]
fn lists_are_complete_by_pages_and_filters() {
    run_test(async |scene| {
        scene.models.add("broken", []);
        let mut ids = Vec::new();
        for number in 0..7 {
            let model = if number % 3 == 0 {
                json!("broken")
            } else {
                Value::Null
            };
            let task = format!("task number{number}");
            ids.push(scene.schedule(json!({"task": task, "model": model})).await);
        }
        for id in &ids {
            scene.ended(id).await;
        }
        let check = async |query: &str, expect: Vec<&String>| {
            let mut found = Vec::new();
            let mut cursor = String::new();
            loop {
                let page = scene
                    .json(&format!("/v1/jobs?limit=2{query}{cursor}"))
                    .await;
                let jobs = page["jobs"].as_array().unwrap();
                assert!(jobs.len() <= 2);
                found.extend(
                    jobs.iter()
                        .map(|job| job["id"].as_str().unwrap().to_owned()),
                );
                match page.get("next_cursor") {
                    Some(next) => cursor = format!("&cursor={}", next.as_str().unwrap()),
                    None => break,
                }
            }
            assert_eq!(found.iter().collect::<Vec<_>>(), expect, "{query}");
        };
        let newest = |keep: &dyn Fn(usize) -> bool| {
            let expected = (0..7).rev().filter(|number| keep(*number));
            expected.map(|number| &ids[number]).collect::<Vec<_>>()
        };
        check("", newest(&|_| true)).await;
        check("&status=error", newest(&|number| number % 3 == 0)).await;
        check("&status=complete", newest(&|number| number % 3 != 0)).await;
        check("&status=running", Vec::new()).await;
        check("&q=number4", newest(&|number| number == 4)).await;
        check("&q=task&status=error", newest(&|number| number % 3 == 0)).await;
        check("&q=%22%20OR%20*", Vec::new()).await;
    });
}

#[test]
fn long_words_are_cut_in_lists_alone() {
    run_test(async |scene| {
        let task = "é".repeat(5_000);
        let id = scene.schedule(json!({"task": task})).await;
        let list = scene.json("/v1/jobs").await;
        let listed = list["jobs"][0]["task"].as_str().unwrap();
        assert_eq!(listed.chars().count(), 1_001);
        assert_eq!(list["jobs"][0]["is_abridged"], true);
        assert_eq!(scene.ended(&id).await["task"], task);
    });
}

#[test]
fn a_running_job_is_cancelled_and_an_ended_one_deleted_or_repeated() {
    run_test(async |scene| {
        let gate = scene.models.add_gated("slow", [text("never")]);
        let id = scene
            .schedule(json!({"task": "Wait.", "model": "slow"}))
            .await;
        gate.asked(1).await;
        let path = format!("/v1/jobs/{id}");
        let status = async |method: &str, path: &str| {
            scene.request(method, path).send().await.unwrap().status()
        };
        assert_eq!(status("DELETE", &path).await, StatusCode::CONFLICT);
        assert_eq!(
            status("POST", &format!("{path}/retry")).await,
            StatusCode::CONFLICT
        );
        assert_eq!(
            status("POST", &format!("{path}/cancel")).await,
            StatusCode::ACCEPTED
        );
        let ended = scene.ended(&id).await;
        assert_eq!(ended["failure"]["cause"], "cancelled");
        let short = scene.json(&format!("/status/{id}")).await;
        assert_eq!(short["status"], "error");
        assert_eq!(short["cause"], "cancelled");
        assert_eq!(short["error"], ended["failure"]["message"]);
        assert_eq!(
            status("POST", &format!("{path}/cancel")).await,
            StatusCode::CONFLICT
        );

        let answer = scene.post(&format!("{path}/retry")).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let again: Value = answer.json().await.unwrap();
        let again = again["id"].as_str().unwrap();
        assert_ne!(again, id);
        assert_eq!(location, format!("/v1/jobs/{again}"));
        gate.open(1);
        let ended = scene.ended(again).await;
        assert_eq!(ended["answer"], "never");
        assert_eq!(ended["task"], "Wait.");

        assert_eq!(status("DELETE", &path).await, StatusCode::NO_CONTENT);
        assert_eq!(status("DELETE", &path).await, StatusCode::NOT_FOUND);
        assert_eq!(
            status("GET", &format!("/status/{id}")).await,
            StatusCode::NOT_FOUND
        );
        assert!(!scene.data(&format!("jobs/{id}")).exists());
    });
}

#[test]
fn a_job_receives_messages_and_interrupts() {
    run_test(async |scene| {
        let gate = scene
            .models
            .add_gated("chatty", [text("one"), text("two"), text("three")]);
        let id = scene
            .schedule(json!({"task": "Talk.", "model": "chatty"}))
            .await;
        gate.asked(1).await;
        let say = async |words: &str| {
            let said = scene
                .post(&format!("/v1/jobs/{id}/messages"))
                .json(&json!({"text": words}));
            let answer = said.send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::ACCEPTED);
            answer.json::<Value>().await.unwrap()
        };
        assert_eq!(say("And?").await["messages"], 2);

        // The current turn is stopped; the message sent meanwhile is the next turn.
        let answer = scene
            .post(&format!("/v1/jobs/{id}/interrupt"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::ACCEPTED);
        gate.asked(2).await;
        gate.open(1);
        assert_eq!(scene.ended(&id).await["status"], "complete");
        // The job has ended, and a message requeues it.
        assert_eq!(say("More?").await["messages"], 3);
        gate.open(1);
        let ended = scene.ended(&id).await;
        assert_eq!(ended["messages"], 3);
        assert_eq!(ended["status"], "complete");
    });
}

#[test]
fn jobs_are_found_by_their_texts() {
    run_test(async |scene| {
        scene
            .models
            .add("poet", [text("A nightingale sang in the square.")]);
        let id = scene
            .schedule(json!({"task": "Write.", "model": "poet"}))
            .await;
        let other = scene.schedule(json!({"task": "Count sheep."})).await;
        scene.ended(&id).await;
        scene.ended(&other).await;
        let found = scene.json("/v1/search?q=nightingale").await;
        let found = found["found"].as_array().unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["job"]["id"], *id);
        assert!(
            found[0]["excerpt"]
                .as_str()
                .unwrap()
                .contains("nightingale")
        );
        let none = scene.json("/v1/search?q=unicorn&limit=5").await;
        assert_eq!(none, json!({"found": []}));
    });
}
