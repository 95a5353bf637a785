//! Network access: none by default, otherwise only to allowed hosts, and recorded.

use std::path::PathBuf;
use std::sync::Arc;

use audit::AuditLog;
use sandbox::{ExecCommand, Network};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::audit_log::events;
use crate::world::{TestSandbox, text, within};

/// A web server on the host's loopback that answers every request with the same text.
async fn web_server() -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match client.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\nfrom the host\n";
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    (port, tasks)
}

struct RecordedSandbox {
    world: TestSandbox,
    log: PathBuf,
    _folder: TempDir,
}

async fn start_recorded(network: Network) -> RecordedSandbox {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let audit = Arc::new(AuditLog::open(&log).unwrap());
    let world = TestSandbox::with(|spec| {
        spec.network = network;
        spec.audit = Some(audit);
    })
    .await;
    RecordedSandbox {
        world,
        log,
        _folder: folder,
    }
}

fn allow(rules: &[String]) -> Network {
    Network::Allow(egress::AllowList::parse(rules).unwrap())
}

/// Talks to the proxy as programs do: a request with a full URL.
async fn fetch(world: &TestSandbox, target: &str) -> String {
    let script = r#"
        exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:}
        printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3
        cat <&3"#;
    bash(world, script, target).await
}

/// A tunnel, and a request through it.
async fn tunnel(world: &TestSandbox, target: &str) -> String {
    let script = r#"
        exec 3<>/dev/tcp/127.0.0.1/${https_proxy##*:}
        printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3
        read -r status <&3; echo "$status"
        while read -r line <&3; do [ "$line" = $'\r' ] && break; done
        case $status in *' 200 '*)
            printf 'GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" >&3;;
        esac
        cat <&3"#;
    bash(world, script, target).await
}

async fn bash(world: &TestSandbox, script: &str, argument: &str) -> String {
    let command = ExecCommand::new(["bash", "-c", script, "bash", argument]);
    let captured = world.run(command).await.unwrap();
    assert_eq!(text(&captured.stderr), "");
    text(&captured.stdout)
}

#[test]
fn off_means_no_way_out_at_all() {
    within(async {
        let (port, _server) = web_server().await;
        let RecordedSandbox {
            world,
            log,
            _folder,
        } = start_recorded(Network::Off).await;
        assert_eq!(world.text("env | grep -ci proxy || true").await, "0\n");
        let try_each = format!(
            "for target in 127.0.0.1/{port} 127.0.0.1/3128 192.0.2.1/80 8.8.8.8/53 ::1/{port}; do \
             (exec 3<>/dev/tcp/$target) 2>/dev/null && echo reached $target; done; \
             cat /proc/net/route | wc -l; ls /sys/class/net 2>/dev/null; \
             cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '"
        );
        let captured = world
            .run(ExecCommand::new(["bash", "-c", &try_each]))
            .await
            .unwrap();
        // The interfaces may be listed in one or two places: only the loopback exists.
        let seen = text(&captured.stdout);
        assert!(["1\nlo\n", "1\nlo\nlo\n"].contains(&&*seen), "{seen}");
        // Names do not resolve either.
        assert!(!world.sh("getent hosts example.com").await.verdict.success());
        world.end().await;
        assert!(events(&log, "connection").is_empty());
    });
}

#[test]
fn what_is_allowed_is_reached_and_what_is_not_is_told_why() {
    within(async {
        let (port, _server) = web_server().await;
        let (other_port, _other) = web_server().await;
        let rules = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        let RecordedSandbox {
            world,
            log,
            _folder,
        } = start_recorded(allow(&rules)).await;
        for host in ["127.0.0.1", "localhost"] {
            let target = format!("{host}:{port}");
            let answer = fetch(&world, &target).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nfrom the host\n"), "{answer}");
            let answer = tunnel(&world, &target).await;
            assert!(
                answer.starts_with("HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\n"),
                "{answer}"
            );
            assert!(answer.ends_with("\r\n\r\nfrom the host\n"), "{answer}");
        }
        let denied = [
            format!("127.0.0.1:{other_port}"),
            format!("127.0.0.2:{port}"),
            "169.254.169.254".into(),
            "example.com".into(),
        ];
        for target in &denied {
            let with_port = if target.contains(':') {
                target.clone()
            } else {
                format!("{target}:80")
            };
            let reason = format!("denied: no rule allows `{with_port}`");
            let answer = fetch(&world, target).await;
            assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
            assert!(answer.contains(&reason), "{answer}");
            let answer = tunnel(&world, &with_port).await;
            assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
            assert!(answer.contains(&reason), "{answer}");
        }
        // The host's ports are only reachable through the proxy.
        let direct =
            format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached; true");
        let captured = world
            .run(ExecCommand::new(["bash", "-c", &direct]))
            .await
            .unwrap();
        assert_eq!(text(&captured.stdout), "");
        world.end().await;

        let lines = events(&log, "connection");
        let verdicts = |verdict: &str| {
            let is_it = |line: &&serde_json::Value| line["verdict"] == verdict;
            lines.iter().filter(is_it).count()
        };
        assert_eq!(
            (verdicts("allowed"), verdicts("denied")),
            (4, 8),
            "{lines:#?}"
        );
        let allowed = &lines[0];
        assert_eq!(allowed["host"], "127.0.0.1");
        assert_eq!(allowed["port"], port);
        assert_eq!(allowed["because"], format!("127.0.0.1:{port}"));
        assert_eq!(allowed["address"], format!("127.0.0.1:{port}"));
        let denied = lines.last().unwrap();
        assert_eq!(denied["host"], "example.com");
        assert_eq!(denied["because"], "no rule allows `example.com:80`");
    });
}

#[test]
fn programs_find_the_proxy_by_the_usual_variables() {
    within(async {
        let (port, _server) = web_server().await;
        let rules = [format!("localhost:{port}")];
        let RecordedSandbox {
            world,
            log,
            _folder,
        } = start_recorded(allow(&rules)).await;
        let variables = world
            .text("env | grep -i proxy | cut -d= -f1 | sort | tr '\\n' ' '")
            .await;
        let expect =
            "ALL_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY all_proxy http_proxy https_proxy no_proxy ";
        let mut names: Vec<&str> = variables.split_whitespace().collect();
        names.sort_unstable();
        assert_eq!(names.join(" ") + " ", expect);
        // A name that resolves to a private address is refused, unless a rule names it.
        let answer = fetch(&world, &format!("127.0.0.1:{port}")).await;
        assert!(answer.contains("403 Forbidden"), "{answer}");
        // Invalid requests are answered, recorded and harmless.
        let script = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'nonsense\\r\\n\\r\\n' >&3; cat <&3";
        let answer = bash(&world, script, "").await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        let answer = fetch(&world, &format!("localhost:{port}")).await;
        assert!(answer.contains("from the host"), "{answer}");
        world.end().await;
        assert_eq!(events(&log, "connection").len(), 3);
    });
}
