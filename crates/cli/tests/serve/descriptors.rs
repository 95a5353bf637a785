//! Silent connections do not affect jobs or clients with a key.

use std::net::SocketAddr;

use serde_json::Value;
use testkit::ScriptedAnswer;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::model::{RequestView, bash, say, serve};
use crate::play::play;
use crate::server::Site;

/// The server's limit of open files, and the number of connections that try to use them up.
const OPEN_FILES: u32 = 420;
const SILENT_CONNECTIONS: usize = 500;

fn address(client: &crate::client::Client) -> SocketAddr {
    client.address().parse().unwrap()
}

#[test]
fn silent_connections_keep_nobody_out_and_fail_no_job() {
    play(async {
        let model = serve(move |request| match RequestView::of(request).results {
            0 => ScriptedAnswer::reply(bash("ulimit -Sn > limits.txt; ulimit -Hn >> limits.txt")),
            _ => ScriptedAnswer::reply(say("Done.")),
        });
        let site = Site::new(&model)
            .flags(["--concurrency", "4", "--open-files", "99"])
            .open_files(OPEN_FILES);
        let server = site.start().await;
        let client = server.client();
        let address = address(client);
        let mut silent = Vec::new();
        let mut ids = Vec::new();
        for number in 0..SILENT_CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
            if number % 100 == 99 {
                ids.push(client.schedule_task("Do it").await);
            }
        }
        // The longest silent ones were closed.
        let mut byte = [0];
        assert_eq!(silent[0].read(&mut byte).await.unwrap_or(0), 0);
        for id in &ids {
            client.complete(id).await;
            // The limit of the sandbox, independent of the server's.
            assert_eq!(client.files(id).await["limits.txt"], "99\n99\n");
        }
        let ready = client.get("/readyz").send().await.unwrap();
        assert_eq!(ready.text().await.unwrap(), "ok");
        let failed: Vec<Value> = client.jobs("&status=error").await;
        assert!(failed.is_empty(), "{failed:?}");
        let metrics = client.get("/metrics").send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        let dropped = "hotcell_connections_dropped_total ";
        let dropped = metrics.lines().find_map(|line| line.strip_prefix(dropped));
        assert!(dropped.unwrap().parse::<u64>().unwrap() > 400, "{metrics}");
        // A connection that never sends anything is closed soon, even if there is room.
        for mut one in silent {
            assert_eq!(one.read(&mut byte).await.unwrap_or(0), 0);
        }
        assert!(server.end().await.success());
    });
}
