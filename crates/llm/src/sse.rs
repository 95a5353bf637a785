//! Server-sent events: bytes in, events out. Does no I/O, so tests need only data.
//!
//! Our own decoder, because the alternative (`eventsource-stream`) panics on a byte order mark,
//! drops an event whose last blank line is missing, and scans a long line again for each byte
//! received. Entry type: [`SseDecoder`].

use std::str;

use thiserror::Error;

/// An event. The `id` field is ignored: the data contains it where it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Empty if the event has no name.
    pub name: String,
    pub data: String,
}

/// The bytes are not an event stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SseError {
    #[error("it is not UTF-8")]
    Encoding,
    #[error("one event is longer than {MAX_EVENT_BYTES} bytes")]
    TooLong,
}

/// Maximum size of an event. A reply has at most some hundred thousand tokens, split into events.
const MAX_EVENT_BYTES: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug, Default)]
pub struct SseDecoder {
    /// Received bytes. Those before `line` have been processed.
    buffer: Vec<u8>,
    line: usize,
    /// No line ends before this offset, so a long line is scanned only once.
    scanned: usize,
    /// The last line ended with a carriage return; a line feed that belongs to it may follow.
    after_return: bool,
    past_first_line: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl SseDecoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.line > 0 {
            self.buffer.drain(..self.line);
            self.scanned -= self.line;
            self.line = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete event, if there is one.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, SseError> {
        while let Some(end) = self.end_of_line() {
            let line = self.line..end;
            self.line = end + 1;
            self.scanned = self.line;
            self.after_return = self.buffer[end] == b'\r';
            if line.is_empty() {
                if let Some(event) = self.take() {
                    return Ok(Some(event));
                }
            } else {
                // Taken out of `self` to satisfy the borrow checker; put back unchanged.
                let buffer = std::mem::take(&mut self.buffer);
                let read = self.read_line(&buffer[line]);
                self.buffer = buffer;
                read?;
            }
        }
        if self.buffer.len() - self.line > MAX_EVENT_BYTES {
            Err(SseError::TooLong)
        } else {
            Ok(None)
        }
    }

    /// What remains when the stream has ended: an event without its last blank line, if the server
    /// omitted that, or part of an event, if the stream was cut off.
    pub fn finish(mut self) -> Result<Option<SseEvent>, SseError> {
        let rest = self.buffer.split_off(self.line);
        if !rest.is_empty() {
            self.read_line(&rest)?;
        }
        Ok(self.take())
    }

    /// The end of the line that starts at `self.line`, if it has arrived. A line ends with LF, CR
    /// or CRLF.
    fn end_of_line(&mut self) -> Option<usize> {
        if self.after_return && self.line < self.buffer.len() {
            self.after_return = false;
            if self.buffer[self.line] == b'\n' {
                self.line += 1;
                self.scanned = self.line;
            }
        }
        let found = self.buffer[self.scanned..]
            .iter()
            .position(|byte| matches!(byte, b'\n' | b'\r'));
        match found {
            Some(place) => Some(self.scanned + place),
            None => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), SseError> {
        let line = if self.past_first_line {
            line
        } else {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        };
        self.past_first_line = true;
        let line = str::from_utf8(line).map_err(|_| SseError::Encoding)?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        // A comment is a line with an empty field name. Other fields are not used.
        if field == "event" {
            value.clone_into(&mut self.name);
        }
        if field == "data" {
            if self.has_data {
                self.data.push('\n');
            }
            self.data.push_str(value);
            self.has_data = true;
            if self.data.len() > MAX_EVENT_BYTES {
                return Err(SseError::TooLong);
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// All events of a stream that arrives in the given chunks, including an incomplete last one.
    fn decode<'a>(
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Vec<String>, Option<String>), SseError> {
        let mut decoder = SseDecoder::default();
        let mut events = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            while let Some(event) = decoder.next_event()? {
                events.push(event.data);
            }
        }
        Ok((events, decoder.finish()?.map(|event| event.data)))
    }

    fn check(stream: &str, events: &[&str], rest: Option<&str>) {
        let expected = Ok((
            events
                .iter()
                .copied()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
            rest.map(str::to_owned),
        ));
        assert_eq!(decode([stream.as_bytes()]), expected, "{stream:?} whole");
        let bytes = stream.as_bytes().chunks(1);
        assert_eq!(decode(bytes), expected, "{stream:?} byte by byte");
    }

    #[test]
    fn streams_as_servers_send_them() {
        check("", &[], None);
        check("event: a\ndata: 1\n\ndata: 2\n\n", &["1", "2"], None);
        check("data: 1\r\n\r\ndata: 2\r\n\r\n", &["1", "2"], None);
        check("data: 1\r\rdata: 2\r\r", &["1", "2"], None);
        check("\u{feff}data: 1\n\n", &["1"], None);
        check("data: \u{feff}1\n\n", &["\u{feff}1"], None);
        check(": keep-alive\n\n:\n\ndata: 1\n\n", &["1"], None);
        check("data:1\ndata: 2\ndata:  3\n\n", &["1\n2\n 3"], None);
        check("data\n\n", &[""], None);
        check("data:\ndata:\n\n", &["\n"], None);
        check("\n\n\ndata: 1\n\n\n\n", &["1"], None);
        check(
            "garbage\nid: 3\nretry: 9\nDATA: no\ndata: 1\n\n",
            &["1"],
            None,
        );
        check("data: é\u{1f980}\n\n", &["é\u{1f980}"], None);
    }

    #[test]
    fn names_belong_to_one_event() {
        let mut decoder = SseDecoder::default();
        decoder.push(b"event: a\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\nevent:b\n\n");
        let mut names = Vec::new();
        while let Some(event) = decoder.next_event().unwrap() {
            names.push((event.name, event.data));
        }
        let expect = [("a", "1"), ("", "2"), ("b", "3")];
        let expect = expect.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(names, expect);
    }

    #[test]
    fn streams_that_end_early() {
        check("data: 1\n\ndata: [DONE]", &["1"], Some("[DONE]"));
        check("data: 1\n\ndata: [DONE]\n", &["1"], Some("[DONE]"));
        check("data: [DONE]\r\n", &[], Some("[DONE]"));
        check("data: 1\n\nevent: x", &["1"], None);
        check("data: 1\n\n: comm", &["1"], None);
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        for bytes in [&b"data: \xff\n\n"[..], b"\xc3\n", b"data: 1\n\n\x80\n"] {
            assert_eq!(decode([bytes]), Err(SseError::Encoding));
            assert_eq!(decode(bytes.chunks(1)), Err(SseError::Encoding));
        }
        assert_eq!(decode([&b"data: \xc3"[..]]), Err(SseError::Encoding));
    }

    #[test]
    fn an_event_has_a_limit() {
        let long = vec![b'a'; MAX_EVENT_BYTES + 1];
        assert_eq!(decode([&long[..]]), Err(SseError::TooLong));
        let line = [b"data: ", &[b'a'; 1 << 20][..], b"\n"].concat();
        let lines = std::iter::repeat_n(&line[..], 20);
        assert_eq!(decode(lines), Err(SseError::TooLong));
    }

    proptest! {
        #[test]
        fn any_bytes_are_events_or_an_error(chunks: Vec<Vec<u8>>) {
            let whole = decode([&chunks.concat()[..]]);
            let split = decode(chunks.iter().map(|chunk| &chunk[..]));
            prop_assert_eq!(whole, split);
        }
    }
}
