//! Watches a folder and everything below it for changes, with inotify.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use link::Stream;
use link::request::{Batch, ByteString, PathChange, PathChangeKind, Truncated};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use crate::readiness::{DescriptorOwner, register};
use crate::refusal::refuse;
use crate::session::Guest;

const WATCHED_EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

pub(crate) async fn watch(guest: &Rc<Guest>, path: ByteString, mut stream: Stream) {
    let root = guest.resolve(Some(&path));
    let watched = FolderWatch::new(&root).await;
    let mut watch = match watched {
        Ok(watch) => watch,
        Err(error) => {
            let what = format!("watch `{}`", root.display());
            let refused: Batch<PathChange> = Batch::Done(Err(refuse(what, error)));
            let _ = stream.send(&refused).await;
            return;
        }
    };
    let (mut sender, mut receiver) = stream.split();
    let mut changes = Vec::new();
    loop {
        if sender.send(&Batch::Items(changes)).await.is_err() {
            return;
        }
        changes = tokio::select! {
            changes = watch.next() => match changes {
                Ok(changes) => changes,
                Err(_) => break,
            },
            () = receiver.wait_until_peer_stops() => return,
        };
    }
    let _ = sender
        .send(&Batch::<PathChange>::Done(Ok(Truncated(false))))
        .await;
}

struct FolderWatch {
    inotify: AsyncFd<DescriptorOwner<Inotify>>,
    root: PathBuf,
    folders: HashMap<WatchDescriptor, PathBuf>,
}

impl FolderWatch {
    async fn new(root: &Path) -> io::Result<Self> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let mut watch = Self {
            inotify: register(Inotify::init(flags)?)?,
            root: root.to_owned(),
            folders: HashMap::new(),
        };
        // A watch on the root must succeed. Folders below it may vanish meanwhile.
        watch.add(root)?;
        watch.add_recursively(root, None).await;
        Ok(watch)
    }

    fn add(&mut self, folder: &Path) -> io::Result<()> {
        let descriptor = self.inotify.get_ref().0.add_watch(folder, WATCHED_EVENTS)?;
        self.folders.insert(descriptor, folder.to_owned());
        Ok(())
    }

    /// Watches a folder and everything below it, and adds its entries to `told` as created. Yields to other
    /// tasks on the way, because a hostile command may have made the tree large.
    async fn add_recursively(&mut self, folder: &Path, mut told: Option<&mut Vec<PathChange>>) {
        const FOLDERS_PER_YIELD: usize = 16;
        let mut ahead = vec![folder.to_owned()];
        for number in 1.. {
            let Some(folder) = ahead.pop() else {
                return;
            };
            // Add the watch before reading the folder, so that later changes cause events.
            let _ = self.add(&folder);
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if let Some(told) = &mut told {
                    told.push(self.change(&entry.path(), PathChangeKind::Created));
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    ahead.push(entry.path());
                }
            }
            if number % FOLDERS_PER_YIELD == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn next(&mut self) -> io::Result<Vec<PathChange>> {
        loop {
            let events = {
                let mut ready = self.inotify.readable().await?;
                match ready.try_io(|inotify| Ok(inotify.get_ref().0.read_events()?)) {
                    Ok(events) => events?,
                    Err(_) => continue,
                }
            };
            let (mut changes, mut new_folders) = (Vec::new(), Vec::new());
            for event in events {
                changes.extend(self.convert_event(event, &mut new_folders));
            }
            for folder in new_folders {
                self.add_recursively(&folder, Some(&mut changes)).await;
            }
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    /// Converts an event to a change. Adds a created folder to `new_folders` once, even if it was created
    /// and removed many times.
    fn convert_event(
        &mut self,
        event: InotifyEvent,
        new_folders: &mut Vec<PathBuf>,
    ) -> Option<PathChange> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            let path = ByteString::from("");
            return Some(PathChange {
                path,
                kind: PathChangeKind::Overflow,
            });
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.folders.remove(&event.wd);
            return None;
        }
        let folder = self.folders.get(&event.wd)?;
        let path = event.name.map_or(folder.clone(), |name| folder.join(name));
        let appears = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let goes = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
        let kind = if event.mask.intersects(appears) {
            PathChangeKind::Created
        } else if event.mask.intersects(goes) {
            PathChangeKind::Removed
        } else {
            PathChangeKind::Modified
        };
        let change = self.change(&path, kind);
        let is_folder = event.mask.contains(AddWatchFlags::IN_ISDIR);
        if kind == PathChangeKind::Created && is_folder && !new_folders.contains(&path) {
            new_folders.push(path);
        }
        Some(change)
    }

    fn change(&self, path: &Path, kind: PathChangeKind) -> PathChange {
        let path = ByteString::from(path.strip_prefix(&self.root).unwrap_or(path));
        PathChange { path, kind }
    }
}
