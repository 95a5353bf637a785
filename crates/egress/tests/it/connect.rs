//! CONNECT: allowed and refused targets, and the relay of bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use egress::{ResolveFuture, Resolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::{ProxyFixture, header, read_head, server, start_echo_server};

#[tokio::test]
async fn an_allowed_target_is_reached_and_bytes_flow_both_ways() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    for target in [
        format!("a.test:{port}"),
        format!("A.Test.:{port}"),
        format!("127.1:{port}"),
    ] {
        let mut client = world.client();
        client.tunnel(&target).await;
        for message in ["\u{1}one", "two", "three"] {
            client.send(message).await;
            let mut back = vec![0; message.len()];
            client.stream.read_exact(&mut back).await.unwrap();
            assert_eq!(back, message.as_bytes());
        }
        client.finish().await;
    }
    let by_name = format!("a.test:{port} allowed by a.test:{port}");
    let by_address = format!("127.0.0.1:{port} allowed by 127.0.0.1:{port}");
    assert_eq!(world.told(), [by_name.clone(), by_name, by_address]);
}

#[tokio::test]
async fn bytes_sent_along_with_the_request_are_not_lost() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client
        .send(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n\u{1}early"))
        .await;
    let answer = String::from_utf8(client.finish().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n\u{1}early"), "{answer}");
}

#[tokio::test]
async fn a_host_that_no_rule_names_is_denied_and_not_even_resolved() {
    let world = ProxyFixture::new(["allowed.test", "*.sub.test"]);
    let mut client = world.client();
    // The connection stays usable after a denial.
    for (target, hint) in [
        ("evil.test:443", "evil.test"),
        ("allowed.test:22", "allowed.test:22"),
        ("sub.test:443", "sub.test"),
        ("[2606:4700::1]:80", "[2606:4700::1]"),
        ("8.8.8.8:53", "8.8.8.8:53"),
    ] {
        let response = client
            .ask(format!("CONNECT {target} HTTP/1.1\r\n\r\n"))
            .await;
        assert_eq!(response.status, 403);
        let reason = format!("no rule allows `{target}`");
        assert_eq!(
            response.body,
            format!("hotcell: denied: {reason}\nhint: --allow-net {hint}\n")
        );
        assert_eq!(
            header(&response.head, "x-hotcell-denied"),
            Some(reason.as_str())
        );
        assert_eq!(
            header(&response.head, "content-type"),
            Some("text/plain; charset=utf-8")
        );
        assert_eq!(
            world.told().last().unwrap(),
            &format!("{target} denied: {reason}")
        );
    }
    assert_eq!(world.told().len(), 5);
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn no_spelling_of_the_metadata_address_passes() {
    let world = ProxyFixture::new(["*.test", "a.test"]);
    for spelling in [
        "169.254.169.254",
        "169.254.169.254.",
        "2852039166",
        "0xA9FEA9FE",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.16689662",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
    ] {
        let mut client = world.client();
        let response = client
            .ask(format!("CONNECT {spelling}:80 HTTP/1.1\r\n\r\n"))
            .await;
        assert_eq!(response.status, 403, "{spelling}");
        let expect = "169.254.169.254:80 denied: no rule allows `169.254.169.254:80`";
        assert_eq!(world.told().last().unwrap(), expect, "{spelling}");
    }
    // The same address behind a name.
    for answer in [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "fd00:ec2::254",
        "::a9fe:a9fe",
        "0.0.0.0",
        "::",
        "::1",
        "127.0.0.1",
        "10.1.2.3",
        "fe80::1",
    ] {
        world.resolve("a.test", &[&[answer]]);
        let mut client = world.client();
        let response = client.ask("CONNECT a.test:80 HTTP/1.1\r\n\r\n").await;
        assert_eq!(response.status, 403, "{answer}");
        let told = world.told().pop().unwrap();
        assert!(
            told.starts_with("a.test:80 denied: `a.test` resolves to the "),
            "{told}"
        );
        assert!(told.ends_with(&format!(" address {answer}")), "{told}");
    }
}

#[tokio::test]
async fn hosts_that_are_none_are_bad_requests() {
    let world = ProxyFixture::new(["a.test:80"]);
    for target in [
        "a.test",
        "a.test:",
        "a.test:0",
        "a.test:99999",
        "user@a.test:80",
        "a%2etest:80",
        "a\0.test:80",
        "a.test:80\0",
        "a.test\u{b}:80",
        "http://a.test:80/",
        "/a.test:80",
        "[::1:80",
        "[fe80::1%25lo]:80",
        "1.2.3.4.5:80",
        "a..test:80",
        "*.test:80",
    ] {
        let mut client = world.client();
        let response = client
            .ask(format!("CONNECT {target} HTTP/1.1\r\n\r\n"))
            .await;
        assert_eq!(response.status, 400, "{target:?}");
        client.finish().await;
        let told = world.told();
        assert_eq!(told.len(), 1, "{target:?} {told:?}");
        assert!(told[0].contains(" denied: bad "), "{told:?}");
        assert!(told[0].chars().all(|c| !c.is_control()), "{told:?}");
        world.forget();
    }
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn a_header_cannot_be_smuggled_into_the_host() {
    let world = ProxyFixture::new(["a.test:80"]);
    let mut client = world.client();
    let response = client
        .ask("CONNECT a.test\r\nX: y:80 HTTP/1.1\r\n\r\n")
        .await;
    assert_eq!(response.status, 400);
    client.finish().await;
    assert_eq!(world.told().len(), 1);
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn the_host_header_of_a_connect_is_its_target() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    let request = format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_eq!(client.ask(request).await.status, 403);
    assert_eq!(world.told().len(), 1);
    // Clients may leave the port out, or the header.
    client
        .send(format!(
            "CONNECT a.test:{port} HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ))
        .await;
    assert_eq!(client.response().await.status, 200);
}

#[tokio::test]
async fn an_attempt_that_is_given_up_is_told_too() {
    // During a lookup that never ends.
    let world = ProxyFixture::changed(["a.test"], |egress| egress.with_resolver(NeverResolver));
    let (mut client, other) = tokio::io::duplex(1 << 10);
    let mut served = Box::pin(egress::serve(other, Arc::clone(&world.egress)));
    client
        .write_all(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    assert!(poll_once(&mut served).await.is_none());
    assert_eq!(world.told(), [""; 0]);
    drop(served);
    let expect = "a.test:443 denied: the attempt to reach `a.test:443` was abandoned";
    assert_eq!(world.told(), [expect]);

    // In an open tunnel, before its first byte.
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let (mut client, other) = tokio::io::duplex(1 << 10);
    let served = tokio::spawn(egress::serve(other, Arc::clone(&world.egress)));
    let request = format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut client).await;
    served.abort();
    assert!(served.await.unwrap_err().is_cancelled());
    assert_eq!(
        world.told(),
        [format!("a.test:{port} allowed by a.test:{port}")]
    );
}

struct NeverResolver;

impl Resolver for NeverResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(std::future::pending())
    }
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_name_is_resolved_once() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    // The second answer would be refused, so a second lookup would fail the test.
    world.resolve("a.test", &[&["127.0.0.1"], &["169.254.169.254"]]);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    client.send("\u{1}ping").await;
    let rest = client.finish().await;
    assert_eq!(rest, b"\x01ping");
    assert_eq!(world.asked(), ["a.test"]);

    let mut client = world.client();
    let response = client
        .ask(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n"))
        .await;
    assert_eq!(response.status, 403);
    assert_eq!(world.asked(), ["a.test", "a.test"]);
}

#[tokio::test]
async fn answers_that_are_not_permitted_are_dropped() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    world.resolve(
        "a.test",
        &[&["10.0.0.1", "169.254.169.254", "127.0.0.2", "127.0.0.1"]],
    );
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    client.finish().await;
    assert_eq!(world.addresses(), [Some(format!("127.0.0.1:{port}"))]);
}

#[tokio::test]
async fn localhost_is_the_loopback_only_by_its_own_rule() {
    let port = start_echo_server().await;
    let world = ProxyFixture::new([format!("localhost:{port}"), format!("a.test:{port}")]);
    world.resolve("localhost", &[&["10.0.0.1", "127.0.0.1"]]);
    world.resolve("a.test", &[&["127.0.0.1"]]);
    let mut client = world.client();
    client.tunnel(&format!("localhost:{port}")).await;
    client.finish().await;

    let mut client = world.client();
    let response = client
        .ask(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n"))
        .await;
    let reason = "`a.test` resolves to the loopback address 127.0.0.1";
    assert_eq!(
        response.body,
        format!("hotcell: denied: {reason}\nhint: --allow-net 127.0.0.1:{port}\n")
    );
    let response = client
        .ask(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n"))
        .await;
    assert_eq!(response.status, 403);
}

#[tokio::test]
async fn failures_are_not_denials() {
    let port = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    let response = client
        .ask(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n"))
        .await;
    assert_eq!(response.status, 502);
    assert!(
        response
            .body
            .starts_with(&format!("hotcell: cannot connect to `a.test:{port}`: "))
    );
    assert_eq!(header(&response.head, "x-hotcell-denied"), None);

    let world = ProxyFixture::new(["gone.test", "empty.test"]);
    world.resolve("empty.test", &[&[]]);
    let mut client = world.client();
    let response = client.ask("CONNECT gone.test:443 HTTP/1.1\r\n\r\n").await;
    assert_eq!(response.status, 502);
    assert_eq!(
        response.body,
        "hotcell: cannot resolve `gone.test`: no such name\n"
    );
    let response = client.ask("CONNECT empty.test:443 HTTP/1.1\r\n\r\n").await;
    assert_eq!(
        response.body,
        "hotcell: cannot resolve `empty.test`: the name has no address\n"
    );
    assert_eq!(world.told().len(), 2);
}

#[tokio::test]
async fn the_number_of_open_connections_is_bounded() {
    let port = start_echo_server().await;
    let rules = [format!("127.0.0.1:{port}")];
    let world = ProxyFixture::changed(&rules, |egress| egress.with_max_connections(1));
    let target = format!("127.0.0.1:{port}");
    let mut first = world.client();
    first.tunnel(&target).await;
    let mut second = world.client();
    let response = second
        .ask(format!("CONNECT {target} HTTP/1.1\r\n\r\n"))
        .await;
    assert_eq!(response.status, 503);
    first.finish().await;
    second.tunnel(&target).await;
}

#[tokio::test]
async fn a_large_transfer_passes_without_being_kept() {
    const TOTAL: u64 = 64 << 20;
    // More than the kernel buffers for a loopback connection.
    const AHEAD: u64 = 24 << 20;
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&sent);
    let port = server(move |mut stream| {
        let sent = Arc::clone(&counter);
        async move {
            let block = vec![7; 64 << 10];
            while sent.load(Ordering::SeqCst) < TOTAL {
                stream.write_all(&block).await.unwrap();
                sent.fetch_add(block.len() as u64, Ordering::SeqCst);
            }
        }
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    let mut block = vec![0; 64 << 10];
    let mut received = 0;
    loop {
        let count = client.stream.read(&mut block).await.unwrap();
        if count == 0 {
            break;
        }
        assert!(block[..count].iter().all(|&byte| byte == 7));
        received += count as u64;
        assert!(sent.load(Ordering::SeqCst) < received + AHEAD);
    }
    assert_eq!(received, TOTAL);
    client.finish().await;
}

#[tokio::test]
async fn a_large_upload_passes() {
    const BLOCKS: usize = 256;
    let port = server(|mut stream| async move {
        let count = tokio::io::copy(&mut stream, &mut tokio::io::sink())
            .await
            .unwrap();
        stream
            .write_all(count.to_string().as_bytes())
            .await
            .unwrap();
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    let block = vec![0; 64 << 10];
    for _ in 0..BLOCKS {
        client.send(&block).await;
    }
    // The client shuts down its side first, and still gets the answer.
    assert_eq!(
        client.finish().await,
        (BLOCKS * block.len()).to_string().as_bytes()
    );
}

#[tokio::test]
async fn a_server_may_speak_first_and_end_first() {
    let (heard, mut hears) = tokio::sync::mpsc::channel(1);
    let port = server(move |mut stream| {
        let heard = heard.clone();
        async move {
            stream.write_all(b"SSH-2.0-server\r\n").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await.unwrap();
            heard.send(text).await.unwrap();
        }
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    let mut banner = Vec::new();
    client.stream.read_to_end(&mut banner).await.unwrap();
    assert_eq!(banner, b"SSH-2.0-server\r\n");
    // The server has ended its side; the client has not.
    client.send("SSH-2.0-client here\r\nmore").await;
    client.finish().await;
    assert_eq!(hears.recv().await.unwrap(), b"SSH-2.0-client here\r\nmore");
    assert_eq!(
        world.told(),
        [format!("a.test:{port} allowed by a.test:{port}")]
    );
}

#[tokio::test]
async fn a_tunnel_without_a_byte_is_told_too() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    assert_eq!(world.told(), [""; 0]);
    client.finish().await;
    assert_eq!(
        world.told(),
        [format!("a.test:{port} allowed by a.test:{port}")]
    );
}
