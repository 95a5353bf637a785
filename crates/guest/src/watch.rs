//! Watches a folder and all below it for changes, with the kernel's inotify.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use link::Stream;
use link::request::{Batch, Change, ChangeKind, Raw, Truncated};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use crate::readiness::{Source, register};
use crate::refusal::refuse;
use crate::session::Guest;
use crate::walk::{Passing, Walk};

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_CLOSE_WRITE)
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

pub(crate) async fn watch(guest: &Rc<Guest>, path: Raw, mut stream: Stream) {
    let root = guest.resolve(Some(&path));
    let watched = Watch::new(&root);
    let mut watch = match watched {
        Ok(watch) => watch,
        Err(error) => {
            let what = format!("watch `{}`", root.display());
            let refused: Batch<Change> = Batch::Done(Err(refuse(what, error)));
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
            () = receiver.peer_stops() => return,
        };
    }
    let _ = sender
        .send(&Batch::<Change>::Done(Ok(Truncated(false))))
        .await;
}

struct Watch {
    inotify: AsyncFd<Source<Inotify>>,
    root: PathBuf,
    folders: HashMap<WatchDescriptor, PathBuf>,
}

impl Watch {
    fn new(root: &Path) -> io::Result<Self> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let mut watch = Self {
            inotify: register(Inotify::init(flags)?)?,
            root: root.to_owned(),
            folders: HashMap::new(),
        };
        // The root itself must be watchable; what vanishes below it meanwhile need not be.
        watch.add(root)?;
        watch.add_below(root);
        Ok(watch)
    }

    fn add(&mut self, folder: &Path) -> io::Result<()> {
        let descriptor = self.inotify.get_ref().0.add_watch(folder, EVENTS)?;
        self.folders.insert(descriptor, folder.to_owned());
        Ok(())
    }

    fn add_below(&mut self, folder: &Path) {
        for found in Walk::new(folder, u32::MAX, Passing::Nothing) {
            if found.kind.is_dir() {
                let _ = self.add(&found.path);
            }
        }
    }

    async fn next(&mut self) -> io::Result<Vec<Change>> {
        loop {
            let events = {
                let mut ready = self.inotify.readable().await?;
                match ready.try_io(|inotify| Ok(inotify.get_ref().0.read_events()?)) {
                    Ok(events) => events?,
                    Err(_) => continue,
                }
            };
            let changes: Vec<Change> = events
                .into_iter()
                .flat_map(|event| self.changes(event))
                .collect();
            if !changes.is_empty() {
                return Ok(changes);
            }
        }
    }

    fn changes(&mut self, event: InotifyEvent) -> Vec<Change> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            let path = Raw::from("");
            return vec![Change {
                path,
                kind: ChangeKind::Overflow,
            }];
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.folders.remove(&event.wd);
            return Vec::new();
        }
        let Some(folder) = self.folders.get(&event.wd) else {
            return Vec::new();
        };
        let path = event.name.map_or(folder.clone(), |name| folder.join(name));
        let appears = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let goes = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVED_FROM;
        let kind = if event.mask.intersects(appears) {
            ChangeKind::Created
        } else if event.mask.intersects(goes) {
            ChangeKind::Removed
        } else {
            ChangeKind::Modified
        };
        let mut changes = vec![self.change(&path, kind)];
        if kind == ChangeKind::Created && event.mask.contains(AddWatchFlags::IN_ISDIR) {
            let _ = self.add(&path);
            self.add_below(&path);
            // What was put into the new folder before its watch stood.
            for found in Walk::new(&path, u32::MAX, Passing::Nothing) {
                changes.push(self.change(&found.path, ChangeKind::Created));
            }
        }
        changes
    }

    fn change(&self, path: &Path, kind: ChangeKind) -> Change {
        let path = Raw::from(path.strip_prefix(&self.root).unwrap_or(path));
        Change { path, kind }
    }
}
