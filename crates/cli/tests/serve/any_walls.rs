//! A server on the backend under test: two jobs at once, each in its own sandbox, and nothing is left of
//! them. The same for every backend.

use std::fs;
use std::os::unix::fs::MetadataExt;

use testkit::ModelServer;

use crate::model::{bash, serve_steps, write};
use crate::play::{eventually, play};
use crate::processes::no_orphans;
use crate::server::Site;
use crate::walls_under_test::{backend, flags, variables};

/// A server whose jobs use the backend under test.
fn site(model: &ModelServer) -> Site {
    let flags = flags();
    let site = Site::new(model).flags(flags.iter().map(String::as_str));
    let variables = variables().into_iter();
    variables.fold(site, |site, (name, value)| site.variable(name, value))
}

#[test]
fn jobs_are_done_behind_them() {
    play(async {
        let model = serve_steps([
            write("greet.sh", "echo hello from $(uname -n)\n"),
            bash("sh greet.sh | tee out.txt; ls /workspace > names.txt"),
        ]);
        let site = site(&model);
        let server = site.start().await;
        let client = server.client();
        let one = client.schedule_task("Greet").await;
        let other = client.schedule_task("Greet too").await;
        for id in [one, other] {
            client.complete(&id).await;
            let files = client.files(&id).await;
            assert_eq!(files["out.txt"], "hello from hotcell\n");
            assert_eq!(files["names.txt"], "greet.sh\nnames.txt\nout.txt\n");
        }
        assert!(server.end().await.success());
        no_orphans().await;
    });
}

/// A job takes over a prestarted machine with its folder.
#[test]
fn a_job_takes_a_machine_that_waits_where_there_are_any() {
    play(async {
        let model = serve_steps([bash("echo hello > out.txt")]);
        let site = site(&model);
        let server = site.start().await;
        let client = server.client();
        let has_machines = backend() == "microvm";
        let waiting = async || {
            let answer = client.get("/metrics").send().await.unwrap();
            let text = answer.text().await.unwrap();
            let mut lines = text.lines();
            let number = lines.find_map(|line| line.strip_prefix("hotcell_machines_waiting "));
            number.unwrap().parse::<f64>().unwrap() as u32
        };
        let expect = u32::from(has_machines);
        eventually("a machine waits", async || waiting().await == expect).await;
        let folders = fs::read_dir(server.data().join("machines"));
        let folders: Vec<u64> = folders
            .into_iter()
            .flatten()
            .flatten()
            .map(|folder| folder.metadata().unwrap().ino())
            .collect();
        assert_eq!(folders.len(), usize::from(has_machines));
        let id = client.schedule_task("Greet").await;
        client.complete(&id).await;
        assert_eq!(client.files(&id).await["out.txt"], "hello\n");
        let workspace = server.data().join("jobs").join(&id).join("workspace");
        let workspace = fs::metadata(workspace).unwrap().ino();
        assert_eq!(folders.contains(&workspace), has_machines);
        // Another one replaces it.
        eventually("a machine waits", async || waiting().await == expect).await;
        let data = site.data();
        assert!(server.end().await.success());
        let left = fs::read_dir(data.join("machines")).into_iter().flatten();
        assert_eq!(left.count(), 0);
        no_orphans().await;
    });
}
