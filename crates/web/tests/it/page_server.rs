//! A server for one browser: the UI's files and the test pages, under the policy that the real
//! server sends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";

/// Serves until the test process ends.
pub(crate) fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// A browser that disconnects is not an error.
fn answer(stream: TcpStream) -> Option<()> {
    let mut lines = BufReader::new(&stream).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let path = first.split(' ').nth(1)?;
    let (status, media_type, content) = match find(path) {
        Some((media_type, content)) => ("200 OK", media_type, content),
        None => ("404 Not Found", "text/plain", Vec::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {CONTENT_SECURITY_POLICY}\r\nConnection: close\r\n\r\n",
        content.len()
    );
    let mut stream = &stream;
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&content).ok()
}

fn find(path: &str) -> Option<(&'static str, Vec<u8>)> {
    if let Some(name) = path.strip_prefix("/assets/") {
        let asset = web::find(name)?;
        return Some((asset.media_type, asset.content.into_owned()));
    }
    let name = path.strip_prefix("/pages/")?;
    let media_type = match name.rsplit('.').next()? {
        "html" => "text/html; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages");
    Some((media_type, fs::read(folder.join(name)).ok()?))
}
