//! Bytes to frames and back: `length u32 | stream u32 | kind u8 | payload`, little-endian.
//!
//! Never allocates more than one frame for a length that a peer announces: a length above
//! [`MAX_PAYLOAD`] is an error before any of the payload is read.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Largest payload of one frame. Larger frames would let one stream occupy the wire for longer
/// without higher throughput.
pub const MAX_PAYLOAD: usize = 256 * 1024;

/// Payloads up to this length are copied out of the read buffer. A slice would keep the whole buffer
/// alive, so a peer that sends one byte at a time could pin one buffer per byte.
const MAX_COPIED_PAYLOAD: usize = MAX_PAYLOAD / 2;

/// Length of a frame's header in bytes.
pub const HEADER_LEN: usize = 9;

/// What a frame means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// First frame of either side, on stream 0.
    Hello = 1,
    /// Opens a stream.
    Open = 2,
    /// Part of a typed message, not the last one.
    Part = 3,
    /// A typed message, or the last part of one.
    Message = 4,
    /// Bytes: standard input towards the guest, standard output or file content towards the host.
    Data = 5,
    /// Bytes of standard error.
    Errors = 6,
    /// The receiver has consumed this many charged bytes (u32).
    Credit = 7,
    /// The sender has sent everything.
    End = 8,
    /// The sender stops before it has sent everything.
    Abort = 9,
    /// The receiver reads no more.
    Stop = 10,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Open,
            3 => Self::Part,
            4 => Self::Message,
            5 => Self::Data,
            6 => Self::Errors,
            7 => Self::Credit,
            8 => Self::End,
            9 => Self::Abort,
            10 => Self::Stop,
            _ => return None,
        })
    }

    /// Whether the payload counts against the stream's window.
    pub fn is_charged(self) -> bool {
        matches!(self, Self::Part | Self::Message | Self::Data | Self::Errors)
    }

    fn max_payload(self) -> usize {
        match self {
            Self::Open | Self::End | Self::Abort | Self::Stop => 0,
            Self::Credit => 4,
            _ => MAX_PAYLOAD,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub stream: u32,
    pub kind: FrameKind,
    pub payload: Bytes,
}

impl Frame {
    /// The header that goes before the payload.
    pub fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        let mut out = &mut header[..];
        out.put_u32_le(self.payload.len() as u32);
        out.put_u32_le(self.stream);
        out.put_u8(self.kind as u8);
        header
    }
}

/// Why bytes cannot be decoded as a frame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("unknown frame kind {0}")]
    Kind(u8),
    #[error("frame of kind {kind:?} announces {length} bytes")]
    Length { kind: FrameKind, length: u32 },
}

/// Collects bytes in chunks of any size and returns complete frames. Long payloads are not copied.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: BytesMut,
}

impl FrameDecoder {
    /// Buffer for the next read, with free space for a frame of the largest size.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(MAX_PAYLOAD + HEADER_LEN);
        &mut self.buffer
    }

    /// The next complete frame, or `None` if more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(mut header) = self.buffer.get(..HEADER_LEN) else {
            return Ok(None);
        };
        let length = header.get_u32_le();
        let stream = header.get_u32_le();
        let byte = header.get_u8();
        let kind = FrameKind::from_byte(byte).ok_or(FrameError::Kind(byte))?;
        if length as usize > kind.max_payload() {
            return Err(FrameError::Length { kind, length });
        }
        if self.buffer.len() < HEADER_LEN + length as usize {
            return Ok(None);
        }
        self.buffer.advance(HEADER_LEN);
        let payload = match length as usize {
            short if short <= MAX_COPIED_PAYLOAD => {
                let copy = Bytes::copy_from_slice(&self.buffer[..short]);
                self.buffer.advance(short);
                copy
            }
            long => self.buffer.split_to(long).freeze(),
        };
        Ok(Some(Frame {
            stream,
            kind,
            payload,
        }))
    }

    /// Whether an incomplete frame is buffered: an end of input now truncates it.
    pub fn is_inside_frame(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = FrameKind> {
        (1u8..=10).prop_map(|byte| FrameKind::from_byte(byte).unwrap())
    }

    fn frames() -> impl Strategy<Value = Frame> {
        (
            any::<u32>(),
            kinds(),
            proptest::collection::vec(any::<u8>(), 0..600),
        )
            .prop_map(|(stream, kind, mut payload)| {
                payload.truncate(kind.max_payload());
                Frame {
                    stream,
                    kind,
                    payload: payload.into(),
                }
            })
    }

    proptest! {
        #[test]
        fn frames_survive_any_chunking(
            frames in proptest::collection::vec(frames(), 0..20),
            chunk in 1usize..700,
        ) {
            let mut wire = Vec::new();
            for frame in &frames {
                wire.extend_from_slice(&frame.header());
                wire.extend_from_slice(&frame.payload);
            }
            let mut decoder = FrameDecoder::default();
            let mut seen = Vec::new();
            for piece in wire.chunks(chunk) {
                decoder.buffer().extend_from_slice(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
            prop_assert!(!decoder.is_inside_frame());
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut decoder = FrameDecoder::default();
            decoder.buffer().extend_from_slice(&bytes);
            while let Ok(Some(frame)) = decoder.next_frame() {
                prop_assert!(frame.payload.len() <= MAX_PAYLOAD);
            }
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_its_payload_arrives() {
        let mut decoder = FrameDecoder::default();
        let mut header = Vec::new();
        header.put_u32_le(u32::MAX);
        header.put_u32_le(1);
        header.put_u8(FrameKind::Data as u8);
        decoder.buffer().extend_from_slice(&header);
        assert!(matches!(
            decoder.next_frame(),
            Err(FrameError::Length {
                length: u32::MAX,
                ..
            })
        ));
    }
}
