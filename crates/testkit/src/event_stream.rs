//! Reads an orchestrator's server-sent events as a browser does.

use reqwest::{Response, StatusCode};
use serde_json::Value;

/// An event stream. Panics on anything that a browser could not read.
#[derive(Debug)]
pub struct EventStream {
    answer: Response,
    text: Vec<u8>,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedEvent {
    pub event: String,
    pub id: Option<u64>,
    pub data: Value,
}

impl StreamedEvent {
    /// The kind of an agent's event; empty for others.
    pub fn kind(&self) -> &str {
        match self.event.as_str() {
            "agent" => self.data["type"].as_str().expect("an event has a type"),
            _ => "",
        }
    }
}

impl EventStream {
    pub fn new(answer: Response) -> Self {
        assert_eq!(answer.status(), StatusCode::OK);
        // No proxy may cache or buffer the stream.
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store"),
            ("x-accel-buffering", "no"),
        ] {
            assert_eq!(answer.headers()[name], value);
        }
        Self {
            answer,
            text: Vec::new(),
        }
    }

    /// The next event; `None` when the stream has ended normally.
    pub async fn next(&mut self) -> Option<StreamedEvent> {
        self.try_next().await.expect("the stream is readable")
    }

    /// Like [`EventStream::next`], for a server that may be killed.
    pub async fn try_next(&mut self) -> Result<Option<StreamedEvent>, reqwest::Error> {
        loop {
            let end = self.text.windows(2).position(|pair| pair == b"\n\n");
            if let Some(end) = end {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                match parse(
                    std::str::from_utf8(&block)
                        .expect("events are UTF-8")
                        .trim_end(),
                ) {
                    Some(sent) => return Ok(Some(sent)),
                    None => continue,
                }
            }
            match self.answer.chunk().await? {
                Some(piece) => self.text.extend_from_slice(&piece),
                None => {
                    assert!(self.text.is_empty(), "an event was cut off");
                    return Ok(None);
                }
            }
        }
    }

    /// The agent's next event of this kind.
    pub async fn until(&mut self, kind: &str) -> StreamedEvent {
        loop {
            let sent = self.next().await;
            let sent = sent.unwrap_or_else(|| panic!("the stream ended before `{kind}`"));
            if sent.kind() == kind {
                return sent;
            }
        }
    }

    /// All events up to the end of the stream.
    pub async fn all(mut self) -> Vec<StreamedEvent> {
        let mut all = Vec::new();
        while let Some(sent) = self.next().await {
            all.push(sent);
        }
        all
    }
}

/// `None` for comments and for blocks that only set the retry delay.
fn parse(block: &str) -> Option<StreamedEvent> {
    let mut event = None;
    let mut id = None;
    let mut data = String::new();
    for line in block.lines() {
        match line
            .split_once(": ")
            .expect("a line has a field and a value")
        {
            ("event", name) => event = Some(name.to_owned()),
            ("id", number) => id = Some(number.parse().expect("an id is a number")),
            ("data", text) => data.push_str(text),
            ("" | "retry", _) => {}
            other => panic!("{other:?}"),
        }
    }
    Some(StreamedEvent {
        event: event?,
        id,
        data: serde_json::from_str(&data).expect("data is JSON"),
    })
}
