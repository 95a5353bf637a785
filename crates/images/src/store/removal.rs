//! Removes images and garbage. An image is first renamed out of `roots`, so that a partly removed one is
//! never found.

use std::fs;

use super::ImageStore;
use super::record::{self, NameRecord, RootRecord};
use super::work::{self, WorkFolder};
use crate::digest::Digest;
use crate::error::ImageError;

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedImages {
    /// Roots without a name.
    pub roots: u64,
    /// Disks without an image.
    pub disks: u64,
    pub bytes: u64,
}

impl ImageStore {
    /// Removes a name, and the image if that was its last one. A sandbox that runs on it loses its root.
    pub fn remove(&self, name: &str) -> Result<RemovedImages, ImageError> {
        let image = self.get(name)?;
        let _lock = self.lock()?;
        let file = self.name_file(name);
        fs::remove_file(&file).map_err(self.unwritten())?;
        let names = self.all_names()?;
        if names.iter().any(|(_, named)| named.digest == image.digest) {
            return Ok(RemovedImages::default());
        }
        self.remove_root(&image.digest)
    }

    /// Removes images without a name, their disks, and what dead processes left.
    pub fn collect_garbage(&self) -> Result<RemovedImages, ImageError> {
        if !self.folder.is_dir() {
            return Ok(RemovedImages::default());
        }
        let _lock = self.lock()?;
        work::remove_stale(&self.folder, &self.programs).map_err(self.unwritten())?;
        let names = self.all_names()?;
        let mut cleared = RemovedImages::default();
        for hex in self.folder_names("roots")? {
            let digest = Digest::from_hex(&hex);
            let is_meant = |(_, named): &(_, NameRecord)| named.digest.hex() == hex;
            if let (Some(digest), false) = (digest, names.iter().any(is_meant)) {
                let one = self.remove_root(&digest)?;
                cleared.roots += one.roots;
                cleared.disks += one.disks;
                cleared.bytes += one.bytes;
            }
        }
        Ok(cleared)
    }

    /// Removes an image and its disks. The root is renamed into `work` first.
    fn remove_root(&self, digest: &Digest) -> Result<RemovedImages, ImageError> {
        let unwritten = self.unwritten();
        let place = self.root_folder(digest);
        let mut cleared = RemovedImages::default();
        if place.exists() {
            let about: Option<RootRecord> = record::read(&place.join("about.json")).unwrap_or(None);
            let work = WorkFolder::begin(&self.folder).map_err(&unwritten)?;
            fs::rename(&place, work.image()).map_err(&unwritten)?;
            work.end(&self.programs).map_err(&unwritten)?;
            cleared.roots = 1;
            cleared.bytes = about.map_or(0, |about| about.bytes);
        }
        for name in self.folder_names("disks")? {
            if name.starts_with(&format!("{}-", digest.hex())) {
                let path = self.folder.join("disks").join(name);
                cleared.bytes += path.metadata().map_or(0, |about| about.len());
                cleared.disks += 1;
                fs::remove_file(path).map_err(&unwritten)?;
            }
        }
        Ok(cleared)
    }
}
