//! Server-sent events, read as a browser reads them.

use reqwest::{Response, StatusCode};
use serde_json::Value;

/// An event stream.
pub(crate) struct Events {
    answer: Response,
    text: Vec<u8>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) event: String,
    pub(crate) id: Option<u64>,
    pub(crate) data: Value,
}

impl Sent {
    /// The kind of an agent's event; empty for others.
    pub(crate) fn kind(&self) -> &str {
        match self.event.as_str() {
            "agent" => self.data["type"].as_str().unwrap(),
            _ => "",
        }
    }
}

impl Events {
    pub(crate) fn new(answer: Response) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            answer,
            text: Vec::new(),
        }
    }

    /// The next event; `None` when the stream has ended in order.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        self.try_next().await.unwrap()
    }

    /// The same, of a server that may die.
    pub(crate) async fn try_next(&mut self) -> Result<Option<Sent>, reqwest::Error> {
        loop {
            let end = self.text.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                match parse(std::str::from_utf8(&block).unwrap().trim_end()) {
                    Some(sent) => return Ok(Some(sent)),
                    None => continue,
                }
            }
            match self.answer.chunk().await? {
                Some(piece) => self.text.extend_from_slice(&piece),
                None => {
                    assert!(self.text.is_empty(), "an event was cut");
                    return Ok(None);
                }
            }
        }
    }

    /// The next event of the agent that is of this kind.
    pub(crate) async fn until(&mut self, kind: &str) -> Sent {
        loop {
            let sent = self.next().await;
            let sent = sent.unwrap_or_else(|| panic!("the stream ended before `{kind}`"));
            if sent.kind() == kind {
                return sent;
            }
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn all(mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        while let Some(sent) = self.next().await {
            all.push(sent);
        }
        all
    }
}

/// `None` of comments and of what only sets the time to come back.
fn parse(block: &str) -> Option<Sent> {
    let mut event = None;
    let mut id = None;
    let mut data = String::new();
    for line in block.lines() {
        match line.split_once(": ").unwrap() {
            ("event", name) => event = Some(name.to_owned()),
            ("id", number) => id = Some(number.parse().unwrap()),
            ("data", text) => data.push_str(text),
            ("" | "retry", _) => {}
            other => panic!("{other:?}"),
        }
    }
    Some(Sent {
        event: event?,
        id,
        data: serde_json::from_str(&data).unwrap(),
    })
}
