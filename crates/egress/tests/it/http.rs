//! Plain HTTP with absolute URLs.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::fixture::{ProxyFixture, header, read_head, server, start_recording_server, text};

#[tokio::test]
async fn requests_are_passed_on_in_origin_form_one_after_the_other() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    for number in 1..=3 {
        let response = client
            .ask(format!("GET http://a.test:{port}/p?q={number} HTTP/1.1\r\nHost: a.test:{port}\r\nX-A: b\r\n\r\n"))
            .await;
        assert_eq!((response.status, response.body), (200, number.to_string()));
    }
    client.finish().await;
    let one = |number| {
        format!(
            "GET /p?q={number} HTTP/1.1\r\nHost: a.test:{port}\r\nX-A: b\r\nConnection: close\r\n\r\n"
        )
    };
    assert_eq!(
        text(&seen).to_lowercase(),
        (one(1) + &one(2) + &one(3)).to_lowercase()
    );
    let allowed = format!("a.test:{port} allowed by a.test:{port}");
    assert_eq!(world.told(), [allowed.clone(), allowed.clone(), allowed]);
}

#[tokio::test]
async fn each_request_is_checked_by_itself() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    let good = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    let evil = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    // Pipelined in one write.
    client.send(good.clone() + evil + &good).await;
    assert_eq!(client.response().await.body, "1");
    let denied = client.response().await;
    assert_eq!(
        denied.body,
        "hotcell: denied: no rule allows `evil.test:80`\nhint: --allow-net evil.test\n"
    );
    assert_eq!(client.response().await.body, "2");
    client.finish().await;
    assert!(!text(&seen).contains("evil"));
    assert_eq!(world.told().len(), 3);
}

#[tokio::test]
async fn the_host_header_is_the_url() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let target = format!("a.test:{port}");
    for (host, status) in [
        (format!("Host: {target}\r\n"), 200),
        (format!("Host: A.TEST.:{port}\r\n"), 200),
        ("Host: evil.test\r\n".to_owned(), 403),
        ("Host: a.test\r\n".to_owned(), 403),
        (format!("Host: evil.test, {target}\r\n"), 403),
        (format!("Host: {target}\0.evil.test\r\n"), 400),
        (format!("Host: {target}\r\nHost: evil.test\r\n"), 400),
        (format!("Host: {target}\r\nHost : evil.test\r\n"), 400),
        (String::new(), 400),
    ] {
        world.forget();
        seen.lock().unwrap().clear();
        let mut client = world.client();
        let response = client
            .ask(format!("GET http://{target}/ HTTP/1.1\r\n{host}\r\n"))
            .await;
        assert_eq!(response.status, status, "{host:?}");
        client.finish().await;
        assert_eq!(world.told().len(), 1, "{host:?}");
        assert_eq!(text(&seen).is_empty(), status != 200, "{host:?}");
        assert!(!text(&seen).contains("evil"));
    }
}

#[tokio::test]
async fn what_is_not_for_a_proxy_is_explained() {
    let world = ProxyFixture::new(["a.test"]);
    for (request, expect) in [
        (
            "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "hotcell: this is a proxy: send an absolute http:// URL or CONNECT\n",
        ),
        (
            "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "hotcell: this is a proxy: send an absolute http:// URL or CONNECT\n",
        ),
        (
            "GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "hotcell: cannot fetch `https` URLs: use CONNECT for anything but http\n",
        ),
        (
            "GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "hotcell: cannot fetch `ftp` URLs: use CONNECT for anything but http\n",
        ),
        (
            "GET http://me@a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
            "hotcell: bad target `me@a.test`: a host name cannot contain '@'\n",
        ),
    ] {
        world.forget();
        let response = world.client().ask(request).await;
        assert_eq!((response.status, response.body.as_str()), (400, expect));
        assert_eq!(world.told().len(), 1);
        assert!(world.told()[0].starts_with("a.test:0 ") || request.contains('@'));
    }
    assert_eq!(world.asked(), [""; 0]);
}

#[tokio::test]
async fn hop_by_hop_headers_do_not_pass_in_either_direction() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    let hops = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: Basic x\r\n\
                Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\nTrailer: X\r\n\
                Upgrade: h2c\r\nHTTP2-Settings: x\r\nX-End: 1\r\n";
    let head = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n{hops}\r\n");
    assert_eq!(client.ask(head).await.status, 200);
    let passed = text(&seen).to_lowercase();
    let mut names: Vec<&str> = passed
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .map(|part| part.0)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["connection", "host", "http2-settings", "x-end"]);
    assert!(passed.contains("connection: close\r\n"));

    let port = server(|mut stream| async move {
        read_head(&mut stream).await;
        let head = "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\
                    Proxy-Authenticate: Basic\r\nX-End: 1\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(head.as_bytes()).await.unwrap();
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    let mut client = world.client();
    for _ in 0..2 {
        // The server closes its connection; the client's stays.
        let response = client.ask(&request).await;
        assert_eq!(response.body, "ok");
        for gone in ["connection", "x-hop", "keep-alive", "proxy-authenticate"] {
            assert_eq!(header(&response.head, gone), None, "{gone}");
        }
        assert_eq!(header(&response.head, "x-end"), Some("1"));
    }
}

#[tokio::test]
async fn no_request_hides_in_another() {
    let hidden = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    for (framing, body) in [
        (
            "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        ("Transfer-Encoding: xchunked\r\n", hidden.to_owned()),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding:\u{b}chunked\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Transfer-Encoding : chunked\r\n",
            format!("0\r\n\r\n{hidden}"),
        ),
        (
            "Content-Length: 0\r\nContent-Length: 61\r\n",
            hidden.to_owned(),
        ),
        ("Content-Length: +0\r\n", hidden.to_owned()),
        (
            "Content-Length: 0\r\nX: y\r\n folded: z\r\n",
            hidden.to_owned(),
        ),
        (
            "Connection: content-length\r\nContent-Length: 61\r\n",
            hidden.to_owned(),
        ),
        (
            "Connection: host\r\nContent-Length: 0\r\n",
            hidden.to_owned(),
        ),
    ] {
        let (port, seen) = start_recording_server().await;
        let world = ProxyFixture::for_server(port);
        let mut client = world.client();
        client
            .send(format!(
                "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n{framing}\r\n{body}"
            ))
            .await;
        client.finish().await;
        // The hidden part was either not sent, or sent as the body that it was declared as.
        let passed = text(&seen);
        if let Some((head, _)) = passed.split_once("GET http://evil") {
            assert!(
                head.to_lowercase().contains("content-length: 61\r\n"),
                "{framing:?}: {passed}"
            );
        }
        assert!(
            passed.matches("HTTP/1.1\r\n").count() <= 2,
            "{framing:?}: {passed}"
        );
        assert!(
            !passed.contains("GET / HTTP/1.1\r\nHost: evil"),
            "{framing:?}: {passed}"
        );
        let allowed = world
            .told()
            .iter()
            .filter(|told| told.contains(" allowed by "))
            .count();
        assert!(allowed <= 1, "{framing:?}: {:?}", world.told());
        assert!(!world.asked().contains(&"evil.test".to_owned()));
    }
}

#[tokio::test]
async fn bodies_stream_both_ways() {
    let got_half = Arc::new(Notify::new());
    let notify = Arc::clone(&got_half);
    let port = server(move |mut stream| {
        let got_half = Arc::clone(&notify);
        async move {
            let head = read_head(&mut stream).await;
            assert!(
                head.to_lowercase()
                    .contains("transfer-encoding: chunked\r\n"),
                "{head}"
            );
            // The first half of the body arrives before the second was sent.
            let mut part = [0; 9];
            stream.read_exact(&mut part).await.unwrap();
            assert_eq!(&part, b"4\r\nhalf\r\n");
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
                .await
                .unwrap();
            got_half.notified().await;
            let mut part = [0; 14];
            stream.read_exact(&mut part).await.unwrap();
            assert_eq!(&part, b"4\r\nrest\r\n0\r\n\r\n");
            stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.unwrap();
        }
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client
        .send(format!("PUT http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"))
        .await;
    let head = read_head(&mut client.stream).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut part = [0; 8];
    client.stream.read_exact(&mut part).await.unwrap();
    assert_eq!(&part, b"3\r\none\r\n");
    got_half.notify_one();
    client.send("4\r\nrest\r\n0\r\n\r\n").await;
    assert_eq!(client.finish().await, b"3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn old_clients_and_head_requests_work() {
    let (port, seen) = start_recording_server().await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client
        .send(format!("GET http://a.test:{port}/ HTTP/1.0\r\n\r\n"))
        .await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(
        answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("\r\n\r\n1"),
        "{answer}"
    );
    assert!(
        text(&seen)
            .to_lowercase()
            .contains(&format!("\r\nhost: a.test:{port}\r\n"))
    );

    let port = server(|mut stream| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            .await
            .unwrap();
    })
    .await;
    let world = ProxyFixture::for_server(port);
    let mut client = world.client();
    client
        .send(format!(
            "HEAD http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n"
        ))
        .await;
    let answer = String::from_utf8(client.finish().await).unwrap();
    assert!(
        answer.to_lowercase().contains("content-length: 1000\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_a_bad_gateway() {
    for answer in [
        &b""[..],
        b"what?\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ] {
        let port = server(move |mut stream| async move {
            read_head(&mut stream).await;
            let _ = stream.write_all(answer).await;
        })
        .await;
        let world = ProxyFixture::for_server(port);
        let mut client = world.client();
        let request = format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
        assert_eq!(client.ask(request).await.status, 502);
        assert_eq!(
            world.told(),
            [format!("a.test:{port} allowed by a.test:{port}")]
        );
    }
}

#[tokio::test]
async fn a_head_has_a_largest_size() {
    let world = ProxyFixture::new(["a.test"]);
    let mut client = world.client();
    let head = format!(
        "GET http://a.test/ HTTP/1.1\r\nX: {}",
        "x".repeat(200 << 10)
    );
    // The proxy may close the stream before it has read everything.
    let _ = client.stream.write_all(head.as_bytes()).await;
    let answer = String::from_utf8(client.rest().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(world.told().len(), 1);
}
