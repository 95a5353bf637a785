//! A minimal HTTP client for load tests: one connection, one request at a time, bytes prepared in
//! advance. A larger client would be measured along with the server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context, ensure};

#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: BufReader<TcpStream>,
    line: String,
}

/// A response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpConnection {
    pub(crate) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            line: String::new(),
        })
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> anyhow::Result<RawResponse> {
        self.send(request)?;
        let (status, length) = self.head()?;
        let mut body = vec![0; length.context("an answer without a length")?];
        self.stream.read_exact(&mut body)?;
        Ok(RawResponse { status, body })
    }

    /// Sends a request whose response is an endless stream, and reads its head.
    pub(crate) fn follow(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.send(request)?;
        let (status, _) = self.head()?;
        ensure!(status == 200, "the stream was answered with {status}");
        Ok(())
    }

    /// The next line of the stream.
    pub(crate) fn next_line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        ensure!(
            self.stream.read_line(&mut self.line)? > 0,
            "the stream ended"
        );
        Ok(self.line.trim_end())
    }

    fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream
            .get_mut()
            .write_all(request)
            .context("cannot send")
    }

    fn head(&mut self) -> anyhow::Result<(u16, Option<usize>)> {
        let status = self.next_line()?.split(' ').nth(1).map(str::parse::<u16>);
        let status = status.context("an answer without a status")??;
        let mut length = None;
        loop {
            let line = self.next_line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse()?);
            }
        }
    }
}

pub(crate) fn get_request(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

pub(crate) fn post_request(path: &str, json: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{json}",
        json.len()
    )
    .into_bytes()
}
