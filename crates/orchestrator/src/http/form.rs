//! Reads the fields of a multipart form one by one. The number of fields, the head of each, and the
//! total text are limited while reading. Only files may be larger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::multipart::Field;
use axum::extract::{FromRequest, Multipart, Request};
use futures_util::{Stream, StreamExt, stream};

use crate::http::body::BodyError;
use crate::http::problem::{HttpProblem, ProblemKind};

/// More than a form that has every field and the maximum number of network hosts.
const MAX_FIELDS: u32 = 300;

/// Maximum bytes before a field's content; usually a few hundred.
const MAX_FIELD_HEAD_BYTES: u64 = 256 << 10;

const MAX_FIELD_NAME_BYTES: usize = 64;

/// Bytes of a refused field that are still read, so that the client receives the response.
const MAX_DISCARDED_BYTES: usize = 16 << 20;

/// A form that is being received.
pub(crate) struct MultipartForm {
    multipart: Multipart,
    window: Arc<ReadWindow>,
    fields: u32,
}

impl MultipartForm {
    pub(crate) async fn open(request: Request) -> Result<Self, HttpProblem> {
        let window = Arc::new(ReadWindow(AtomicU64::new(MAX_FIELD_HEAD_BYTES)));
        let request = request.map(|body| {
            let pieces = body.into_data_stream();
            Body::from_stream(limit_to_window(pieces, Arc::clone(&window)))
        });
        let multipart = Multipart::from_request(request, &())
            .await
            .map_err(|rejection| HttpProblem::bad(rejection.body_text()))?;
        Ok(Self {
            multipart,
            window,
            fields: 0,
        })
    }

    /// The next field and its name. The previous field must have been read to its end.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Field<'_>)>, HttpProblem> {
        self.window.set(MAX_FIELD_HEAD_BYTES);
        let field = self.multipart.next_field().await;
        self.window.set(u64::MAX);
        let Some(field) = field.map_err(|error| HttpProblem::from_body_error(&error))? else {
            return Ok(None);
        };
        self.fields += 1;
        let name = field.name().unwrap_or_default().to_owned();
        let refusal = match () {
            () if self.fields > MAX_FIELDS => format!("the form has more than {MAX_FIELDS} fields"),
            () if name.len() > MAX_FIELD_NAME_BYTES => {
                format!(
                    "the form has a field whose name is longer than {MAX_FIELD_NAME_BYTES} bytes"
                )
            }
            () => return Ok(Some((name, field))),
        };
        discard(field).await;
        Err(HttpProblem::new(ProblemKind::TooLarge, refusal))
    }
}

/// Limits the total text of a form's fields.
pub(crate) struct TextBudget {
    limit: usize,
    left: usize,
}

impl TextBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// The whole content of a field.
    pub(crate) async fn read(&mut self, mut field: Field<'_>) -> Result<Vec<u8>, HttpProblem> {
        let mut text = Vec::new();
        while let Some(piece) = next_piece(&mut field).await? {
            let Some(left) = self.left.checked_sub(piece.len()) else {
                discard(field).await;
                let limit = self.limit;
                let detail = format!("the fields of the form are larger than {limit} bytes");
                return Err(HttpProblem::new(ProblemKind::TooLarge, detail));
            };
            self.left = left;
            text.extend_from_slice(&piece);
        }
        Ok(text)
    }
}

pub(crate) async fn next_piece(field: &mut Field<'_>) -> Result<Option<Bytes>, HttpProblem> {
    field
        .chunk()
        .await
        .map_err(|error| HttpProblem::from_body_error(&error))
}

/// Reads more of a refused field. A client that is still sending when the connection closes sees a
/// broken connection instead of the response.
pub(crate) async fn discard(mut field: Field<'_>) {
    let mut room = MAX_DISCARDED_BYTES;
    while let Ok(Some(piece)) = field.chunk().await {
        match room.checked_sub(piece.len()) {
            Some(left) => room = left,
            None => return,
        }
    }
}

/// Bytes of the body that may be read in the current part of the form.
struct ReadWindow(AtomicU64);

impl ReadWindow {
    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn take(&self, bytes: u64) -> Result<(), BodyError> {
        let left = self.0.load(Ordering::Relaxed);
        let left = left.checked_sub(bytes).ok_or(BodyError::FieldHead)?;
        // No race: only one task reads a form.
        self.set(left);
        Ok(())
    }
}

/// Limits a body to the window. The parser buffers everything that is ready before it parses any of
/// it. So at most one chunk is ready at a time, and the end comes after the last one.
fn limit_to_window(
    pieces: BodyDataStream,
    window: Arc<ReadWindow>,
) -> impl Stream<Item = Result<Bytes, axum::Error>> {
    let first = (pieces, window, true);
    stream::try_unfold(first, |(mut pieces, window, is_first)| async move {
        if !is_first {
            tokio::task::yield_now().await;
        }
        let Some(piece) = pieces.next().await.transpose()? else {
            return Ok(None);
        };
        let taken = window.take(piece.len() as u64);
        taken.map_err(axum::Error::new)?;
        Ok(Some((piece, (pieces, window, false))))
    })
}
