//! Roots as Docker images, since Docker starts nothing else: packed once, tagged with the hash of
//! their content, sent to the daemon if it does not have them. Entry type: [`RootImage`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bollard::query_parameters::{
    CreateImageOptionsBuilder, ListImagesOptionsBuilder, RemoveImageOptions,
};
use bytes::Bytes;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::super::bundle::Bundle;
use super::super::container::EngineError;
use super::BACKEND;
use super::daemon::{DockerDaemon, refused};
use crate::backends::container::failed;
use crate::error::SandboxError;
use crate::spec::{RootSpec, SandboxSpec};

const REPOSITORY: &str = "hotcell/root";

/// How long an unused image is kept.
const IMAGE_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A folder that becomes the root of containers.
#[derive(Debug)]
pub(super) struct RootImage {
    folder: PathBuf,
    /// The owner of all files in it, as user and group.
    owner: u32,
    tag: String,
}

impl RootImage {
    pub(super) fn of(spec: &SandboxSpec, bundle: &Bundle, user: u32) -> io::Result<Self> {
        let folder = bundle.root.clone();
        let (owner, digest) = match spec.root {
            // Small enough to hash. Owned by root, so that the sandbox cannot change it.
            RootSpec::Host => (0, digest(&folder, 0, DigestDetail::Contents)?),
            RootSpec::Image(_) => (user, digest(&folder, user, DigestDetail::Listing)?),
        };
        Ok(Self {
            folder,
            owner,
            tag: format!("{REPOSITORY}:{digest}"),
        })
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// Packs the folder and streams it to the daemon.
    pub(super) async fn upload(&self, daemon: &DockerDaemon) -> Result<(), SandboxError> {
        let (sender, receiver) = mpsc::channel(8);
        let (folder, owner) = (self.folder.clone(), self.owner);
        let packing =
            tokio::task::spawn_blocking(move || pack(&folder, owner, ChannelWriter(sender)));
        let stream = futures_util::stream::unfold(receiver, async |mut receiver| {
            let piece: Option<Bytes> = receiver.recv().await;
            piece.map(|piece| (Ok(piece), receiver))
        });
        let (name, tag) = self.tag.split_once(':').unwrap_or((&self.tag, "latest"));
        let options = CreateImageOptionsBuilder::default()
            .from_src("-")
            .repo(name)
            .tag(tag)
            .build();
        let body = bollard::body_try_stream(stream);
        let docker = daemon.docker();
        let mut answers = std::pin::pin!(docker.create_image(Some(options), Some(body), None));
        while let Some(answer) = answers.next().await {
            answer.map_err(|error| refused("send a root to the daemon", &error))?;
        }
        match packing.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(SandboxError::Image {
                path: self.folder.clone(),
                source,
            }),
            Err(_) => Err(failed(
                BACKEND,
                "pack a root",
                EngineError("the task was aborted".into()),
            )),
        }
    }
}

/// Removes images that are old and not in use.
pub(super) async fn remove_old(daemon: &DockerDaemon) {
    let filters = [("reference".to_owned(), vec![format!("{REPOSITORY}:*")])];
    let options = ListImagesOptionsBuilder::default()
        .filters(&filters.into())
        .build();
    let Ok(images) = daemon.docker().list_images(Some(options)).await else {
        return;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let oldest = now
        .unwrap_or_default()
        .saturating_sub(IMAGE_RETENTION)
        .as_secs();
    for image in images {
        if u64::try_from(image.created).is_ok_and(|created| created < oldest) {
            // The daemon refuses to remove an image in use.
            let removed = daemon
                .docker()
                .remove_image(&image.id, None::<RemoveImageOptions>, None);
            if let Err(error) = removed.await {
                tracing::debug!(%error, "old image not removed");
            }
        }
    }
}

/// What identifies a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DigestDetail {
    Contents,
    /// Size and modification time, because reading a whole system takes too long.
    Listing,
}

/// All paths below a folder, parents before children, in a stable order.
fn list_entries(folder: &Path) -> io::Result<Vec<(PathBuf, fs::Metadata)>> {
    let mut all = Vec::new();
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                next.push(entry.path());
            }
            all.push((entry.path(), metadata));
        }
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(all)
}

fn digest(folder: &Path, owner: u32, detail: DigestDetail) -> io::Result<String> {
    /// Version of the packing format.
    const FORMAT_VERSION: u8 = 1;
    let mut digest = Sha256::new();
    digest.update([FORMAT_VERSION]);
    digest.update(owner.to_le_bytes());
    digest.update(fs::metadata(folder)?.mode().to_le_bytes());
    for (path, metadata) in list_entries(folder)? {
        let name = path.strip_prefix(folder).unwrap_or(&path);
        digest.update(name.as_os_str().as_encoded_bytes());
        digest.update([0]);
        digest.update(metadata.mode().to_le_bytes());
        if metadata.is_symlink() {
            digest.update(fs::read_link(&path)?.as_os_str().as_encoded_bytes());
        } else if metadata.is_file() {
            digest.update(metadata.len().to_le_bytes());
            match detail {
                DigestDetail::Contents => digest.update(fs::read(&path)?),
                DigestDetail::Listing => {
                    digest.update(metadata.mtime().to_le_bytes());
                    digest.update(metadata.mtime_nsec().to_le_bytes());
                    digest.update(metadata.ino().to_le_bytes());
                }
            }
        }
    }
    Ok(hex::encode(&digest.finalize()[..16]))
}

/// Packs a folder as a tar in which everything belongs to one user. Skips devices and sockets, and
/// clears the setuid and setgid bits.
fn pack(folder: &Path, owner: u32, to: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.follow_symlinks(false);
    // The root itself comes first, because its owner decides who may create files there.
    let root = (folder.to_owned(), fs::metadata(folder)?);
    for (path, metadata) in std::iter::once(root).chain(list_entries(folder)?) {
        let name = Path::new(".").join(path.strip_prefix(folder).unwrap_or(&path));
        let mut header = tar::Header::new_gnu();
        header.set_metadata_in_mode(&metadata, tar::HeaderMode::Complete);
        header.set_mode(metadata.permissions().mode() & 0o1777);
        header.set_uid(owner.into());
        header.set_gid(owner.into());
        header.set_mtime(0);
        if metadata.is_dir() {
            header.set_size(0);
            archive.append_data(&mut header, &name, io::empty())?;
        } else if metadata.is_symlink() {
            header.set_size(0);
            archive.append_link(&mut header, &name, fs::read_link(&path)?)?;
        } else if metadata.is_file() {
            header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
            archive.append_data(&mut header, &name, fs::File::open(&path)?)?;
        }
    }
    archive.into_inner()?.flush()
}

/// A writer that sends to the channel.
struct ChannelWriter(mpsc::Sender<Bytes>);

impl Write for ChannelWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(bytes));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_root_is_packed_whole_and_known_by_its_content() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir(path("bin")).unwrap();
        fs::write(path("bin/tool"), "one").unwrap();
        fs::set_permissions(path("bin/tool"), fs::Permissions::from_mode(0o4755)).unwrap();
        symlink("bin/tool", path("link")).unwrap();
        let mut packed = Vec::new();
        pack(root.path(), 77, &mut packed).unwrap();
        let mut archive = tar::Archive::new(&packed[..]);
        let mut found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (77, 77));
                (
                    entry.path().unwrap().display().to_string(),
                    header.mode().unwrap(),
                )
            })
            .collect();
        found.sort();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["./", "bin", "bin/tool", "link"]);
        assert_eq!(found[2].1, 0o755);

        let now = |detail| digest(root.path(), 77, detail).unwrap();
        for detail in [DigestDetail::Contents, DigestDetail::Listing] {
            let before = now(detail);
            assert_eq!(before, now(detail));
            assert_ne!(before, digest(root.path(), 78, detail).unwrap());
            fs::write(path("bin/tool"), "other").unwrap();
            assert_ne!(before, now(detail));
            let before = now(detail);
            fs::remove_file(path("link")).unwrap();
            symlink("elsewhere", path("link")).unwrap();
            assert_ne!(before, now(detail));
            fs::remove_file(path("link")).unwrap();
            symlink("bin/tool", path("link")).unwrap();
        }
    }
}
