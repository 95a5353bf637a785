//! Plain HTTP inside a tunnel, and protocols other than HTTP and TLS.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{
    ProxyFixture, header, read_head, server, start_echo_server, start_recording_server, text,
};

#[tokio::test]
async fn requests_for_the_target_pass() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    // The port may be left out: the tunnel already has one.
    for (number, host) in [
        "a.test".into(),
        format!("a.test:{port}"),
        format!("A.test.:{port}"),
    ]
    .into_iter()
    .enumerate()
    {
        let response = client
            .ask(format!("GET /{number} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
            .await;
        assert_eq!(
            (response.status, response.body),
            (200, (number + 1).to_string())
        );
    }
    let absolute = format!("GET http://a.test:{port}/abs HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    assert_eq!(client.ask(absolute).await.status, 200);
    client.finish().await;
    assert!(text(&seen).contains("GET /abs HTTP/1.1\r\n"));
    // One tunnel is one attempt.
    assert_eq!(
        world.told(),
        [format!("a.test:{port} allowed by a.test:{port}")]
    );
}

#[tokio::test]
async fn a_request_for_another_host_is_refused_even_as_the_second() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("a.test:{port}");
    let good = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let denied = |host: &str| {
        format!("{target} denied: Host header `{host}` differs from the target `{target}`")
    };
    for (evil, status, expect) in [
        (
            "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n".into(),
            403,
            denied("evil.test"),
        ),
        (
            "GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            403,
            denied("evil.test"),
        ),
        (
            "CONNECT evil.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n".into(),
            403,
            denied("evil.test:443"),
        ),
        (
            format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
            400,
            format!("{target} denied: bad request: CONNECT inside a tunnel"),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.test\r\n\r\n".into(),
            400,
            format!("{target} denied: bad request: there is more than one Host header"),
        ),
        (
            "GET /evil HTTP/1.1\r\n\r\n".into(),
            400,
            format!("{target} denied: bad request: the Host header is missing"),
        ),
    ] {
        for goods in [0, 1, 2] {
            world.forget();
            let mut client = world.client();
            client.tunnel(&target).await;
            // In one write, followed by a request that must not be served.
            client.send(good.repeat(goods) + &evil + good).await;
            for _ in 0..goods {
                assert_eq!(client.response().await.status, 200);
            }
            let refused = client.response().await;
            assert_eq!(refused.status, status, "{evil}");
            assert_eq!(header(&refused.head, "connection"), Some("close"));
            assert_eq!(client.rest().await, b"", "{evil}");
            let mut told = world.told();
            assert_eq!(told.pop().as_ref(), Some(&expect));
            assert_eq!(told.len(), goods.min(1), "{told:?}");
        }
    }
    assert!(!text(&seen).contains("evil"));
}

#[tokio::test]
async fn http_cannot_dress_up_as_something_else() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("a.test:{port}");
    for bytes in [
        "\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "get / http/1.1\r\nHost: evil.test\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET / HTTP/1.1\nHost: evil.test\n\n",
        "GET / HTTP/1.1\r\nHost: a.test\0\r\nHost: evil.test\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil.test",
        "\x0cGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET\x0b/\x0cHTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET\r/\rHTTP/1.1\r\nHost: evil.test\r\n\r\n",
        // HTTP/0.9 has no Host, but its target can name one.
        "GET http://evil.test/\r\n",
        "GET / X/1.0\r\nHost: evil.test\r\n\r\n",
        &format!("{} / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "A".repeat(65)),
        &format!(
            "{} / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            "a".repeat(20 << 10)
        ),
        &format!(
            "{}GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
            "\r\n".repeat(9 << 10)
        ),
    ] {
        world.forget();
        let mut client = world.client();
        client.tunnel(&target).await;
        client.send(bytes).await;
        let answer = client.finish().await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{bytes:?}");
        let told = world.told();
        assert_eq!(told.len(), 1, "{bytes:?} {told:?}");
        assert!(told[0].contains(" denied: "), "{bytes:?} {told:?}");
    }
    assert_eq!(text(&seen), "");
}

#[tokio::test]
async fn http_in_small_pieces_is_recognised() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("a.test:{port}");
    let method = "A".repeat(70);
    let mut client = world.client();
    client.tunnel(&target).await;
    for byte in format!("\r\n{method} / HTTP/1.1\r\nHost: evil.test\r\n\r\n").bytes() {
        client.send([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.response().await.status, 403);
    let denied = format!("Host header `evil.test` differs from the target `{target}`");
    assert_eq!(world.told(), [format!("{target} denied: {denied}")]);
    // An unknown method is accepted for the right host.
    world.forget();
    let mut client = world.client();
    client.tunnel(&target).await;
    let response = client
        .ask(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"))
        .await;
    assert_eq!(response.status, 200);
    assert!(text(&seen).starts_with(&method));
}

#[tokio::test]
async fn other_protocols_pass_where_a_rule_names_the_port() {
    let port = start_echo_server().await;
    let world = ProxyFixture::for_server(port);
    // The last one is SOCKS5 with a request for another host. The proxy does not control what an
    // allowed host does with the bytes, so a rule for a relay allows everything it relays to.
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2 Debian-2\r\n"[..],
        b"EHLO me\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\x05\x01\0\x05\x01\0\x03\x09evil.test\x01\xbb",
    ] {
        let mut client = world.client();
        client.tunnel(&format!("a.test:{port}")).await;
        client.send(bytes).await;
        let mut back = vec![0; bytes.len()];
        client.stream.read_exact(&mut back).await.unwrap();
        assert_eq!(back, bytes);
        client.finish().await;
    }
    assert_eq!(world.told().len(), 4);
}

#[tokio::test]
async fn a_tunnel_ends_when_its_server_does() {
    let port = server(|mut stream| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            .await
            .unwrap();
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.ends_with("\r\n\r\nuntil the end"), "{answer}");
}

#[tokio::test]
async fn a_websocket_passes_in_a_tunnel_and_without() {
    let port = server(|mut stream| async move {
        let head = read_head(&mut stream).await.to_lowercase();
        assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
        assert!(head.contains("\r\nconnection: upgrade\r\n"), "{head}");
        assert!(!head.contains("x-hop"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nhello";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    })
    .await;
    let world = ProxyFixture::for_server(port);
    for tunnel in [true, false] {
        let mut client = world.client();
        let mut url = format!("http://a.test:{port}/");
        if tunnel {
            client.tunnel(&format!("a.test:{port}")).await;
            url = "/".into();
        }
        client
            .send(format!(
                "GET {url} HTTP/1.1\r\nHost: a.test:{port}\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade, X-Hop\r\nX-Hop: 1\r\nSec-WebSocket-Key: x\r\n\r\n"
            ))
            .await;
        let head = read_head(&mut client.stream).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert_eq!(header(&head, "sec-websocket-accept"), Some("x"));
        client.send("\u{81}frame").await;
        assert_eq!(client.finish().await, "hello\u{81}frame".as_bytes());
    }
    let allowed = format!("a.test:{port} allowed by a.test:{port}");
    assert_eq!(world.told(), [allowed.clone(), allowed]);
}

#[tokio::test]
async fn a_websocket_that_the_server_refuses_is_a_plain_answer() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client.tunnel(&format!("a.test:{port}")).await;
    let upgrade =
        "GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    // After a 200 the connection is still HTTP, so the next request is still checked.
    client
        .send(format!(
            "{upgrade}GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        ))
        .await;
    assert_eq!(client.response().await.status, 200);
    assert_eq!(client.response().await.status, 403);
    client.rest().await;
    assert!(!text(&seen).contains("evil"));
}
