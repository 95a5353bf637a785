//! The files and folders that programs inside have open, each with a descriptor. Their number is
//! bounded.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

/// How a handle was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandleKind {
    Folder,
    Read,
    Written,
}

#[derive(Debug)]
pub(super) struct Handle {
    pub(super) file: Arc<OwnedFd>,
    pub(super) node: u64,
    pub(super) kind: HandleKind,
    /// Serialises concurrent reads of a folder, which share the position of the descriptor.
    pub(super) reading: Mutex<()>,
}

#[derive(Debug)]
pub(super) struct Handles {
    open: HashMap<u64, Arc<Handle>>,
    next: u64,
    most: usize,
}

impl Handles {
    pub(super) fn new(most: usize) -> Self {
        Self {
            open: HashMap::new(),
            next: 1,
            most,
        }
    }

    /// Must be called before a file is opened or created.
    pub(super) fn check_capacity(&self) -> Result<(), Errno> {
        if self.open.len() < self.most {
            Ok(())
        } else {
            Err(Errno::NFILE)
        }
    }

    pub(super) fn add(&mut self, file: Arc<OwnedFd>, node: u64, kind: HandleKind) -> u64 {
        let number = self.next;
        self.next += 1;
        let handle = Handle {
            file,
            node,
            kind,
            reading: Mutex::new(()),
        };
        self.open.insert(number, Arc::new(handle));
        number
    }

    pub(super) fn file(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        self.get(number, false)
    }

    pub(super) fn folder(&self, number: u64) -> Result<Arc<Handle>, Errno> {
        self.get(number, true)
    }

    fn get(&self, number: u64, is_folder: bool) -> Result<Arc<Handle>, Errno> {
        match self.open.get(&number) {
            Some(handle) if (handle.kind == HandleKind::Folder) == is_folder => {
                Ok(Arc::clone(handle))
            }
            _ => Err(Errno::BADF),
        }
    }

    /// Any open file of a node. Fallback for a node without a name.
    pub(super) fn find_by_node(&self, node: u64) -> Option<Arc<OwnedFd>> {
        let mut open = self.open.values();
        let handle = open.find(|handle| handle.node == node)?;
        Some(Arc::clone(&handle.file))
    }

    /// Returns the handle, so that the caller can close it after releasing the lock.
    pub(super) fn remove(&mut self, number: u64) -> Option<Arc<Handle>> {
        self.open.remove(&number)
    }
}
