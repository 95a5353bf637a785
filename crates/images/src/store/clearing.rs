//! Removes images and garbage. An image is first renamed out of `roots`, so that a partly removed one is
//! never found.

use std::fs;

use super::Store;
use super::record::{self, About, Named};
use super::work::{self, Work};
use crate::digest::Digest;
use crate::error::ImageError;

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Roots without a name.
    pub roots: u64,
    /// Disks without an image.
    pub disks: u64,
    pub bytes: u64,
}

impl Store {
    /// Removes a name, and the image if that was its last one. A sandbox that runs on it loses its root.
    pub fn remove(&self, name: &str) -> Result<Cleared, ImageError> {
        let image = self.get(name)?;
        let _lock = self.lock()?;
        let file = self.name_file(name);
        fs::remove_file(&file).map_err(self.unwritten())?;
        let names = self.all_names()?;
        if names.iter().any(|(_, named)| named.digest == image.digest) {
            return Ok(Cleared::default());
        }
        self.clear_root(&image.digest)
    }

    /// Removes images without a name, their disks, and what dead processes left.
    pub fn collect_garbage(&self) -> Result<Cleared, ImageError> {
        if !self.folder.is_dir() {
            return Ok(Cleared::default());
        }
        let _lock = self.lock()?;
        work::sweep(&self.folder, &self.programs).map_err(self.unwritten())?;
        let names = self.all_names()?;
        let mut cleared = Cleared::default();
        for hex in self.inside("roots")? {
            let digest = Digest::from_hex(&hex);
            let is_meant = |(_, named): &(_, Named)| named.digest.hex() == hex;
            if let (Some(digest), false) = (digest, names.iter().any(is_meant)) {
                let one = self.clear_root(&digest)?;
                cleared.roots += one.roots;
                cleared.disks += one.disks;
                cleared.bytes += one.bytes;
            }
        }
        Ok(cleared)
    }

    /// Removes an image and its disks. The root is renamed into `work` first.
    fn clear_root(&self, digest: &Digest) -> Result<Cleared, ImageError> {
        let unwritten = self.unwritten();
        let place = self.root_folder(digest);
        let mut cleared = Cleared::default();
        if place.exists() {
            let about: Option<About> = record::read(&place.join("about.json")).unwrap_or(None);
            let work = Work::begin(&self.folder).map_err(&unwritten)?;
            fs::rename(&place, work.image()).map_err(&unwritten)?;
            work.end(&self.programs).map_err(&unwritten)?;
            cleared.roots = 1;
            cleared.bytes = about.map_or(0, |about| about.bytes);
        }
        for name in self.inside("disks")? {
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
