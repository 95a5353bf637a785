//! Access to a server: from this machine only, or with a key.

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::json;
use testkit::{ModelServer, Replies, ScriptedAnswer};

use crate::client::problem;
use crate::model::{say, serve};
use crate::play::play;
use crate::server::Site;

fn no_model() -> ModelServer {
    ModelServer::start(Replies::list::<ScriptedAnswer>([]))
}

/// Creates a key with the program and returns its token.
pub(crate) async fn key(site: &Site, user: &str, role: &str) -> String {
    let flags = ["keys", "create", "--user", user, "--role", role];
    let output = site.hotcell(flags).output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim_end().to_owned()
}

#[track_caller]
fn check_refused(output: &Output, expect: &str) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said, expect);
}

#[test]
fn beyond_this_machine_only_with_a_key() {
    play(async {
        let model = serve(|_| say("Done."));
        let site = Site::new(&model);
        let refused = |address: &str| {
            format!(
                "hotcell: `{address}` can be reached from elsewhere, and there is no key\n\
                 hint: create a key with `hotcell keys create --user NAME --role admin`\n"
            )
        };
        for address in ["0.0.0.0:0", "[::]:0"] {
            let output = site.refused(&["--listen", address]).await;
            check_refused(&output, &refused(address));
        }

        let token = key(&site, "ada", "admin").await;
        let server = site.start_with(&["--listen", "0.0.0.0:0"]).await;
        let client = server.client().at("127.0.0.1");
        let keyed = client.with_key(&token);
        for (client, path, status) in [
            (&client, "/v1/jobs", 401),
            (&client.with_key("hc_wrong"), "/v1/jobs", 401),
            (&keyed, "/v1/jobs", 200),
            // Its health is no secret.
            (&client, "/healthz", 200),
        ] {
            let answer = client.get(path).send().await.unwrap();
            assert_eq!(answer.status(), status, "{path}");
        }
        let answer = client
            .post("/schedule")
            .json(&json!({ "task": "a" }))
            .send()
            .await
            .unwrap();
        problem(answer, 401).await;
        let id = keyed.schedule_task("Do it").await;
        assert_eq!(keyed.complete(&id).await["owner"], "ada");
        server.end().await;

        // A revoked key opens nothing, and does not allow the server to start.
        let listed = site.hotcell(["keys", "list", "--json"]).output().await;
        let listed: serde_json::Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
        let revoke = ["keys", "revoke", listed["id"].as_str().unwrap()];
        let revoked = site.hotcell(revoke).output().await.unwrap();
        assert!(revoked.status.success(), "{revoked:?}");
        let output = site.refused(&["--listen", "0.0.0.0:0"]).await;
        check_refused(&output, &refused("0.0.0.0:0"));
    });
}

#[test]
fn a_server_that_starts_alone_makes_its_first_key_itself() {
    play(async {
        let model = no_model();
        let site = Site::new(&model);
        let file = site.here("first-key");
        let flags = ["--listen", "0.0.0.0:0", "--first-key"];
        let flags = flags.into_iter().chain(file.to_str());
        let flags: Vec<&str> = flags.collect();
        let server = site.start_with(&flags).await;
        let token = std::fs::read_to_string(&file).unwrap();
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let client = server.client().at("127.0.0.1");
        let listed = client.with_key(token.trim_end()).get("/v1/jobs").send();
        assert_eq!(listed.await.unwrap().status(), 200);
        server.end().await;

        // There is a key now, so the file is unchanged, and no other file is needed.
        let server = site.start_with(&flags).await;
        assert_eq!(std::fs::read_to_string(&file).unwrap(), token);
        server.end().await;
    });
}

#[test]
fn a_first_key_that_cannot_be_written_is_not_made() {
    play(async {
        let model = no_model();
        let site = Site::new(&model);
        let file = site.here("no such folder/first-key");
        let file = file.to_str().unwrap();
        let output = site.refused(&["--first-key", file]).await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(
            said,
            format!(
                "hotcell: cannot write the first key to `{file}`: No such file or directory (os error 2)\n\
                 hint: name another file with `--first-key FILE`\n"
            )
        );
        let listed = site.hotcell(["keys", "list", "--json"]).output().await;
        assert_eq!(listed.unwrap().stdout, b"");
    });
}

#[test]
fn an_address_that_is_taken_or_not_ours_is_named() {
    play(async {
        let model = no_model();
        let site = Site::new(&model);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let output = site.refused(&["--listen", &address]).await;
        check_refused(
            &output,
            &format!(
                "hotcell: cannot listen on `{address}`: Address already in use (os error 98)\n\
                 hint: choose another address with `--listen HOST:PORT`\n"
            ),
        );
    });
}
