//! Checkpoints of the workspace: taken before the first change of a turn, restored by an undo.
//!
//! The guest does all reading and writing, inside the sandbox, so that no link or race in the workspace
//! can lead outside. Only files whose stamps differ from the last checkpoint are read; each content
//! is stored once.

mod planner;
mod restore;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use protocol::{Checkpoint, SessionId};
use sandbox::request::{FileKind, SurveyEntry};
use sandbox::{Sandbox, SandboxError};
use sha2::{Digest, Sha256};
use store::{ContentHash, FileRecord, FileStamp, RecordedKind, SessionStore, StoreError};
use tokio::task::JoinHandle;
use tracing::warn;

pub(crate) use self::planner::{RestoreTarget, files_after_restore, is_unrecorded};
pub(crate) use self::restore::{RestoreResult, restore};
use crate::error::AgentError;

/// Maximum number of files recorded.
pub(crate) const MAX_CHECKPOINT_FILES: u64 = 50_000;
/// Maximum bytes of a recorded file.
pub(crate) const MAX_CHECKPOINT_FILE_BYTES: u64 = 16 << 20;
/// Maximum bytes of all files of one checkpoint.
const MAX_CHECKPOINT_BYTES: u64 = 512 << 20;
/// Maximum bytes of all checkpoints of all sessions in the store.
const MAX_STORED_BYTES: u64 = 2 << 30;
/// Maximum files read concurrently.
const MAX_CONCURRENT_READS: usize = 8;
/// Bytes of content collected before they are sent to the store.
const STORE_BATCH_BYTES: usize = 8 << 20;
/// A file that changed this shortly before a checkpoint may have changed again without a new stamp,
/// so it is read again. In nanoseconds.
const STAMP_UNCERTAINTY_NS: i64 = 1_000_000_000;

/// Key in the list of skipped files that stands for all files beyond the limit.
const UNLISTED_FILES: &str = "(more)";

/// Files as recorded by a checkpoint, by path.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    files: HashMap<Vec<u8>, FileRecord>,
    /// Time of the checkpoint, in nanoseconds since the epoch.
    at: i64,
}

impl KnownFiles {
    /// Loads a checkpoint of an earlier process. Its exact time is not stored, so the time of its
    /// newest file is used.
    pub(crate) async fn load(
        store: &SessionStore,
        session: &SessionId,
        number: u32,
    ) -> Result<Self, StoreError> {
        let files = store.checkpoint(session, number).await?;
        Ok(Self::of(files.unwrap_or_default()))
    }

    /// From the files of a stored checkpoint.
    pub(crate) fn of(files: Vec<FileRecord>) -> Self {
        let at = files.iter().map(|file| file.stamp.changed).max();
        Self {
            at: at.unwrap_or_default(),
            files: files
                .into_iter()
                .map(|file| (file.path.clone(), file))
                .collect(),
        }
    }

    pub(crate) fn files(&self) -> &HashMap<Vec<u8>, FileRecord> {
        &self.files
    }

    /// The content of a file that has not changed since.
    pub(crate) fn content(&self, path: &[u8], size: u64, stamp: &FileStamp) -> Option<ContentHash> {
        let known = self.files.get(path)?;
        match &known.kind {
            RecordedKind::File {
                size: known_size,
                content,
            } if *known_size == size
                && known.stamp == *stamp
                && stamp.changed.max(stamp.modified) + STAMP_UNCERTAINTY_NS < self.at =>
            {
                Some(*content)
            }
            _ => None,
        }
    }
}

/// A first snapshot of all files, taken while the model thinks.
#[derive(Debug)]
pub(crate) struct SnapshotTask(JoinHandle<Result<WorkspaceSnapshot, AgentError>>);

impl SnapshotTask {
    pub(crate) fn start(
        sandbox: Arc<Sandbox>,
        store: SessionStore,
        known: Arc<KnownFiles>,
    ) -> Self {
        Self(tokio::spawn(async move {
            take_snapshot(&sandbox, &store, &known).await
        }))
    }

    /// Takes the final snapshot; only files that changed since the first are read again. `None` if that
    /// failed: the turn then has no checkpoint, and an undo restores no files.
    pub(crate) async fn finish(
        mut self,
        sandbox: &Sandbox,
        store: &SessionStore,
    ) -> Option<WorkspaceSnapshot> {
        let first = (&mut self.0).await.ok()?;
        let snapshot = match first {
            Ok(first) => take_snapshot(sandbox, store, &first.into_known()).await,
            Err(error) => Err(error),
        };
        match snapshot {
            Ok(snapshot) => Some(snapshot),
            Err(error) => {
                warn!(%error, "cannot make a checkpoint");
                None
            }
        }
    }

    /// Aborts, and waits until the reference to the sandbox is dropped.
    pub(crate) async fn cancel(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for SnapshotTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All files of a workspace, with their contents in the store.
#[derive(Debug)]
pub(crate) struct WorkspaceSnapshot {
    files: Vec<FileRecord>,
    bytes: u64,
    skipped: BTreeMap<String, String>,
    at: i64,
}

impl WorkspaceSnapshot {
    pub(crate) async fn save(
        &self,
        store: &SessionStore,
        session: &SessionId,
        number: u32,
    ) -> Result<Checkpoint, StoreError> {
        store
            .save_checkpoint(session, number, &self.files, MAX_STORED_BYTES)
            .await?;
        let is_file = |file: &&FileRecord| matches!(file.kind, RecordedKind::File { .. });
        Ok(Checkpoint {
            number,
            files: self.files.iter().filter(is_file).count() as u64,
            bytes: self.bytes,
            skipped: self.skipped.clone(),
        })
    }

    pub(crate) fn into_known(self) -> Arc<KnownFiles> {
        let files = self.files.into_iter();
        Arc::new(KnownFiles {
            files: files.map(|file| (file.path.clone(), file)).collect(),
            at: self.at,
        })
    }
}

pub(crate) async fn take_snapshot(
    sandbox: &Sandbox,
    store: &SessionStore,
    known: &KnownFiles,
) -> Result<WorkspaceSnapshot, AgentError> {
    let at = jiff::Timestamp::now().as_nanosecond() as i64;
    let (found, is_cut) = sandbox
        .survey("", MAX_CHECKPOINT_FILES)
        .await?
        .collect()
        .await?;
    let mut snapshot = WorkspaceSnapshot {
        files: Vec::with_capacity(found.len()),
        bytes: 0,
        skipped: BTreeMap::new(),
        at,
    };
    if is_cut {
        let why = format!("the workspace has more than {MAX_CHECKPOINT_FILES} files");
        snapshot.skipped.insert(UNLISTED_FILES.to_owned(), why);
    }
    let mut to_read = Vec::new();
    for entry in found {
        let kind = match (entry.kind, &entry.target) {
            (FileKind::Folder, _) => {
                // The turn's commands may unlock it; its content must not count as created by the turn then.
                if entry.mode & 0o500 != 0o500 {
                    let why = "its content cannot be listed".to_owned();
                    snapshot.skipped.insert(entry.path.to_string(), why);
                }
                RecordedKind::Folder
            }
            (FileKind::Symlink, Some(target)) => RecordedKind::Symlink {
                target: target.0.clone(),
            },
            (FileKind::File, _) => {
                if let Some(why) = snapshot.skip_reason(&entry) {
                    snapshot.skipped.insert(entry.path.to_string(), why);
                    continue;
                }
                match known.content(&entry.path.0, entry.size, &stamp(&entry)) {
                    Some(content) => RecordedKind::File {
                        size: entry.size,
                        content,
                    },
                    None => {
                        to_read.push(entry);
                        continue;
                    }
                }
            }
            _ => {
                let why = "it is neither a file, a folder nor a symlink".to_owned();
                snapshot.skipped.insert(entry.path.to_string(), why);
                continue;
            }
        };
        snapshot.files.push(file_record(entry, kind));
    }
    read_all(sandbox, store, &mut snapshot, to_read).await?;
    snapshot
        .files
        .sort_by(|one, other| one.path.cmp(&other.path));
    Ok(snapshot)
}

impl WorkspaceSnapshot {
    /// Why a file is not recorded. If it is, counts its bytes.
    fn skip_reason(&mut self, entry: &SurveyEntry) -> Option<String> {
        if entry.size > MAX_CHECKPOINT_FILE_BYTES {
            return Some(format!(
                "it is larger than {} MiB",
                MAX_CHECKPOINT_FILE_BYTES >> 20
            ));
        }
        if self.bytes + entry.size > MAX_CHECKPOINT_BYTES {
            let most = MAX_CHECKPOINT_BYTES >> 20;
            return Some(format!("the checkpoint would exceed {most} MiB"));
        }
        self.bytes += entry.size;
        None
    }
}

/// Reads files concurrently, and stores their contents in batches.
async fn read_all(
    sandbox: &Sandbox,
    store: &SessionStore,
    snapshot: &mut WorkspaceSnapshot,
    files: Vec<SurveyEntry>,
) -> Result<(), AgentError> {
    let reads = stream::iter(files.into_iter().map(|entry| async move {
        let content = sandbox
            .read_file(path(&entry.path.0), 0, Some(MAX_CHECKPOINT_FILE_BYTES))
            .await;
        (entry, content)
    }));
    let mut reads = std::pin::pin!(reads.buffer_unordered(MAX_CONCURRENT_READS));
    let (mut batch, mut size) = (Vec::new(), 0);
    while let Some((entry, outcome)) = reads.next().await {
        let content = match outcome {
            Ok((_, content)) => content,
            Err(SandboxError::Refused(refusal)) => {
                snapshot
                    .skipped
                    .insert(entry.path.to_string(), refusal.message);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let hash = ContentHash(Sha256::digest(&content).into());
        let kind = RecordedKind::File {
            size: content.len() as u64,
            content: hash,
        };
        snapshot.files.push(file_record(entry, kind));
        size += content.len();
        batch.push((hash, content));
        if size >= STORE_BATCH_BYTES {
            store_missing(store, std::mem::take(&mut batch)).await?;
            size = 0;
        }
    }
    store_missing(store, batch).await?;
    Ok(())
}

/// Stores the contents that are missing.
async fn store_missing(
    store: &SessionStore,
    mut batch: Vec<(ContentHash, Vec<u8>)>,
) -> Result<(), StoreError> {
    if batch.is_empty() {
        return Ok(());
    }
    let hashes: Vec<ContentHash> = batch.iter().map(|(hash, _)| *hash).collect();
    let missing = store.missing(&hashes).await?;
    batch.retain(|(hash, _)| missing.contains(hash));
    store.put_contents(batch).await
}

pub(crate) fn stamp(entry: &SurveyEntry) -> FileStamp {
    FileStamp {
        inode: entry.inode,
        modified: entry.modified_ns,
        changed: entry.changed_ns,
    }
}

fn file_record(entry: SurveyEntry, kind: RecordedKind) -> FileRecord {
    FileRecord {
        mode: entry.mode,
        stamp: stamp(&entry),
        path: entry.path.0,
        kind,
    }
}

pub(crate) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
