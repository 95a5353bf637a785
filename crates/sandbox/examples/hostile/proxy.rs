//! Lines 56 to 59 and 65 to 68, with one host allowed: attempts to trick the proxy.
//!
//! The requests are written as raw bytes, as no library would send them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Attack, AttackArguments, breach, has_own_kernel, held};

pub(crate) const ATTACKS: &[Attack] = &[
    ("proxy-allowed", allowed),
    ("proxy-metadata", metadata),
    ("proxy-others", others),
    ("proxy-rebinding", rebinding),
    ("proxy-mismatch", mismatch),
    ("proxy-injection", injection),
    ("proxy-flood", flood),
    ("proxy-unset", unset),
    ("proxy-idle", idle),
];

fn proxy() -> TcpStream {
    let stream = TcpStream::connect("127.0.0.1:3128").unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// Sends, and reads until the head of an answer is complete or nothing more comes.
fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(4).any(|four| four == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("nothing")
}

/// Requests a tunnel and a page: both must be refused.
fn refused(target: &str) {
    let tunnel = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    judge(
        format_args!("CONNECT {target:?}"),
        &ask(&mut proxy(), tunnel.as_bytes()),
    );
    let page = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    judge(
        format_args!("GET {target:?}"),
        &ask(&mut proxy(), page.as_bytes()),
    );
}

fn judge(what: impl std::fmt::Display, answer: &str) {
    match status(answer) {
        "403" => held(format_args!("403 {what}")),
        "400" => held(format_args!("400 {what}")),
        "nothing" => held(format_args!("closed {what}")),
        status => breach(format_args!("{what} answered {status}: {answer:?}")),
    }
}

/// The allowed target, to show that the others are blocked and the proxy works.
fn allowed(world: &AttackArguments) {
    let target = format!("127.0.0.1:{}", world.text("allowed"));
    let page = format!("GET http://{target}/plain HTTP/1.1\r\nHost: {target}\r\n\r\n");
    println!("ALLOWED {}", status(&ask(&mut proxy(), page.as_bytes())));
    let mut tunnel = proxy();
    let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    println!("ALLOWED {}", status(&ask(&mut tunnel, connect.as_bytes())));
    let page = format!("GET /tunnelled HTTP/1.1\r\nHost: {target}\r\n\r\n");
    println!("ALLOWED {}", status(&ask(&mut tunnel, page.as_bytes())));
}

fn metadata(_: &AttackArguments) {
    for host in [
        "169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.0xfe.0xa9.0xfe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[fd00:ec2::254]",
        "metadata.google.internal",
        "169.254.169.254.",
    ] {
        refused(&format!("{host}:80"));
    }
}

/// Everything except the allowed port of the host.
fn others(world: &AttackArguments) {
    let (allowed, other) = (world.text("allowed"), world.text("tcp"));
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "[::]",
        "2130706433",
        "127.1",
    ] {
        refused(&format!("{host}:{other}"));
    }
    // The allowed port, at a host that is not allowed.
    for host in ["127.0.0.2", "localhost", "0.0.0.0", "[::1]"] {
        refused(&format!("{host}:{allowed}"));
    }
    for address in world.list("addresses") {
        let host = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        for port in ["22", "80", allowed, other] {
            refused(&format!("{host}:{port}"));
        }
    }
    for target in [
        "example.com:443",
        "8.8.8.8:53",
        "secret-of-the-host.example.invalid:443",
    ] {
        refused(target);
    }
    if let Some(sibling) = world.0.get("sibling-tcp") {
        refused(&format!("127.0.0.1:{sibling}"));
    }
}

/// Refused requests without end, to one host and to many, each as long as possible.
fn flood(_: &AttackArguments) {
    for number in 0..1500 {
        let label = match number % 2 {
            0 => "x".repeat(60),
            _ => format!("{number:060}"),
        };
        let target = format!("{label}.{label}.{label}.example:443");
        let tunnel = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        let answer = ask(&mut proxy(), tunnel.as_bytes());
        assert_eq!(status(&answer), "403", "{answer}");
    }
    held("flood");
}

/// An allowed name that resolves to the host itself.
fn rebinding(world: &AttackArguments) {
    let target = format!("{}:{}", world.text("name"), world.text("tcp"));
    let tunnel = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let answer = ask(&mut proxy(), tunnel.as_bytes());
    match status(&answer) {
        // 502 means that the name does not resolve.
        "403" | "502" => held(format_args!("{} {target}", status(&answer))),
        _ => breach(format_args!("{target} answered {answer:?}")),
    }
}

/// Requests one host but means another.
fn mismatch(world: &AttackArguments) {
    let target = format!("127.0.0.1:{}", world.text("allowed"));
    let connect = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    for host in ["evil.example", "169.254.169.254", "127.0.0.1:1", ""] {
        let page = format!("GET http://{target}/evil HTTP/1.1\r\nHost: {host}\r\n\r\n");
        judge(
            format_args!("page with host {host:?}"),
            &ask(&mut proxy(), page.as_bytes()),
        );
        let mut tunnel = proxy();
        let opened = ask(&mut tunnel, connect.as_bytes());
        assert_eq!(status(&opened), "200", "{opened}");
        let page = format!("GET /evil HTTP/1.1\r\nHost: {host}\r\n\r\n");
        judge(
            format_args!("tunnel with host {host:?}"),
            &ask(&mut tunnel, page.as_bytes()),
        );
    }
    // Two hosts, of which different parsers may pick different ones.
    let page = format!(
        "GET http://{target}/evil HTTP/1.1\r\nHost: {target}\r\nHost: evil.example\r\n\r\n"
    );
    judge("page with two hosts", &ask(&mut proxy(), page.as_bytes()));
    let mut tunnel = proxy();
    assert_eq!(status(&ask(&mut tunnel, connect.as_bytes())), "200");
    let answer = ask(&mut tunnel, &hello("evil.example"));
    match answer.as_bytes().first() {
        None | Some(21) => held("TLS for another server was cut off"),
        _ => breach(format_args!("TLS for another server: {answer:?}")),
    }
    // A second request after a valid one.
    let mut tunnel = proxy();
    assert_eq!(status(&ask(&mut tunnel, connect.as_bytes())), "200");
    let two = format!(
        "GET / HTTP/1.1\r\nHost: {target}\r\nContent-Length: 0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    );
    let first = ask(&mut tunnel, two.as_bytes());
    held(format_args!("the good one answered {}", status(&first)));
    judge("a second request", &ask(&mut tunnel, b""));
}

/// A TLS client hello for this server name.
fn hello(server: &str) -> Vec<u8> {
    let name = server.as_bytes();
    let word = |length: usize| (length as u16).to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend_from_slice(&word(name.len() + 5));
    extension.extend_from_slice(&word(name.len() + 3));
    extension.push(0);
    extension.extend_from_slice(&word(name.len()));
    extension.extend_from_slice(name);
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&[0, 2, 0x13, 0x01, 1, 0]);
    body.extend_from_slice(&word(extension.len()));
    body.extend_from_slice(&extension);
    let mut handshake = vec![1, 0];
    handshake.extend_from_slice(&word(body.len()));
    handshake.extend_from_slice(&body);
    let mut record = vec![22, 3, 1];
    record.extend_from_slice(&word(handshake.len()));
    record.extend_from_slice(&handshake);
    record
}

fn injection(world: &AttackArguments) {
    let (allowed, other) = (world.text("allowed"), world.text("tcp"));
    for target in [
        format!("127.0.0.1\0.evil.example:{allowed}"),
        format!("127.0.0.1:{other}\0:{allowed}"),
        format!("127.0.0.1\r\nX: y:{allowed}"),
        format!("127.0.0.1\n:{allowed}"),
        format!("127.0.0.1\r:{allowed}"),
        format!("127.0.0.1%00:{other}"),
        format!("127.0.0.1%0d%0aHost:%20127.0.0.1:{other}"),
        format!("evil@127.0.0.1:{other}"),
        format!("127.0.0.1:{allowed}@127.0.0.1:{other}"),
        format!("127.0.0.1:{allowed}#@127.0.0.1:{other}"),
        format!("127.0.0.1\t:{other}"),
        format!("127.0.0.1 :{other}"),
        format!("127.0.0.1:{allowed}:{other}"),
        format!("127.0.0.1\u{3002}evil:{other}"),
        format!("127.0.0.1\\.evil:{other}"),
        "127.0.0.1:0".into(),
        "127.0.0.1:99999".into(),
        format!(":{other}"),
    ] {
        refused(&target);
    }
    // A header that would end the request early, and a body that starts another.
    let smuggled = format!(
        "GET http://127.0.0.1:{allowed}/ HTTP/1.1\r\nHost: 127.0.0.1:{allowed}\r\n\
         Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
    );
    let answer = ask(&mut proxy(), smuggled.as_bytes());
    held(format_args!("smuggling answered {}", status(&answer)));
}

/// Programs without the proxy variables have no network.
fn unset(world: &AttackArguments) {
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        match std::env::var(name) {
            Ok(value) => println!("VARIABLE {name}={value}"),
            Err(_) => breach(format_args!("{name} is not set")),
        }
    }
    let ports = [world.number("allowed"), world.number("tcp")];
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(_) => breach(format_args!("connected to {address} without the proxy")),
            Err(error) => held(format_args!("{address}: {error}")),
        }
    }
    for address in ["192.0.2.1:80", "8.8.8.8:443", "169.254.169.254:80"] {
        match TcpStream::connect_timeout(&address.parse().unwrap(), Duration::from_secs(2)) {
            Err(error) if error.raw_os_error() == Some(libc::ENETUNREACH) => {
                held(format_args!("{address}: {error}"));
            }
            // The error of a kernel without interfaces that is not Linux.
            Err(error) if error.raw_os_error() == Some(libc::EHOSTUNREACH) && has_own_kernel() => {
                held(format_args!("{address}: {error}"));
            }
            outcome => breach(format_args!("{address}: {outcome:?}")),
        }
    }
}

/// Idle connections must not block the proxy for the next one.
fn idle(_: &AttackArguments) {
    let silent: Vec<TcpStream> = (0..100).map(|_| proxy()).collect();
    held(format_args!("{} silent connections", silent.len()));
    refused("example.com:443");
}
