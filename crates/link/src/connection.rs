//! A live link: exchange of greetings, then a [`LinkDriver`] that moves frames between a byte stream and
//! the mux.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::VERSION;
use crate::frame::{Frame, FrameDecoder, FrameError, FrameKind, HEADER_LEN};
use crate::limits::{LinkLimits, LinkRole, Violation};
use crate::mux::Mux;
use crate::stream::{SharedMux, Stream, StreamError, broken, lock};
use crate::timeout::suspend_tolerant_timeout;

const MAGIC: [u8; 4] = *b"HOTC";

/// Most frames in one write.
const MAX_BATCH_FRAMES: usize = 16;

/// How long a guest may take to read one batch of frames. A well-behaved guest reads all the time.
pub const GUEST_READ_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Serialize, Deserialize)]
struct Greeting<T> {
    magic: [u8; 4],
    version: u16,
    body: T,
}

/// Why the handshake failed.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("cannot read or write the link")]
    Io(#[from] io::Error),
    #[error("the other end closed the link before its greeting")]
    Closed,
    #[error("the other end does not speak this protocol")]
    Stranger,
    #[error("the other end speaks version {theirs} of the link, this one {VERSION}")]
    Version { theirs: u16 },
    #[error("cannot read the greeting")]
    Frame(#[from] FrameError),
    #[error("cannot read or write the greeting")]
    Encoding(#[from] postcard::Error),
}

/// Why a link ended.
#[derive(Debug, Error)]
pub enum LinkEnd {
    #[error("the other end closed the link")]
    Closed,
    #[error("the link was closed in the middle of a frame")]
    Cut,
    #[error("cannot read or write the link")]
    Io(#[source] io::Error),
    #[error("the other end broke the protocol")]
    Violation(#[source] Violation),
    #[error("the other end did not read for {} seconds", .0.as_secs())]
    NotReading(Duration),
    #[error("the other end did not {task} within {} seconds", .timeout.as_secs())]
    NotAnswering {
        /// Completes the sentence "did not …".
        task: &'static str,
        timeout: Duration,
    },
    /// The peer sent more than was requested. The text says what was requested.
    #[error("the other end sent more than {0}")]
    Excess(String),
}

impl LinkEnd {
    /// Whether the other end broke the protocol or stopped responding.
    fn is_peer_fault(&self) -> bool {
        matches!(
            self,
            Self::Violation(_) | Self::NotReading(_) | Self::NotAnswering { .. } | Self::Excess(_)
        )
    }
}

/// Sends the greeting `mine`, receives the peer's greeting, and returns the parts of a session.
pub async fn connect<R, W, Mine, Theirs>(
    reader: R,
    writer: W,
    role: LinkRole,
    limits: LinkLimits,
    mine: &Mine,
) -> Result<(Theirs, Link, IncomingStreams, LinkDriver<R, W>), ConnectError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
    Mine: Serialize,
    Theirs: DeserializeOwned,
{
    let shared = Arc::new(Mutex::new(Mux::new(role, limits)));
    let mut driver = LinkDriver {
        reader,
        writer,
        decoder: FrameDecoder::default(),
        shared: shared.clone(),
        // Only guests have a timeout: a user may suspend the host for hours.
        read_timeout: (role == LinkRole::Host).then_some(GUEST_READ_TIMEOUT),
    };
    driver.send_greeting(mine).await?;
    let theirs = driver.greeting().await?;
    let link = Link {
        shared: shared.clone(),
    };
    Ok((theirs, link, IncomingStreams { shared }, driver))
}

/// Opens streams. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Link {
    shared: SharedMux,
}

impl Link {
    /// Starts a stream; `None` when the link has ended.
    pub fn open(&self) -> Option<Stream> {
        let id = lock(&self.shared).open()?;
        Some(Stream::new(&self.shared, id))
    }

    /// Whether the link has ended.
    pub fn is_closed(&self) -> bool {
        lock(&self.shared).is_closed()
    }

    /// Ends the link: the driver stops and all streams break.
    pub fn close(&self) {
        lock(&self.shared).close(None);
    }

    /// Ends the link because of a fault of the other end. All streams break with this cause, which is
    /// also returned as an error.
    pub fn fail(&self, cause: LinkEnd) -> StreamError {
        lock(&self.shared).close(Some(cause));
        broken(&self.shared)
    }

    /// Waits for `future`, which depends on the other end. Fails the link after `timeout`. `task` says
    /// what was awaited and completes the sentence "did not …".
    pub async fn expect_within<T>(
        &self,
        timeout: Duration,
        task: &'static str,
        future: impl Future<Output = T>,
    ) -> Result<T, StreamError> {
        let output = suspend_tolerant_timeout(timeout, future).await;
        output.map_err(|timeout| self.fail(LinkEnd::NotAnswering { task, timeout }))
    }

    /// The fault of the other end that ended the link, if there was one.
    pub fn fault(&self) -> Option<Arc<LinkEnd>> {
        lock(&self.shared).fault()
    }
}

/// Accepts the streams that the other end opens.
#[derive(Debug)]
pub struct IncomingStreams {
    shared: SharedMux,
}

impl IncomingStreams {
    /// The next stream; `None` when the link has ended.
    pub async fn accept(&mut self) -> Option<Stream> {
        let id = poll_fn(|context| lock(&self.shared).poll_accept(context)).await?;
        Some(Stream::new(&self.shared, id))
    }
}

/// Moves the bytes of one link. The caller of [`connect`] must run it until it ends.
#[derive(Debug)]
pub struct LinkDriver<R, W> {
    reader: R,
    writer: W,
    decoder: FrameDecoder,
    shared: SharedMux,
    /// How long the peer may take to read one batch of frames; unlimited if `None`.
    read_timeout: Option<Duration>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> LinkDriver<R, W> {
    /// Ends the link if the peer takes longer than `timeout` to read a batch of frames.
    #[must_use]
    pub fn with_read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> LinkDriver<R, W> {
    async fn send_greeting(&mut self, body: &impl Serialize) -> Result<(), ConnectError> {
        let greeting = Greeting {
            magic: MAGIC,
            version: VERSION,
            body,
        };
        let frame = Frame {
            stream: 0,
            kind: FrameKind::Hello,
            payload: Bytes::from(postcard::to_stdvec(&greeting)?),
        };
        Ok(write_frames(&mut self.writer, &[frame]).await?)
    }

    async fn greeting<T: DeserializeOwned>(&mut self) -> Result<T, ConnectError> {
        let frame = loop {
            if let Some(frame) = self.decoder.next_frame()? {
                break frame;
            }
            if self.reader.read_buf(self.decoder.buffer()).await? == 0 {
                return Err(ConnectError::Closed);
            }
        };
        // Magic and version first: the format of the body may differ between versions.
        let (head, rest) = postcard::take_from_bytes::<([u8; 4], u16)>(&frame.payload)
            .map_err(|_| ConnectError::Stranger)?;
        match head {
            _ if frame.kind != FrameKind::Hello => Err(ConnectError::Stranger),
            (MAGIC, VERSION) => Ok(postcard::from_bytes(rest)?),
            (MAGIC, theirs) => Err(ConnectError::Version { theirs }),
            _ => Err(ConnectError::Stranger),
        }
    }

    /// Runs until the link ends, then breaks all streams. If the peer is at fault, stream operations
    /// fail with this cause.
    pub async fn run(self) -> Arc<LinkEnd> {
        let Self {
            reader,
            writer,
            decoder,
            shared,
            read_timeout,
        } = self;
        let ended = tokio::select! {
            ended = read_loop(reader, decoder, &shared) => ended,
            ended = write_loop(writer, &shared, read_timeout) => ended,
            fault = poll_fn(|context| lock(&shared).poll_fault(context)) => return fault,
        };
        let mut mux = lock(&shared);
        if ended.is_peer_fault() {
            mux.close(Some(ended));
            return mux.fault().unwrap_or_else(|| Arc::new(LinkEnd::Closed));
        }
        mux.close(None);
        Arc::new(ended)
    }
}

async fn read_loop<R: AsyncRead + Unpin>(
    mut reader: R,
    mut decoder: FrameDecoder,
    shared: &SharedMux,
) -> LinkEnd {
    loop {
        if let Err(violation) = deliver_frames(&mut decoder, shared) {
            return LinkEnd::Violation(violation);
        }
        match reader.read_buf(decoder.buffer()).await {
            Ok(0) if decoder.is_inside_frame() => return LinkEnd::Cut,
            Ok(0) => return LinkEnd::Closed,
            Ok(_) => {}
            Err(error) => return LinkEnd::Io(error),
        }
    }
}

/// Passes every complete frame to the mux.
fn deliver_frames(decoder: &mut FrameDecoder, shared: &SharedMux) -> Result<(), Violation> {
    let mut mux = lock(shared);
    while let Some(frame) = decoder.next_frame()? {
        mux.incoming(frame)?;
    }
    Ok(())
}

async fn write_loop<W: AsyncWrite + Unpin>(
    mut writer: W,
    shared: &SharedMux,
    timeout: Option<Duration>,
) -> LinkEnd {
    let mut batch = Vec::with_capacity(MAX_BATCH_FRAMES);
    loop {
        let more = poll_fn(|context| {
            let mut mux = lock(shared);
            match mux.poll_outgoing(context) {
                Poll::Ready(Some(frame)) => batch.push(frame),
                Poll::Ready(None) => return Poll::Ready(false),
                Poll::Pending => return Poll::Pending,
            }
            while batch.len() < MAX_BATCH_FRAMES {
                let Some(frame) = mux.next_outgoing() else {
                    break;
                };
                batch.push(frame);
            }
            Poll::Ready(true)
        })
        .await;
        if !more {
            return LinkEnd::Closed;
        }
        let written = write_frames(&mut writer, &batch);
        let written = match timeout {
            Some(timeout) => suspend_tolerant_timeout(timeout, written).await,
            None => Ok(written.await),
        };
        match written {
            Ok(Ok(())) => batch.clear(),
            Ok(Err(error)) => return LinkEnd::Io(error),
            Err(elapsed) => return LinkEnd::NotReading(elapsed),
        }
    }
}

async fn write_frames<W: AsyncWrite + Unpin>(writer: &mut W, frames: &[Frame]) -> io::Result<()> {
    let headers: Vec<[u8; HEADER_LEN]> = frames.iter().map(Frame::header).collect();
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(frames.len() * 2);
    for (header, frame) in headers.iter().zip(frames) {
        slices.push(IoSlice::new(header));
        slices.push(IoSlice::new(&frame.payload));
    }
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await?;
        if written == 0 && rest.iter().any(|slice| !slice.is_empty()) {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    writer.flush().await
}
