//! The files that the kernel inside knows by number, and their last known names. Accesses no files.
//!
//! A node is a file, not a name: hard links are one node with several places. It holds a descriptor
//! only if its last name is gone while the kernel still knows it. Numbers are never reused, so a stale
//! number cannot refer to another file.

mod kernel_cache;

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::descriptors::DescriptorCache;
use super::stat::{FileIdentity, FileVersion};
pub(super) use kernel_cache::CachedEntry;

/// Node number of the shared folder.
pub(super) const ROOT_NODE: u64 = 1;
const MAX_NODES: usize = 1 << 20;
/// Most names that are stored for one file; the most recent ones.
const MAX_LOCATIONS: usize = 16;
/// Most levels to the root. Deeper than a program can create in reasonable time.
const MAX_DEPTH: usize = 1 << 16;

#[derive(Debug)]
struct Node {
    identity: FileIdentity,
    /// The kernel's lookup count. It decreases with `Forget`.
    lookups: u64,
    /// The most recent last. A folder has only one.
    places: Vec<NodeLocation>,
    /// Entries that the kernel knows; `None` for entries that it knows not to exist.
    children: HashMap<Arc<CStr>, Option<u64>>,
    /// Set when the last name was removed.
    held: Option<Arc<OwnedFd>>,
    watch: WatchState,
    /// The version of the attributes that the kernel may have cached.
    told: Option<FileVersion>,
    /// Number of handles open for writing.
    writers: u32,
}

/// Whether a folder is watched for changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchState {
    NotYet,
    /// The host's inotify limit is reached, or the folder cannot be read.
    Impossible,
    Kept(i32),
}

/// An entry of a folder.
#[derive(Debug, Clone)]
pub(super) struct NodeLocation {
    pub(super) folder: u64,
    pub(super) name: Arc<CStr>,
}

/// One step down to a folder.
#[derive(Debug)]
pub(super) struct PathStep {
    pub(super) node: u64,
    pub(super) identity: FileIdentity,
    pub(super) name: Arc<CStr>,
}

/// The nearest open folder, or `None` for the root, and the steps from there in reverse order.
pub(super) type FolderPath = (Option<Arc<OwnedFd>>, Vec<PathStep>);

#[derive(Debug)]
pub(super) struct Nodes {
    known: HashMap<u64, Node>,
    by_identity: HashMap<FileIdentity, u64>,
    folders: DescriptorCache,
    next: u64,
    held: usize,
    most_held: usize,
    watches: HashMap<i32, u64>,
    /// Number of entries that are cached as absent.
    absent: usize,
}

/// The resources of a removed node. Dropping it closes descriptors, so drop it without a lock held.
#[derive(Debug, Default)]
pub(super) struct ReleasedNode {
    _held: Option<Arc<OwnedFd>>,
    _folder: Option<Arc<OwnedFd>>,
    pub(super) watch: Option<i32>,
}

impl Nodes {
    pub(super) fn new(root: FileIdentity, most_folders: usize, most_held: usize) -> Self {
        let mut nodes = Self {
            known: HashMap::new(),
            by_identity: HashMap::new(),
            folders: DescriptorCache::new(most_folders),
            next: ROOT_NODE,
            held: 0,
            most_held,
            watches: HashMap::new(),
            absent: 0,
        };
        nodes.add(root);
        nodes
    }

    fn add(&mut self, identity: FileIdentity) -> u64 {
        let number = self.next;
        self.next += 1;
        let node = Node {
            identity,
            lookups: 0,
            places: Vec::new(),
            children: HashMap::new(),
            held: None,
            watch: WatchState::NotYet,
            told: None,
            writers: 0,
        };
        self.known.insert(number, node);
        self.by_identity.insert(identity, number);
        number
    }

    /// Registers a lookup of a file that was found under a name.
    pub(super) fn remember(
        &mut self,
        folder: u64,
        name: &CStr,
        identity: FileIdentity,
    ) -> Result<u64, Errno> {
        let number = self.find_or_add(identity)?;
        self.put(folder, name, number);
        Ok(number)
    }

    /// Registers a lookup of a file without a name.
    pub(super) fn remember_nameless(
        &mut self,
        identity: FileIdentity,
        file: Arc<OwnedFd>,
    ) -> Result<u64, Errno> {
        if self.held >= self.most_held {
            return Err(Errno::NFILE);
        }
        let number = self.find_or_add(identity)?;
        self.hold(number, file);
        Ok(number)
    }

    fn find_or_add(&mut self, identity: FileIdentity) -> Result<u64, Errno> {
        let number = match self.by_identity.get(&identity) {
            Some(number) => *number,
            None if self.known.len() >= MAX_NODES => return Err(Errno::NFILE),
            None => self.add(identity),
        };
        if let Some(node) = self.known.get_mut(&number) {
            node.lookups = node.lookups.saturating_add(1);
        }
        Ok(number)
    }

    pub(super) fn forget(&mut self, number: u64, lookups: u64) -> ReleasedNode {
        let Some(node) = self.known.get_mut(&number) else {
            return ReleasedNode::default();
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 || number == ROOT_NODE {
            return ReleasedNode::default();
        }
        let Some(node) = self.known.remove(&number) else {
            return ReleasedNode::default();
        };
        for place in &node.places {
            self.clear(place, number);
        }
        self.drop_identity(number, &node.identity);
        self.held -= usize::from(node.held.is_some());
        self.absent -= node
            .children
            .values()
            .filter(|child| child.is_none())
            .count();
        let watch = match node.watch {
            WatchState::Kept(watch) => self.watches.remove(&watch).map(|_| watch),
            _ => None,
        };
        ReleasedNode {
            _held: node.held,
            _folder: self.folders.remove(number),
            watch,
        }
    }

    fn drop_identity(&mut self, number: u64, identity: &FileIdentity) {
        if self.by_identity.get(identity) == Some(&number) {
            self.by_identity.remove(identity);
        }
    }

    /// Removes an entry if it still refers to this node.
    fn clear(&mut self, place: &NodeLocation, number: u64) {
        if let Some(folder) = self.known.get_mut(&place.folder)
            && folder.children.get(&place.name) == Some(&Some(number))
        {
            folder.children.remove(&place.name);
        }
    }

    /// Makes a node an entry of a folder, and replaces the previous entry.
    pub(super) fn put(&mut self, folder: u64, name: &CStr, number: u64) {
        let Some(parent) = self.known.get(&folder) else {
            return;
        };
        if let Some((name, known)) = parent.children.get_key_value(name) {
            if *known == Some(number) {
                return;
            }
            let name = Arc::clone(name);
            self.take(folder, &name);
        }
        let name: Arc<CStr> = name.into();
        let place = NodeLocation {
            folder,
            name: Arc::clone(&name),
        };
        let Some(node) = self.known.get_mut(&number) else {
            return;
        };
        let most = if node.identity.is_folder() {
            1
        } else {
            MAX_LOCATIONS
        };
        let surplus = (node.places.len() + 1).saturating_sub(most);
        let surplus: Vec<NodeLocation> = node.places.drain(..surplus).collect();
        node.places.push(place);
        // The file has a name again and needs no descriptor.
        self.held -= usize::from(node.held.take().is_some());
        for place in surplus {
            self.clear(&place, number);
        }
        if let Some(parent) = self.known.get_mut(&folder) {
            parent.children.insert(name, Some(number));
        }
    }

    /// Removes an entry from a folder and returns its node, if known.
    pub(super) fn take(&mut self, folder: u64, name: &CStr) -> Option<u64> {
        let child = self.known.get_mut(&folder)?.children.remove(name)?;
        self.absent -= usize::from(child.is_none());
        let number = child?;
        let node = self.known.get_mut(&number)?;
        node.places
            .retain(|place| place.folder != folder || *place.name != *name);
        Some(number)
    }

    pub(super) fn entry(&self, folder: u64, name: &CStr) -> Option<u64> {
        *self.known.get(&folder)?.children.get(name)?
    }

    /// Keeps a file open that has no known name, while the kernel still knows it.
    pub(super) fn hold(&mut self, number: u64, file: Arc<OwnedFd>) {
        if let Some(node) = self.known.get_mut(&number)
            && node.held.is_none()
            && node.places.is_empty()
            && self.held < self.most_held
        {
            node.held = Some(file);
            self.held += 1;
        }
    }

    /// Removes all names of a deleted file, and its identity, since its inode number may be reused. The
    /// node remains for open handles.
    pub(super) fn detach(&mut self, number: u64) {
        let Some(node) = self.known.get_mut(&number) else {
            return;
        };
        let (identity, places) = (node.identity, std::mem::take(&mut node.places));
        for place in &places {
            self.clear(place, number);
        }
        self.drop_identity(number, &identity);
    }

    pub(super) fn identity(&self, number: u64) -> Result<FileIdentity, Errno> {
        let node = self.known.get(&number).ok_or(Errno::STALE)?;
        Ok(node.identity)
    }

    pub(super) fn held(&self, number: u64) -> Option<Arc<OwnedFd>> {
        self.known.get(&number)?.held.clone()
    }

    /// Known names, the most recent first.
    pub(super) fn places(&self, number: u64) -> Vec<NodeLocation> {
        let node = self.known.get(&number);
        node.map_or_else(Vec::new, |node| node.places.iter().rev().cloned().collect())
    }

    /// The steps to a folder.
    pub(super) fn path_to(&mut self, folder: u64) -> Result<FolderPath, Errno> {
        let mut steps = Vec::new();
        let mut at = folder;
        while at != ROOT_NODE {
            if let Some(open) = self.folders.get(at) {
                return Ok((Some(open), steps));
            }
            let node = self.known.get(&at).ok_or(Errno::STALE)?;
            if !node.identity.is_folder() {
                return Err(Errno::NOTDIR);
            }
            if let Some(held) = &node.held {
                return Ok((Some(Arc::clone(held)), steps));
            }
            let place = node.places.last().ok_or(Errno::STALE)?;
            steps.push(PathStep {
                node: at,
                identity: node.identity,
                name: Arc::clone(&place.name),
            });
            // Renames by the host could have created a cycle.
            if steps.len() > MAX_DEPTH {
                return Err(Errno::STALE);
            }
            at = place.folder;
        }
        Ok((None, steps))
    }

    /// Caches the descriptor of a folder.
    pub(super) fn keep(&mut self, folder: u64, open: &Arc<OwnedFd>) {
        if self.known.contains_key(&folder) {
            self.folders.insert(folder, Arc::clone(open));
        }
    }
}
