//! Lists folders, and sends long answers from a worker to the link in batches.

use std::path::Path;
use std::rc::Rc;

use ignore::overrides::{Override, OverrideBuilder};
use link::Stream;
use link::request::{Batch, ByteString, FileKind, GuestResult, ListEntry, ListRequest, Truncated};
use nix::errno::Errno;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::files::kind_of;
use crate::refusal::{PathContext, refuse, refuse_with};
use crate::session::Guest;
use crate::walk::{SkipPolicy, Walk};

/// Maximum number of items in one batch.
const MAX_BATCH_ITEMS: usize = 256;

pub(crate) async fn list(guest: &Rc<Guest>, request: ListRequest, stream: Stream) {
    let root = guest.resolve(Some(&request.path));
    batches(guest, stream, move |out| walk(&root, &request, out)).await;
}

fn walk(
    root: &Path,
    request: &ListRequest,
    out: &mut BatchSender<ListEntry>,
) -> GuestResult<Truncated> {
    std::fs::read_dir(root).on("list", root)?;
    let globs = globs(root, &request.globs)?;
    let passing = SkipPolicy::of(request.ignore, request.hidden);
    for found in Walk::new(root, request.depth, passing) {
        let kind = kind_of(found.kind);
        let is_wanted = globs.is_empty()
            || kind != FileKind::Folder && !globs.matched(&found.path, false).is_ignore();
        if !is_wanted {
            continue;
        }
        let size = match kind {
            FileKind::File => found
                .path
                .symlink_metadata()
                .map_or(0, |metadata| metadata.len()),
            _ => 0,
        };
        if out.sent >= request.limit {
            return Ok(Truncated(true));
        }
        let path = found.path.strip_prefix(root).unwrap_or(&found.path);
        let item = ListEntry {
            path: ByteString::from(path),
            kind,
            size,
            target: match kind {
                FileKind::Symlink => std::fs::read_link(&found.path).ok().map(ByteString::from),
                _ => None,
            },
        };
        if out.push(item).is_break() {
            break;
        }
    }
    Ok(Truncated(false))
}

/// Collects the items of a long answer on a worker, and sends them in batches.
pub(crate) struct BatchSender<T> {
    channel: mpsc::Sender<Batch<T>>,
    waiting: Vec<T>,
    pub(crate) sent: u64,
}

impl<T> BatchSender<T> {
    /// Breaks if the receiver is gone.
    pub(crate) fn push(&mut self, item: T) -> std::ops::ControlFlow<()> {
        self.waiting.push(item);
        self.sent += 1;
        if self.waiting.len() >= MAX_BATCH_ITEMS {
            self.flush()
        } else {
            std::ops::ControlFlow::Continue(())
        }
    }

    fn flush(&mut self) -> std::ops::ControlFlow<()> {
        let items = std::mem::take(&mut self.waiting);
        match self.channel.blocking_send(Batch::Items(items)) {
            Ok(()) => std::ops::ControlFlow::Continue(()),
            Err(_) => std::ops::ControlFlow::Break(()),
        }
    }
}

/// Runs `produce` on a worker and streams its items.
pub(crate) async fn batches<T: Serialize + Send + 'static>(
    guest: &Rc<Guest>,
    stream: Stream,
    produce: impl FnOnce(&mut BatchSender<T>) -> GuestResult<Truncated> + Send + 'static,
) {
    let (channel, mut batches) = mpsc::channel(4);
    let (mut sender, mut receiver) = stream.split();
    if !guest.workers.ensure_thread() {
        // Without a thread of its own, `produce` would wait for this task to receive its batches.
        let refusal = refuse("read folders", Errno::EAGAIN);
        let _ = sender.send(&Batch::<T>::Done(Err(refusal))).await;
        return;
    }
    guest.workers.submit(move || {
        let mut out = BatchSender {
            channel,
            waiting: Vec::new(),
            sent: 0,
        };
        let outcome = produce(&mut out);
        if !out.waiting.is_empty() {
            let _ = out.flush();
        }
        let _ = out.channel.blocking_send(Batch::Done(outcome));
    });
    loop {
        tokio::select! {
            batch = batches.recv() => match batch {
                Some(batch) if sender.send(&batch).await.is_ok() => {}
                _ => return,
            },
            () = receiver.wait_until_peer_stops() => return,
        }
    }
}

/// Compiles globs that a file must match, or must not match if prefixed with `!`.
pub(crate) fn globs(root: &Path, globs: &[String]) -> GuestResult<Override> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder
            .add(glob)
            .map_err(|error| bad_pattern("the glob", error))?;
    }
    builder
        .build()
        .map_err(|error| bad_pattern("the globs", error))
}

/// A refusal for an invalid pattern.
pub(crate) fn bad_pattern(what: &str, error: impl std::fmt::Display) -> link::request::Refusal {
    refuse_with(
        link::request::RefusalKind::Invalid,
        format!("cannot understand {what}: {error}"),
    )
}
