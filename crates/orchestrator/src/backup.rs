//! Copies a data folder, even while a server uses it. Entry point: [`backup`].
//!
//! The databases are copied first, each as a consistent snapshot (see [`store::backup`]), then the
//! folders of the jobs. So the files of a job are at least as new as its record. A running job is
//! copied in the state that a crash would leave, and a server started on the copy recovers it. The
//! databases contain keys only as hashes.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use protocol::job::JobId;
use store::jobs::JobQuery;
use store::{JobStore, StoreError};

use crate::folder::JobFolder;
use crate::tree::{Kind, TreeLeaf, TreeVisit, UntrustedTree, remove_tree, shown};

/// Prefix of the server's audit log and its rotated files.
const AUDIT_LOG_PREFIX: &str = "server-audit";

/// Maximum number of entries below `jobs` that are copied.
const MAX_COPIED_NAMES: u64 = 100_000_000;

/// Maximum length of [`Backup::left_out`].
const MAX_LISTED_OMISSIONS: usize = 100;

/// Jobs per query.
const JOB_PAGE_SIZE: u32 = 500;

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backup {
    pub jobs: u64,
    pub files: u64,
    /// Total size of the jobs' files.
    pub bytes: u64,
    /// What could not be copied, with the reason; at most a hundred.
    pub left_out: Vec<String>,
    /// Ended jobs whose zip changed or was removed while it was copied.
    pub incomplete: Vec<JobId>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    #[error("there is no data folder `{0}`")]
    NoData(PathBuf),
    #[error("`{0}` is there already")]
    Exists(PathBuf),
    #[error("cannot write the backup `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot copy the databases")]
    Store(#[from] StoreError),
}

/// Copies a data folder to `target`, which must not exist or be empty. The copy appears there
/// atomically.
pub async fn backup(data: &Path, target: &Path) -> Result<Backup, BackupError> {
    if !data.join("jobs").is_dir() {
        return Err(BackupError::NoData(data.to_owned()));
    }
    let failed = |source| BackupError::Write {
        path: target.to_owned(),
        source,
    };
    let data = std::path::absolute(data).map_err(failed)?;
    let target = &std::path::absolute(target).map_err(failed)?;
    if !is_empty_target(target).map_err(failed)? {
        return Err(BackupError::Exists(target.clone()));
    }
    let partial = PartialBackup::create(target).map_err(failed)?;
    store::backup(&data, &partial.0).await?;
    let mut made = Backup::default();
    made.copy_files(&data, &partial.0).map_err(failed)?;
    made.check(&partial.0).await?;
    partial.publish(target).map_err(failed)?;
    Ok(made)
}

/// Whether `target` does not exist or is empty.
fn is_empty_target(target: &Path) -> io::Result<bool> {
    match fs::read_dir(target) {
        Ok(mut names) => Ok(names.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

/// A temporary folder next to the target. Removed on drop unless it is published.
struct PartialBackup(PathBuf);

impl PartialBackup {
    fn create(target: &Path) -> io::Result<Self> {
        let mut name = target.as_os_str().to_owned();
        name.push(format!(".{:016x}.partial", fastrand::u64(..)));
        let path = PathBuf::from(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    fn publish(self, target: &Path) -> io::Result<()> {
        // Everything written is on this one file system.
        nix::unistd::syncfs(File::open(&self.0)?)?;
        fs::rename(&self.0, target)?;
        match target.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl Drop for PartialBackup {
    fn drop(&mut self) {
        // Does nothing after `publish`, which has moved the folder.
        let _ = remove_tree(&self.0);
    }
}

impl Backup {
    fn copy_files(&mut self, data: &Path, target: &Path) -> io::Result<()> {
        for entry in fs::read_dir(data)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.as_bytes().starts_with(AUDIT_LOG_PREFIX.as_bytes())
                && entry.file_type()?.is_file()
            {
                copy_lines(&entry.path(), &target.join(name))?;
            }
        }
        let (from, to) = (data.join("jobs"), target.join("jobs"));
        DirBuilder::new().mode(0o700).create(&to)?;
        let mut modes = Vec::new();
        let mut failure = None;
        UntrustedTree::open(&from)?.walk(MAX_COPIED_NAMES, |visit| {
            match self.copy(&visit, &to, &mut modes) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        // Deepest first: the mode of a folder may deny access even to its owner.
        for (folder, mode) in modes.into_iter().rev() {
            fs::set_permissions(folder, Permissions::from_mode(mode))?;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Copies one entry. Errors are those of the target; entries that cannot be read are left out.
    fn copy(
        &mut self,
        visit: &TreeVisit<'_>,
        target: &Path,
        modes: &mut Vec<(PathBuf, u32)>,
    ) -> io::Result<()> {
        match visit {
            TreeVisit::Folder { path, stat, .. } => {
                let destination = target.join(OsStr::from_bytes(path));
                DirBuilder::new().mode(0o700).create(&destination)?;
                modes.push((destination, stat.st_mode & 0o777));
                Ok(())
            }
            TreeVisit::Leaf(leaf) => {
                self.copy_leaf(leaf, &target.join(OsStr::from_bytes(leaf.path)))
            }
            TreeVisit::Closed { path, error } => {
                self.leave_out(path, error);
                Ok(())
            }
        }
    }

    fn copy_leaf(&mut self, leaf: &TreeLeaf<'_>, destination: &Path) -> io::Result<()> {
        match leaf.kind() {
            Kind::Link => match leaf.target() {
                Ok(link) => symlink(OsStr::from_bytes(&link), destination)?,
                Err(error) => self.leave_out(leaf.path, &error),
            },
            Kind::File => match leaf.open() {
                Ok((file, stat)) => {
                    // Ignore what is appended meanwhile.
                    let size = u64::try_from(stat.st_size).unwrap_or(0);
                    let mut copy = create(destination, stat.st_mode & 0o777)?;
                    self.bytes += io::copy(&mut file.take(size), &mut copy)?;
                    self.files += 1;
                }
                Err(error) => self.leave_out(leaf.path, &error),
            },
            // FIFOs, sockets and devices have no contents to copy.
            Kind::Folder | Kind::Other => {}
        }
        Ok(())
    }

    fn leave_out(&mut self, path: &[u8], error: &io::Error) {
        // Files that were removed meanwhile are not missing.
        if error.kind() != io::ErrorKind::NotFound && self.left_out.len() < MAX_LISTED_OMISSIONS {
            self.left_out.push(format!("{}: {error}", shown(path)));
        }
    }

    /// Counts the jobs of the copy and compares their zips with their records.
    async fn check(&mut self, target: &Path) -> Result<(), StoreError> {
        let jobs = JobStore::open(target).await?;
        let mut query = JobQuery {
            limit: JOB_PAGE_SIZE,
            ..JobQuery::default()
        };
        loop {
            let page = jobs.list(&query).await?;
            let Some(last) = page.last() else {
                return jobs.settle().await;
            };
            query.before = Some(last.id);
            for job in page {
                self.jobs += 1;
                let output = JobFolder::new(target, job.id).output();
                let found = fs::metadata(output).ok().map(|zip| zip.len());
                let is_whole = job.artifact.is_none_or(|zip| found == Some(zip.bytes));
                if job.ended.is_some() && !is_whole {
                    self.incomplete.push(job.id);
                }
            }
        }
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

/// Copies a log up to its last complete line: the server may be writing the next one.
fn copy_lines(from: &Path, to: &Path) -> io::Result<()> {
    let mut log = File::open(from)?;
    let mut copy = create(to, 0o600)?;
    let written = io::copy(&mut log, &mut copy)?;
    drop(copy);
    let length = complete_lines_len(to, written)?;
    OpenOptions::new().write(true).open(to)?.set_len(length)
}

/// Length of a file up to and including its last line break.
fn complete_lines_len(path: &Path, length: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;

    const STEP_BYTES: u64 = 64 << 10;
    let file = File::open(path)?;
    let mut end = length;
    let mut buffer = vec![0; STEP_BYTES as usize];
    while end > 0 {
        let start = end.saturating_sub(STEP_BYTES);
        let piece = &mut buffer[..(end - start) as usize];
        file.read_exact_at(piece, start)?;
        if let Some(newline) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_log_is_copied_in_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        for (number, (text, expect)) in [
            ("", ""),
            ("one\n", "one\n"),
            ("one\ntw", "one\n"),
            ("tw", ""),
        ]
        .into_iter()
        .enumerate()
        {
            let (from, to) = (
                folder.path().join("log"),
                folder.path().join(number.to_string()),
            );
            fs::write(&from, text).unwrap();
            copy_lines(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), expect);
        }
    }

    #[tokio::test]
    async fn links_are_copied_as_links_and_nothing_is_written_over() {
        let home = tempfile::tempdir().unwrap();
        let (data, copy) = (home.path().join("data"), home.path().join("copy"));
        let missing = backup(&data, &copy).await;
        assert!(matches!(missing, Err(BackupError::NoData(_))));
        let workspace = data.join("jobs/one/workspace");
        fs::create_dir_all(workspace.join("closed")).unwrap();
        fs::write(home.path().join("secret"), "secret").unwrap();
        fs::write(workspace.join("closed/file"), "hello").unwrap();
        symlink(home.path().join("secret"), workspace.join("link")).unwrap();
        symlink(home.path(), workspace.join("folder-link")).unwrap();
        nix::unistd::mkfifo(&workspace.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::set_permissions(workspace.join("closed"), Permissions::from_mode(0o500)).unwrap();
        JobStore::open(&data).await.unwrap();
        let made = backup(&data, &copy).await.unwrap();
        assert_eq!((made.jobs, made.files, made.bytes), (0, 1, 5));
        let destination = copy.join("jobs/one/workspace");
        assert_eq!(
            fs::read_to_string(destination.join("closed/file")).unwrap(),
            "hello"
        );
        let mode = fs::metadata(destination.join("closed"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o500);
        assert_eq!(
            fs::read_link(destination.join("link")).unwrap(),
            home.path().join("secret")
        );
        assert!(
            fs::symlink_metadata(destination.join("folder-link"))
                .unwrap()
                .is_symlink()
        );
        assert!(fs::symlink_metadata(destination.join("pipe")).is_err());
        let again = backup(&data, &copy).await;
        assert!(matches!(again, Err(BackupError::Exists(_))));
        let names = fs::read_dir(home.path()).unwrap();
        assert_eq!(names.count(), 3, "nothing partial is left");
    }
}
