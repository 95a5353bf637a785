//! Walks a workspace and writes its files into a zip, within limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;

use nix::sys::stat::FileStat;
use protocol::job::LeftOut;
use zip::ZipWriter;
use zip::write::StreamWriter;

use super::ZipLimits;
use super::entry::options;
use super::left_out::{LeftOutList, comment};
use super::sink::HashingSink;
use super::trial::{ZIP64_MIN_BYTES, fits_compressed};
use crate::tree::{self, Kind, TreeLeaf, TreeVisit, UntrustedTree};

const READ_BUFFER_BYTES: usize = 128 << 10;

/// The ratio limit applies only above this many unpacked bytes.
const RATIO_CHECK_MIN_BYTES: u64 = 64 << 20;

/// Bytes of zip metadata per entry: both headers, descriptor and times.
const ENTRY_OVERHEAD_BYTES: u64 = 160;

/// The result of packing.
#[derive(Debug)]
pub(super) struct PackResult {
    pub(super) files: u64,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

pub(super) struct Packer<W: Write> {
    zip: ZipWriter<StreamWriter<HashingSink<W>>>,
    bounds: ZipLimits,
    files: u64,
    unpacked: u64,
    /// Bytes of entries that were written and then hidden.
    wasted: u64,
    /// Estimated bytes of the central directory.
    directory: u64,
    left_out: LeftOutList,
    buffer: Vec<u8>,
    failure: Option<io::Error>,
}

/// Why an entry that was begun is hidden again.
enum EntryFailure {
    Read(io::Error),
    TooTight,
    TooLarge,
}

impl<W: Write> Packer<W> {
    pub(super) fn new(writer: W, bounds: ZipLimits) -> Self {
        Self {
            zip: ZipWriter::new_stream(HashingSink::new(writer)),
            bounds,
            files: 0,
            unpacked: 0,
            wasted: 0,
            directory: 0,
            left_out: LeftOutList::default(),
            buffer: vec![0; READ_BUFFER_BYTES],
            failure: None,
        }
    }

    pub(super) fn pack(mut self, tree: &UntrustedTree) -> io::Result<PackResult> {
        let walked = tree.walk(self.bounds.files, |visit| match self.add(visit) {
            Ok(()) if !self.has_failed() => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        })?;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let left_out = self
            .left_out
            .finish(walked.is_cut.then_some(self.bounds.files));
        self.zip.set_comment(comment(&left_out))?;
        let (bytes, sha256) = self.zip.finish()?.into_inner().finish()?;
        Ok(PackResult {
            files: self.files,
            left_out,
            bytes,
            sha256,
        })
    }

    fn add(&mut self, visit: TreeVisit<'_>) -> io::Result<()> {
        match visit {
            TreeVisit::Folder {
                path,
                stat,
                is_empty: true,
            } => self.add_folder(path, stat),
            TreeVisit::Folder { .. } => Ok(()),
            TreeVisit::Closed { path, error } => {
                self.left_out
                    .add(path, format!("cannot be entered: {error}"));
                Ok(())
            }
            TreeVisit::Leaf(leaf) => match leaf.kind() {
                Kind::File => self.add_file(&leaf),
                Kind::Link => {
                    let target = leaf.target().map(|target| tree::escape_for_zip(&target).0);
                    let reason = match target {
                        Ok(target) => format!("a link to `{target}`"),
                        Err(_) => "a link".to_owned(),
                    };
                    self.left_out.add(leaf.path, reason);
                    Ok(())
                }
                Kind::Folder | Kind::Other => {
                    self.left_out.add(leaf.path, "neither a file nor a folder");
                    Ok(())
                }
            },
        }
    }

    fn add_folder(&mut self, path: &[u8], stat: &FileStat) -> io::Result<()> {
        let overhead = ENTRY_OVERHEAD_BYTES + 3 * path.len() as u64;
        if self.room() < overhead {
            self.left_out.add(path, self.is_full());
            return Ok(());
        }
        let name = self.name(path);
        self.zip.add_directory(name, options(stat)?)?;
        self.directory += overhead;
        Ok(())
    }

    fn add_file(&mut self, leaf: &TreeLeaf<'_>) -> io::Result<()> {
        let (mut file, stat) = match leaf.open() {
            Ok(opened) => opened,
            Err(error) => {
                self.left_out
                    .add(leaf.path, format!("cannot be read: {error}"));
                return Ok(());
            }
        };
        let size = tree::size(&stat);
        if size > self.bounds.unpacked.saturating_sub(self.unpacked) {
            let most = self.bounds.unpacked;
            let why = format!("too large: all files may have {most} bytes together");
            self.left_out.add(leaf.path, why);
            return Ok(());
        }
        let overhead = ENTRY_OVERHEAD_BYTES + 3 * leaf.path.len() as u64;
        let room = self.room().saturating_sub(overhead);
        // Compress to nowhere first if it may not fit: the zip is written without seeking back.
        if room == 0 || (size >= room && !fits_compressed(&mut file, size, room, &mut self.buffer)?)
        {
            self.left_out.add(leaf.path, self.is_full());
            return Ok(());
        }
        let begun = self.written();
        let name = self.name(leaf.path);
        let options = options(&stat)?.large_file(size > ZIP64_MIN_BYTES);
        self.zip.start_file(name.as_str(), options)?;
        self.directory += overhead;
        match self.copy(&file, size)? {
            Ok(read) => {
                self.files += 1;
                self.unpacked += read;
            }
            Err(spoiled) => {
                self.zip.hide_file(&name)?;
                self.wasted += self.written() - begun;
                let reason = match spoiled {
                    EntryFailure::Read(error) => format!("cannot be read to its end: {error}"),
                    EntryFailure::TooTight => {
                        let most = self.bounds.ratio;
                        format!("the files would be more than {most} times as large as the zip")
                    }
                    EntryFailure::TooLarge => self.is_full(),
                };
                self.left_out.add(leaf.path, reason);
            }
        }
        Ok(())
    }

    /// Copies a file, up to the size that it had when it was opened.
    fn copy(&mut self, file: &File, size: u64) -> io::Result<Result<u64, EntryFailure>> {
        let mut file = file.take(size);
        let mut read = 0;
        loop {
            let length = match file.read(&mut self.buffer) {
                Ok(0) => return Ok(Ok(read)),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(EntryFailure::Read(error))),
            };
            self.zip.write_all(&self.buffer[..length])?;
            read += length as u64;
            let (unpacked, written) = (self.unpacked + read, self.written());
            let packed = written - self.wasted;
            if unpacked > RATIO_CHECK_MIN_BYTES && unpacked / self.bounds.ratio.max(1) > packed {
                return Ok(Err(EntryFailure::TooTight));
            }
            if written > self.bounds.packed {
                return Ok(Err(EntryFailure::TooLarge));
            }
            if self.has_failed() {
                return Ok(Ok(read));
            }
        }
    }

    /// The entry's name. A name that had to be escaped is listed.
    fn name(&mut self, path: &[u8]) -> String {
        let (name, is_changed) = tree::escape_for_zip(path);
        if is_changed {
            self.left_out
                .add(path, "in the zip, under this name and not its own");
        }
        name
    }

    fn written(&self) -> u64 {
        written(&self.zip)
    }

    fn has_failed(&self) -> bool {
        let sink = self.zip.get_ref().map(StreamWriter::get_ref);
        sink.is_none_or(HashingSink::has_failed)
    }

    fn room(&self) -> u64 {
        let used = self.written() + self.directory;
        self.bounds.packed.saturating_sub(used)
    }

    fn is_full(&self) -> String {
        format!("the zip may have {} bytes", self.bounds.packed)
    }
}

pub(super) fn written<W: Write>(zip: &ZipWriter<StreamWriter<HashingSink<W>>>) -> u64 {
    zip.get_ref().map_or(0, |stream| stream.get_ref().written())
}
