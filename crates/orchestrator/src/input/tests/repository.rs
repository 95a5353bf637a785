//! Cloning repositories inside a sandbox, from a server on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::git::{self, GitSource};
use super::*;
use crate::own_network;

#[test]
fn only_public_repositories_over_https_may_be_cloned() {
    let check = |url: &str, branch: Option<&str>, expect: Result<&str, &str>| {
        let source = GitSource::check(url, branch).map(|source| source.rule);
        let source = source.map_err(|error| error.to_string());
        let expect = expect.map(str::to_owned);
        let expect = expect.map_err(|why| format!("cannot clone the repository: {why}"));
        assert_eq!(source, expect, "{url} {branch:?}");
    };
    let main = Some("main");
    check("https://example.com/a.git", None, Ok("example.com:443"));
    check("https://example.com:8443/a", main, Ok("example.com:8443"));
    check("https://8.8.8.8/a", Some("release/1.0"), Ok("8.8.8.8:443"));
    let https = Err("its address must begin with `https://`");
    for url in [
        "http://example.com/a",
        "ssh://git@example.com/a",
        "file:///etc",
        "ext::sh -c evil",
    ] {
        check(url, None, https);
    }
    check("git@example.com:a/b", None, Err("its address is no URL"));
    check("/srv/a.git", None, Err("its address is no URL"));
    check("--upload-pack=evil", None, Err("its address is no URL"));
    let secret = Err("its address must not have a name or password in it");
    check("https://me:token@example.com/a", None, secret);
    check("https://me@example.com/a", None, secret);
    let private = Err("its host is not public");
    for host in [
        "localhost",
        "a.localhost",
        "127.0.0.1",
        "0x7f.1",
        "[::1]",
        "10.0.0.1",
        "169.254.169.254",
    ] {
        check(&format!("https://{host}/a"), None, private);
    }
    for branch in ["", "-c", "--upload-pack=evil", "a b", "a\nb", "a:b"] {
        check(
            "https://example.com/a",
            Some(branch),
            Err("its branch is no name of one"),
        );
    }
}

#[test]
fn the_servers_own_public_address_cannot_be_cloned_from() {
    if !own_network::enter_or_rerun(
        "input::tests::repository::the_servers_own_public_address_cannot_be_cloned_from",
    ) {
        return;
    }
    for host in own_network::SPELLINGS {
        let refused = GitSource::check(&format!("https://{host}/a"), None).unwrap_err();
        let expect = "cannot clone the repository: its host is not public";
        assert_eq!(refused.to_string(), expect, "{host}");
    }
    assert!(GitSource::check("https://203.0.114.9/a", None).is_ok());
}

/// Serves the bare repositories of a folder over HTTP, with `git http-backend`.
struct Server {
    port: u16,
    has_ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    fn start(root: PathBuf) -> Self {
        // Not the loopback address that programs inside the sandbox use.
        let listener = TcpListener::bind("127.0.0.2:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                handle_request(stream.unwrap(), &root);
            }
        });
        Self {
            port,
            has_ended,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.2", self.port));
        let _ = self.thread.take().unwrap().join();
    }
}

/// Handles one request through CGI.
fn handle_request(stream: TcpStream, root: &Path) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap() == 0 {
        return;
    }
    let (method, target) = {
        let mut words = line.split_whitespace();
        (
            words.next().unwrap().to_owned(),
            words.next().unwrap().to_owned(),
        )
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new("git");
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim().split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => drop(backend.env("CONTENT_TYPE", value)),
            "content-encoding" => drop(backend.env("HTTP_CONTENT_ENCODING", value)),
            "git-protocol" => drop(backend.env("GIT_PROTOCOL", value)),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    backend
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_LENGTH", length.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = backend.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&body).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    let end = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8_lossy(&output[..end]).into_owned();
    let status = head.lines().find_map(|line| line.strip_prefix("Status: "));
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {}\r\n{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        status.unwrap_or("200 OK"),
        output.len() - end - 4
    )
    .unwrap();
    stream.write_all(&output[end + 4..]).unwrap();
}

/// A bare repository with two commits, a branch, and a hook that must have no effect.
fn make_repository(root: &Path) {
    let script = r#"
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@a
git init -q -b main work && cd work
echo one > file && git add . && git commit -qm one
echo two > file && mkdir sub && echo x > sub/x && git add . && git commit -qm two
git checkout -qb other && echo other > file && git commit -qam other && git checkout -q main
cd .. && git clone -q --bare work repo.git"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(root);
    assert!(
        shell
            .env("HOME", root)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap()
            .success()
    );
}

async fn clone(
    scene: &InputScene,
    server: &Server,
    name: &str,
    branch: Option<&str>,
) -> Result<PathBuf, String> {
    let source = GitSource {
        url: format!("http://127.0.0.2:{}/{name}", server.port),
        branch: branch.map(str::to_owned),
        rule: format!("127.0.0.2:{}", server.port),
    };
    let into = scene
        .data
        .path()
        .join(format!("into-{}", fastrand::u32(..)));
    fs::create_dir(&into).unwrap();
    let cloned = git::clone(&source, &into, &scene.spec).await;
    cloned.map_err(|error| error.to_string())?;
    Ok(into)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_is_cloned_inside_a_sandbox() {
    let scene = InputScene::new(None);
    let root = tempfile::tempdir().unwrap();
    make_repository(root.path());
    let server = Server::start(root.path().to_path_buf());
    let main = clone(&scene, &server, "repo.git", None).await.unwrap();
    assert_eq!(fs::read_to_string(main.join("file")).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(main.join("sub/x")).unwrap(), "x\n");
    assert!(main.join(".git/HEAD").is_file());
    assert!(main.join(".git/shallow").is_file());
    let other = clone(&scene, &server, "repo.git", Some("other"))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(other.join("file")).unwrap(), "other\n");
    for (name, branch, expect) in [
        ("absent.git", None, "not found"),
        (
            "repo.git",
            Some("no-such"),
            "Remote branch no-such not found in upstream origin",
        ),
    ] {
        let error = clone(&scene, &server, name, branch).await.unwrap_err();
        assert!(
            error.starts_with("cannot clone the repository: "),
            "{error}"
        );
        assert!(error.contains(expect) && !error.contains('\n'), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_cloning_nothing_else_can_be_reached() {
    let scene = InputScene::new(None);
    let root = tempfile::tempdir().unwrap();
    make_repository(root.path());
    let server = Server::start(root.path().to_path_buf());
    let source = GitSource {
        url: format!("http://127.0.0.2:{}/repo.git", server.port),
        branch: None,
        rule: "example.com:443".to_owned(),
    };
    let into = scene.data.path().join("into");
    fs::create_dir(&into).unwrap();
    let error = git::clone(&source, &into, &scene.spec).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot clone the repository: fatal: "),
        "{error}"
    );
    assert_eq!(fs::read_dir(&into).unwrap().count(), 0);
}
