//! Builds images from recipes, with `mmdebstrap` or `debootstrap`.
//!
//! The builder program makes a root in its own folder and writes it to stdout as one tar. That tar is
//! unpacked like any other, so that files of a built image also belong to the user and have no setuid or
//! setgid bits. Then traces of the host are removed.
//!
//! Entry points: [`ImageStore::build`], [`PackageSources`].

mod clean;
mod debootstrap;
mod inputs;
mod mmdebstrap;
mod sources;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use serde::{Deserialize, Serialize};

use self::inputs::BuildInputs;
pub use self::sources::PackageSources;
use crate::digest::{Digest, HashingStream};
use crate::documents::shown;
use crate::error::ImageError;
use crate::progress::ImageProgress;
use crate::recipe::Recipe;
use crate::store::{ImageOrigin, ImageStore, StoredImage, check_name, record};
use crate::unpack::budget::{UnpackBudget, UnpackLimits, unpacked};
use crate::unpack::tree::RootTree;
use crate::unpack::{self, TarContent, UnpackError};

/// Whether an image that was built earlier from the same recipe may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    #[default]
    Allowed,
    /// Build again: packages may have been updated.
    Never,
}

/// Maps a recipe to the image that was built from it.
#[derive(Debug, Serialize, Deserialize)]
struct BuildRecord {
    digest: Digest,
}

/// How many of the last lines of a failed builder are searched for the reason.
const MAX_TAIL_LINES: usize = 40;

impl ImageStore {
    /// Builds an image, or reuses one that was built from the same recipe before.
    pub fn build(
        &self,
        name: &str,
        recipe: &Recipe,
        sources: &PackageSources,
        reuse: Reuse,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<StoredImage, ImageError> {
        check_name(name)?;
        let key = recipe.digest();
        let origin = ImageOrigin::Recipe {
            from: recipe.from(),
            recipe: key.clone(),
        };
        let builds = self.folder().join("builds");
        fs::create_dir_all(&builds).map_err(self.unwritten())?;
        let _lock = self.lock_recipe(&key, progress)?;
        let file = builds.join(format!("{}.json", key.hex()));
        let built: Option<BuildRecord> = record::read(&file).unwrap_or_default();
        if let (Some(built), Reuse::Allowed) = (built, reuse)
            && self.has_root(&built.digest)
        {
            progress(ImageProgress::Cached);
            return self.name(name, &built.digest, origin);
        }
        let work = self.begin()?;
        let kitchen = BuildInputs::new(recipe, sources, &work).map_err(self.unwritten())?;
        let (program, command) = match mmdebstrap::command(&self.programs, &kitchen)? {
            Some(command) => ("mmdebstrap", command),
            None => (
                "debootstrap",
                debootstrap::command(&self.programs, &kitchen).map_err(self.unwritten())??,
            ),
        };
        progress(ImageProgress::Building { program });
        let root = work.root().map_err(self.unwritten())?;
        let refused = |source| ImageError::Refused {
            what: "the new root".to_owned(),
            source,
        };
        let digest = run_builder(program, command, &root, self.limits, progress)?;
        let mut tree = RootTree::open(&root).map_err(refused)?;
        clean::remove_host_traces(&mut tree, recipe).map_err(refused)?;
        tree.sync().map_err(refused)?;
        // The number of skipped devices is not recorded: every built root has the same ones, and no sandbox
        // needs them.
        let image = self.publish(name, work, &digest, origin, 0, Vec::new())?;
        record::write(&file, &BuildRecord { digest }).map_err(self.unwritten())?;
        Ok(image)
    }

    /// Locks the recipe as long as the returned file is open, so that it is built only once at a time.
    fn lock_recipe(
        &self,
        key: &Digest,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<File, ImageError> {
        let path = self.folder().join("builds").join(format!(".{}", key.hex()));
        let lock = File::create(path).map_err(self.unwritten())?;
        if lock.try_lock().is_err() {
            progress(ImageProgress::Waiting);
            lock.lock().map_err(self.unwritten())?;
        }
        Ok(lock)
    }
}

/// Runs the builder program and unpacks the tar that it writes to stdout.
fn run_builder(
    program: &'static str,
    mut command: Command,
    root: &Path,
    limits: UnpackLimits,
    progress: &mut dyn FnMut(ImageProgress<'_>),
) -> Result<Digest, ImageError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|source| ImageError::Start { program, source })?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (lines, heard) = mpsc::channel();
    let mut tail = VecDeque::new();
    let collected = thread::scope(|scope| {
        scope.spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                let _ = lines.send(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
        });
        // If unpacking fails, the pipe is closed, which ends the program.
        let collector = scope.spawn(move || collect(stdout, root, limits));
        for line in heard {
            progress(ImageProgress::Said(&line));
            tail.push_back(line);
            if tail.len() > MAX_TAIL_LINES {
                tail.pop_front();
            }
        }
        collector.join()
    });
    let status = child.wait();
    let collected = collected.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    // The program's own error message is preferred over the fact that its output was cut off.
    let status = status.map_err(|source| ImageError::Start { program, source })?;
    match collected {
        Err(source) if !is_cut_off(&source) => Err(ImageError::Refused {
            what: "the new root".to_owned(),
            source,
        }),
        _ if !status.success() => Err(ImageError::Build {
            program,
            why: failure_reason(&tail).unwrap_or_else(|| status.to_string()),
        }),
        Err(source) => Err(ImageError::Refused {
            what: "the new root".to_owned(),
            source,
        }),
        Ok(digest) => Ok(digest),
    }
}

fn collect(stdout: impl Read, root: &Path, limits: UnpackLimits) -> Result<Digest, UnpackError> {
    let mut tree = RootTree::open(root)?;
    let mut budget = UnpackBudget::new(limits);
    let mut stream = HashingStream::new(BufReader::with_capacity(1 << 16, stdout));
    {
        let stream = unpacked(&mut stream, &budget)?;
        unpack::apply(stream, TarContent::Whole, &mut tree, &mut budget)?;
    }
    let (digest, bytes) = stream.finish();
    match bytes {
        0 => Err(UnpackError::Malformed("there is nothing in it")),
        _ => Ok(digest),
    }
}

fn is_cut_off(flaw: &UnpackError) -> bool {
    matches!(flaw, UnpackError::Malformed(_))
}

/// The line that says why a build failed: the first error of the package manager or of a command, else the
/// last line that is not empty.
fn failure_reason(tail: &VecDeque<String>) -> Option<String> {
    let is_error = |line: &&String| {
        line.starts_with("E: ") && !line.contains("failed: ") && !line.contains("exited with")
    };
    let is_remark = |line: &&String| {
        let starts = ["I: ", "W: ", "E: ", "+ "];
        !line.trim().is_empty() && !starts.iter().any(|start| line.starts_with(start))
    };
    let last = |line: &&String| !line.trim().is_empty();
    tail.iter()
        .find(is_error)
        .or_else(|| tail.iter().rfind(is_remark))
        .or_else(|| tail.iter().rfind(last))
        .map(|line| shown(line.trim_start_matches("E: ").trim()))
}
