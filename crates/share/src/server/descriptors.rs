//! A bounded cache of descriptors of recently used folders. Others are reopened when needed.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Evicts with the second-chance algorithm.
#[derive(Debug)]
pub(super) struct DescriptorCache {
    open: HashMap<u64, CachedFolder>,
    /// Eviction order. May contain folders that have been removed.
    order: VecDeque<u64>,
    most: usize,
}

#[derive(Debug)]
struct CachedFolder {
    folder: Arc<OwnedFd>,
    was_used: bool,
}

impl DescriptorCache {
    pub(super) fn new(most: usize) -> Self {
        Self {
            open: HashMap::new(),
            order: VecDeque::new(),
            most: most.max(1),
        }
    }

    pub(super) fn get(&mut self, node: u64) -> Option<Arc<OwnedFd>> {
        let slot = self.open.get_mut(&node)?;
        slot.was_used = true;
        Some(Arc::clone(&slot.folder))
    }

    pub(super) fn insert(&mut self, node: u64, folder: Arc<OwnedFd>) {
        let was_used = false;
        let slot = CachedFolder { folder, was_used };
        if self.open.insert(node, slot).is_some() {
            return;
        }
        self.order.push_back(node);
        while self.open.len() > self.most {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            match self.open.get_mut(&oldest) {
                Some(slot) if slot.was_used => {
                    slot.was_used = false;
                    self.order.push_back(oldest);
                }
                _ => {
                    self.open.remove(&oldest);
                }
            }
        }
        // Drop the numbers of removed folders.
        if self.order.len() > 2 * self.most {
            self.order.retain(|node| self.open.contains_key(node));
        }
    }

    pub(super) fn remove(&mut self, node: u64) -> Option<Arc<OwnedFd>> {
        self.open.remove(&node).map(|slot| slot.folder)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;

    use super::*;

    #[test]
    fn the_number_is_bounded_and_what_is_used_stays() {
        let some = Arc::new(OwnedFd::from(File::open("/").unwrap()));
        let mut descriptors = DescriptorCache::new(10);
        for node in 0..1000 {
            descriptors.insert(node, Arc::clone(&some));
            assert!(descriptors.get(0).is_some(), "after {node}");
            if node % 3 == 0 && node > 0 {
                descriptors.remove(node);
            }
            assert!(descriptors.open.len() <= 10);
            assert!(descriptors.order.len() <= 21);
        }
        assert!(descriptors.get(1).is_none());
        assert_eq!(Arc::strong_count(&some), 1 + descriptors.open.len());
    }
}
