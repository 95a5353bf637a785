//! File operations with the permissions of the sandbox's user.
//!
//! All of this runs inside the sandbox: a path, a symlink or a race can lead anywhere in the sandbox, but
//! never outside.

use std::fs::{self, File, Metadata as FileMetadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use link::request::{
    ByteString, FileKind, GuestResult, PathMetadata, ReadFileRequest, RefusalKind,
    WriteFileRequest, WriteMode,
};
use link::{LinkItem, Stream};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use nix::unistd::linkat;

use crate::descriptors;
use crate::refusal::{PathContext, refuse_with};
use crate::session::Guest;
use crate::walk::open_nonblocking;

/// Maximum size of one read from disk.
const READ_CHUNK_BYTES: usize = 256 * 1024;

pub(crate) fn describe(path: &Path, metadata: &FileMetadata) -> PathMetadata {
    let kind = kind_of(metadata.file_type());
    PathMetadata {
        kind,
        size: metadata.len(),
        mode: metadata.permissions().mode() & 0o7777,
        modified: metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
        target: match kind {
            FileKind::Symlink => fs::read_link(path).ok().map(ByteString::from),
            _ => None,
        },
    }
}

pub(crate) fn kind_of(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Folder
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

pub(crate) async fn read(guest: &Rc<Guest>, request: ReadFileRequest, mut stream: Stream) {
    let path = guest.resolve(Some(&request.path));
    let opened = guest.workers.run(move || open_for_reading(&path)).await;
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        Err(refusal) => {
            let _ = stream
                .send(&GuestResult::<PathMetadata>::Err(refusal))
                .await;
            return;
        }
    };
    if stream.send(&GuestResult::Ok(metadata)).await.is_err() {
        return;
    }
    let (mut sender, _receiver) = stream.split();
    let mut file = file;
    let mut offset = request.offset;
    let mut left = request.length.unwrap_or(u64::MAX);
    while left > 0 {
        let size = left.min(READ_CHUNK_BYTES as u64) as usize;
        let (same, chunk) = guest
            .workers
            .run(move || {
                let chunk = read_chunk(&file, offset, size);
                (file, chunk)
            })
            .await;
        file = same;
        let Ok(chunk) = chunk else {
            return;
        };
        if chunk.is_empty() {
            break;
        }
        offset += chunk.len() as u64;
        left -= chunk.len() as u64;
        if sender.send_data(chunk).await.is_err() {
            return;
        }
    }
    sender.end();
}

fn open_for_reading(path: &Path) -> GuestResult<(File, PathMetadata)> {
    let file = open_nonblocking(path).on("read", path)?;
    let metadata = file.metadata().on("read", path)?;
    if !metadata.is_file() {
        let message = format!("cannot read `{}`: it is not a regular file", path.display());
        return Err(refuse_with(RefusalKind::WrongType, message));
    }
    let described = describe(path, &metadata);
    Ok((file, described))
}

fn read_chunk(file: &File, offset: u64, size: usize) -> io::Result<Bytes> {
    let mut buffer = vec![0; size];
    let length = file.read_at(&mut buffer, offset)?;
    buffer.truncate(length);
    Ok(buffer.into())
}

pub(crate) async fn write(guest: &Rc<Guest>, request: WriteFileRequest, mut stream: Stream) {
    let answer = receive_content(guest, request, &mut stream).await;
    let _ = stream.send(&answer).await;
}

async fn receive_content(
    guest: &Rc<Guest>,
    request: WriteFileRequest,
    stream: &mut Stream,
) -> GuestResult<()> {
    let path = guest.resolve(Some(&request.path));
    let mut draft = guest
        .workers
        .run(move || FileDraft::open(path, &request))
        .await?;
    loop {
        match stream.receive().await {
            Ok(Some(LinkItem::Data(bytes))) => {
                draft = guest
                    .workers
                    .run(move || {
                        draft
                            .file
                            .write_all(&bytes)
                            .on("write", &draft.path)
                            .map(|()| draft)
                    })
                    .await?;
            }
            Ok(None) => return guest.workers.run(move || draft.publish()).await,
            Ok(Some(_)) | Err(_) => {
                let message = "cannot write: the content ended early";
                return Err(refuse_with(RefusalKind::Other, message));
            }
        }
    }
}

/// A file that is being written. Leaves nothing behind if it is dropped before it is published.
struct FileDraft {
    file: File,
    path: PathBuf,
    content: DraftStorage,
    mode: WriteMode,
}

/// Where the content is stored until it is complete.
enum DraftStorage {
    /// Appended to the file itself.
    Itself,
    /// In an unnamed file (`O_TMPFILE`), which disappears even if this process is killed.
    Nameless,
    /// In a temporary file in the same folder, if the file system does not support `O_TMPFILE`.
    Aside(PathBuf),
}

impl FileDraft {
    fn open(path: PathBuf, request: &WriteFileRequest) -> GuestResult<Self> {
        // Follow a symlink and write to its target, as any other program would.
        let path = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() && request.mode != WriteMode::Create => {
                fs::canonicalize(&path).on("write", &path)?
            }
            _ => path,
        };
        let existing = fs::symlink_metadata(&path).ok();
        if let Some(existing) = &existing {
            if request.mode == WriteMode::Create {
                return Err(io::Error::from_raw_os_error(libc::EEXIST)).on("create", &path);
            }
            if !existing.is_file() {
                let message = format!(
                    "cannot write `{}`: it is not a regular file",
                    path.display()
                );
                return Err(refuse_with(RefusalKind::WrongType, message));
            }
        } else if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).on("make the folder of", &path)?;
        }
        let mode = request
            .permissions
            .or(existing.map(|existing| existing.permissions().mode() & 0o777))
            .unwrap_or(0o644);
        let mut options = OpenOptions::new();
        options
            .mode(mode)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        if request.mode == WriteMode::Append {
            let file = options
                .append(true)
                .create(true)
                .open(&path)
                .on("append to", &path)?;
            return Ok(Self {
                file,
                path,
                content: DraftStorage::Itself,
                mode: request.mode,
            });
        }
        let (file, content) = match open_unnamed(&path, mode) {
            Ok(file) => (file, DraftStorage::Nameless),
            Err(_) => {
                let aside = aside(&path);
                let file = options
                    .write(true)
                    .create_new(true)
                    .open(&aside)
                    .on("write", &path)?;
                (file, DraftStorage::Aside(aside))
            }
        };
        let draft = Self {
            file,
            path,
            content,
            mode: request.mode,
        };
        // The umask must not remove requested bits.
        draft
            .file
            .set_permissions(fs::Permissions::from_mode(mode))
            .on("write", &draft.path)?;
        Ok(draft)
    }

    fn publish(mut self) -> GuestResult<()> {
        let published = match std::mem::replace(&mut self.content, DraftStorage::Itself) {
            DraftStorage::Itself => Ok(()),
            DraftStorage::Nameless => self.publish_unnamed(),
            DraftStorage::Aside(aside) => self.publish_temporary(&aside),
        };
        published.on("write", &self.path)
    }

    /// Links the unnamed file at its path. Only if that replaces a file, a temporary name is needed for a
    /// moment.
    fn publish_unnamed(&self) -> io::Result<()> {
        match link_unnamed(&self.file, &self.path) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && self.mode != WriteMode::Create =>
            {
                let aside = aside(&self.path);
                link_unnamed(&self.file, &aside)?;
                self.publish_temporary(&aside)
            }
            named => named,
        }
    }

    fn publish_temporary(&self, aside: &Path) -> io::Result<()> {
        let published = match self.mode {
            // A hard link fails if the target exists; a rename replaces it.
            WriteMode::Create => {
                fs::hard_link(aside, &self.path).and_then(|()| fs::remove_file(aside))
            }
            _ => fs::rename(aside, &self.path),
        };
        if published.is_err() {
            let _ = fs::remove_file(aside);
        }
        published
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        if let DraftStorage::Aside(aside) = &self.content {
            let _ = fs::remove_file(aside);
        }
    }
}

/// Opens an unnamed file in the folder of `path`.
fn open_unnamed(path: &Path, mode: u32) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut options = OpenOptions::new();
    options.write(true).mode(mode).custom_flags(libc::O_TMPFILE);
    options.open(folder)
}

/// Links an unnamed file at a path. Fails if the path exists.
fn link_unnamed(file: &File, path: &Path) -> io::Result<()> {
    let (folder, held) = descriptors::fd_path(file);
    let flags = AtFlags::AT_SYMLINK_FOLLOW;
    Ok(linkat(folder, &held, AT_FDCWD, path, flags)?)
}

/// A temporary path in the folder of `path`.
fn aside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.subsec_nanos());
    path.with_file_name(format!(".hotcell-{nanos:x}-{number:x}"))
}

pub(crate) async fn rename(guest: &Rc<Guest>, from: ByteString, to: ByteString, stream: Stream) {
    let (from, to) = (guest.resolve(Some(&from)), guest.resolve(Some(&to)));
    run_and_answer(guest, stream, move || {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).on("make the folder of", &to)?;
        }
        fs::rename(&from, &to).on("rename", &from)
    })
    .await;
}

pub(crate) async fn remove(guest: &Rc<Guest>, path: ByteString, recursive: bool, stream: Stream) {
    let path = guest.resolve(Some(&path));
    run_and_answer(guest, stream, move || {
        let metadata = fs::symlink_metadata(&path).on("remove", &path)?;
        match (metadata.is_dir(), recursive) {
            (true, true) => fs::remove_dir_all(&path),
            (true, false) => fs::remove_dir(&path),
            (false, _) => fs::remove_file(&path),
        }
        .on("remove", &path)
    })
    .await;
}

pub(crate) async fn make_folder(guest: &Rc<Guest>, path: ByteString, stream: Stream) {
    let path = guest.resolve(Some(&path));
    run_and_answer(guest, stream, move || {
        fs::create_dir_all(&path).on("make", &path)
    })
    .await;
}

pub(crate) async fn make_link(
    guest: &Rc<Guest>,
    path: ByteString,
    target: ByteString,
    stream: Stream,
) {
    let path = guest.resolve(Some(&path));
    run_and_answer(guest, stream, move || {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).on("make the folder of", &path)?;
        }
        let aside = aside(&path);
        symlink(target.as_path(), &aside).on("make a link at", &path)?;
        let published = fs::rename(&aside, &path);
        if published.is_err() {
            let _ = fs::remove_file(&aside);
        }
        published.on("make a link at", &path)
    })
    .await;
}

pub(crate) async fn set_mode(guest: &Rc<Guest>, path: ByteString, mode: u32, stream: Stream) {
    let path = guest.resolve(Some(&path));
    run_and_answer(guest, stream, move || {
        let refuse = |kind, why: &str| {
            let message = format!("cannot set the mode of `{}`: {why}", path.display());
            Err(refuse_with(kind, message))
        };
        if mode & !0o777 != 0 {
            return refuse(RefusalKind::Invalid, "only permission bits can be set");
        }
        let held = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
            .open(&path)
            .on("set the mode of", &path)?;
        let metadata = held.metadata().on("set the mode of", &path)?;
        if metadata.is_symlink() {
            return refuse(RefusalKind::WrongType, "it is a symlink");
        }
        // Change the open file: the path may lead to another file by now.
        let (folder, held_path) = descriptors::fd_path(&held);
        let mode = Mode::from_bits_truncate(mode);
        fchmodat(folder, &held_path, mode, FchmodatFlags::FollowSymlink)
            .map_err(io::Error::from)
            .on("set the mode of", &path)
    })
    .await;
}

pub(crate) async fn stat(guest: &Rc<Guest>, path: ByteString, stream: Stream) {
    let path = guest.resolve(Some(&path));
    run_and_answer(guest, stream, move || {
        let metadata = fs::symlink_metadata(&path).on("inspect", &path)?;
        Ok(describe(&path, &metadata))
    })
    .await;
}

/// Runs blocking work and sends its answer.
pub(crate) async fn run_and_answer<T: serde::Serialize + Send + 'static>(
    guest: &Rc<Guest>,
    mut stream: Stream,
    work: impl FnOnce() -> GuestResult<T> + Send + 'static,
) {
    let answer = guest.workers.run(work).await;
    let _ = stream.send(&answer).await;
}
