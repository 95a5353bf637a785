//! The images of one user, in one folder.
//!
//! ```text
//! names/NAME.json       the digest of the image with this name, and where it came from
//! roots/HEX/root/       the root file system of an image, by its digest
//! roots/HEX/about.json  size and environment of the image
//! builds/HEX.json       the image that was built from a recipe, by the recipe's digest
//! disks/                disks of images, made on first use
//! work/…/               images that are being made
//! ```
//!
//! An image is made in its own folder under `work` and renamed into `roots` when it is complete. Then its
//! name is written. If the process dies in between, the next one removes what it left.
//!
//! Entry type: [`ImageStore`].

mod name;
pub(crate) mod record;
mod removal;
mod work;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

pub use self::name::check_name;
pub use self::record::ImageOrigin;
use self::record::{NameRecord, RootRecord};
pub use self::removal::RemovedImages;
pub(crate) use self::work::WorkFolder;
use crate::archive;
use crate::digest::Digest;
use crate::disk::build_disk_with;
use crate::error::ImageError;
use crate::layers;
use crate::listing;
use crate::programs::HostPrograms;
use crate::progress::ImageProgress;
use crate::unpack::budget::UnpackLimits;

/// A root file system and its metadata.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoredImage {
    pub name: String,
    /// Of the configuration if the image was imported or pulled; of the builder's tar if it was built.
    pub digest: Digest,
    /// The folder with the root file system. Everything in it belongs to the store's user.
    pub root: PathBuf,
    pub origin: ImageOrigin,
    /// When the name was assigned.
    pub named: Timestamp,
    /// Of all files.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// Devices and FIFOs that were skipped.
    pub skipped: u64,
    /// The environment variables that the image's configuration sets for commands.
    pub env: Vec<(String, String)>,
}

/// See the top of the file.
#[derive(Debug, Clone)]
pub struct ImageStore {
    folder: PathBuf,
    pub(crate) programs: HostPrograms,
    pub(crate) limits: UnpackLimits,
}

impl ImageStore {
    /// The store in this folder, which is created on the first write.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            programs: HostPrograms::default(),
            limits: UnpackLimits::default(),
        }
    }

    /// With other limits for imported and pulled images.
    pub fn with_limits(mut self, limits: UnpackLimits) -> Self {
        self.limits = limits;
        self
    }

    /// With host programs from given folders.
    pub fn with_programs(mut self, programs: HostPrograms) -> Self {
        self.programs = programs;
        self
    }

    /// The image with this name.
    pub fn find(&self, name: &str) -> Result<Option<StoredImage>, ImageError> {
        check_name(name)?;
        let named: Option<NameRecord> = record::read(&self.name_file(name))?;
        match named {
            Some(named) => self.image(name, named).map(Some),
            None => Ok(None),
        }
    }

    /// [`ImageStore::find`] for a name that must exist.
    pub fn get(&self, name: &str) -> Result<StoredImage, ImageError> {
        self.find(name)?
            .ok_or_else(|| ImageError::Unknown(name.to_owned()))
    }

    /// All images, sorted by name.
    pub fn list(&self) -> Result<Vec<StoredImage>, ImageError> {
        let mut images = Vec::new();
        for (name, named) in self.all_names()? {
            images.push(self.image(&name, named)?);
        }
        Ok(images)
    }

    /// Imports an image from an archive: the output of `docker save`, or a tar of an OCI layout, compressed
    /// or not. If the archive has several images, the reference selects one.
    pub fn import(
        &self,
        name: &str,
        path: &Path,
        reference: Option<&str>,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<StoredImage, ImageError> {
        check_name(name)?;
        let work = self.begin()?;
        let archive = archive::read(path, work.folder(), reference, self.limits)?;
        let origin = ImageOrigin::Archive {
            reference: archive.reference.clone(),
        };
        self.unpack(name, work, &archive.plan, &archive, origin, progress)
    }

    pub(crate) fn unpack(
        &self,
        name: &str,
        work: WorkFolder,
        plan: &layers::UnpackPlan,
        blobs: &dyn layers::BlobSource,
        origin: ImageOrigin,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<StoredImage, ImageError> {
        if self.has_root(&plan.digest) {
            progress(ImageProgress::Cached);
            return self.name(name, &plan.digest, origin);
        }
        let root = work.root().map_err(self.unwritten())?;
        let skipped = layers::unpack_layers(plan, blobs, &root, self.limits, progress)?;
        let env = plan.env();
        self.publish(name, work, &plan.digest, origin, skipped, env)
    }

    /// The disk of an image, made on first use.
    pub fn disk(&self, image: &StoredImage) -> Result<PathBuf, ImageError> {
        let cache = self.folder.join("disks");
        build_disk_with(&self.programs, &cache, &image.root, Some(&image.digest))
    }

    /// Creates a folder for an image that is to be made. First removes what dead processes left.
    pub(crate) fn begin(&self) -> Result<WorkFolder, ImageError> {
        let _lock = self.lock()?;
        work::remove_stale(&self.folder, &self.programs).map_err(self.unwritten())?;
        WorkFolder::begin(&self.folder).map_err(self.unwritten())
    }

    /// Moves a complete root into `roots` and assigns a name to it.
    pub(crate) fn publish(
        &self,
        name: &str,
        work: WorkFolder,
        digest: &Digest,
        origin: ImageOrigin,
        skipped: u64,
        env: Vec<(String, String)>,
    ) -> Result<StoredImage, ImageError> {
        let unwritten = self.unwritten();
        let root = work.root().map_err(&unwritten)?;
        let listing = listing::list(&root).map_err(|source| ImageError::ReadTree {
            path: root.clone(),
            source,
        })?;
        let about = RootRecord {
            bytes: listing.bytes,
            entries: listing.entries,
            skipped,
            env,
        };
        record::write(&work.image().join("about.json"), &about).map_err(&unwritten)?;
        let lock = self.lock()?;
        if !self.has_root(digest) {
            let place = self.root_folder(digest);
            // A root without a record is incomplete: it was left by a process that died.
            let _ = fs::remove_dir_all(&place);
            fs::create_dir_all(self.folder.join("roots")).map_err(&unwritten)?;
            fs::rename(work.image(), &place).map_err(&unwritten)?;
            File::open(self.folder.join("roots"))
                .and_then(|folder| folder.sync_all())
                .map_err(&unwritten)?;
        }
        drop(lock);
        self.name(name, digest, origin)
    }

    /// Assigns a name to an existing image.
    pub(crate) fn name(
        &self,
        name: &str,
        digest: &Digest,
        origin: ImageOrigin,
    ) -> Result<StoredImage, ImageError> {
        let named = NameRecord {
            digest: digest.clone(),
            origin,
            named: Timestamp::now(),
        };
        let unwritten = self.unwritten();
        fs::create_dir_all(self.folder.join("names")).map_err(&unwritten)?;
        record::write(&self.name_file(name), &named).map_err(&unwritten)?;
        self.image(name, named)
    }

    pub(crate) fn has_root(&self, digest: &Digest) -> bool {
        self.root_folder(digest).join("about.json").is_file()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn unwritten(&self) -> impl Fn(io::Error) -> ImageError + use<> {
        let path = self.folder.clone();
        move |source| ImageError::Write {
            path: path.clone(),
            source,
        }
    }

    fn image(&self, name: &str, named: NameRecord) -> Result<StoredImage, ImageError> {
        let folder = self.root_folder(&named.digest);
        let about: Option<RootRecord> = record::read(&folder.join("about.json"))?;
        let about = about.ok_or_else(|| ImageError::Incomplete {
            what: format!("the image `{name}`"),
            missing: named.digest.to_string(),
        })?;
        Ok(StoredImage {
            name: name.to_owned(),
            digest: named.digest,
            root: folder.join("root"),
            origin: named.origin,
            named: named.named,
            bytes: about.bytes,
            entries: about.entries,
            skipped: about.skipped,
            env: about.env,
        })
    }

    fn all_names(&self) -> Result<Vec<(String, NameRecord)>, ImageError> {
        let mut all = Vec::new();
        for file in self.folder_names("names")? {
            let Some(name) = file.strip_suffix(".json") else {
                continue;
            };
            if let Some(named) = record::read(&self.name_file(name))? {
                all.push((name.to_owned(), named));
            }
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }

    /// The names in a folder of the store, without temporary files, whose names begin with a dot.
    fn folder_names(&self, folder: &str) -> Result<Vec<String>, ImageError> {
        let path = self.folder.join(folder);
        let unread = |source| ImageError::ReadTree {
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            outcome => outcome.map_err(unread)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(unread)?.file_name().into_string();
            names.extend(name.ok().filter(|name| !name.starts_with('.')));
        }
        Ok(names)
    }

    /// Locks the layout of the store against other processes, as long as the returned file is open.
    fn lock(&self) -> Result<File, ImageError> {
        let take = || {
            fs::create_dir_all(&self.folder)?;
            let lock = File::create(self.folder.join("lock"))?;
            lock.lock()?;
            Ok(lock)
        };
        take().map_err(self.unwritten())
    }

    fn name_file(&self, name: &str) -> PathBuf {
        self.folder.join("names").join(format!("{name}.json"))
    }

    fn root_folder(&self, digest: &Digest) -> PathBuf {
        self.folder.join("roots").join(digest.hex())
    }
}
