//! Writes an image as one tar that old and new versions of Podman and Docker load: an OCI layout plus the
//! `manifest.json` of `docker save`. The output is reproducible: entries are sorted by name, everything is
//! owned by root, and the only times are those of the files.
//!
//! Entry point: [`export_oci`].

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use tar::{Builder, EntryType, Header};

use crate::digest::{Digest, HashingStream};
use crate::documents::{
    self, ContainerDefaults, Descriptor, ImageConfig, ImageIndex, ImageManifest, Platform, RootFs,
    host_platform,
};
use crate::error::ImageError;
use crate::listing::walk;
use crate::store::StoredImage;

/// The `PATH` of an exported image that has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Writes an image to a stream. In the archive its name is `localhost/hotcell/IMAGE:latest`.
pub fn export_oci(image: &StoredImage, target: impl Write) -> Result<(), ImageError> {
    // The tree is read twice, which avoids a copy on disk: the layer's digest names its blob, so it must be
    // known before the blob is written.
    let unread = |source| ImageError::ReadTree {
        path: image.root.clone(),
        source,
    };
    let mut first = HashingStream::new(io::sink());
    write_layer(&image.root, &mut first).map_err(unread)?;
    let (digest, size) = first.finish();
    let described = ArchiveDocuments::new(image, digest, size);
    let mut writer = BufWriter::with_capacity(1 << 20, target);
    described.write(image, &mut writer).map_err(unread)?;
    writer.flush().map_err(unread)
}

/// Writes an image to a file, atomically.
pub fn export_oci_file(image: &StoredImage, path: &Path) -> Result<(), ImageError> {
    write_atomically(path, |file| export_oci(image, file))
}

/// Fills a temporary file in the same folder and renames it to `path` when it is complete.
pub(crate) fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&File) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let unwritten = |source| ImageError::Write {
        path: path.to_owned(),
        source,
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // The default mode of new files; the umask applies.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let draft = builder.prefix(".hotcell-").permissions(mode);
    let draft = draft.tempfile_in(folder).map_err(unwritten)?;
    fill(draft.as_file())?;
    draft.as_file().sync_all().map_err(unwritten)?;
    draft
        .persist(path)
        .map_err(|error| unwritten(error.error))?;
    Ok(())
}

/// The JSON documents of an exported archive.
struct ArchiveDocuments {
    layer: Descriptor,
    /// By file name.
    files: BTreeMap<String, Vec<u8>>,
}

impl ArchiveDocuments {
    fn new(image: &StoredImage, digest: Digest, size: u64) -> Self {
        let Platform { architecture, os } = host_platform();
        let mut env: Vec<String> = Vec::new();
        if !image.env.iter().any(|(name, _)| name == "PATH") {
            env.push(format!("PATH={PATH}"));
        }
        env.extend(
            image
                .env
                .iter()
                .map(|(name, value)| format!("{name}={value}")),
        );
        let config = json_bytes(&ImageConfig {
            created: None,
            architecture,
            os,
            config: Some(ContainerDefaults {
                env: Some(env),
                cmd: Some(vec!["/bin/sh".to_owned()]),
            }),
            rootfs: RootFs {
                kind: "layers".to_owned(),
                diff_ids: vec![digest.clone()],
            },
        });
        let layer = make_descriptor(documents::LAYER_MEDIA_TYPE, digest, size);
        let config_digest = Digest::of(&config);
        let manifest = json_bytes(&ImageManifest {
            schema_version: 2,
            media_type: documents::MANIFEST_MEDIA_TYPE.to_owned(),
            config: make_descriptor(
                documents::CONFIG_MEDIA_TYPE,
                config_digest.clone(),
                config.len() as u64,
            ),
            layers: vec![layer.clone()],
        });
        let manifest_digest = Digest::of(&manifest);
        let name = format!("localhost/hotcell/{}", to_reference(&image.name));
        let length = manifest.len() as u64;
        let mut top = make_descriptor(
            documents::MANIFEST_MEDIA_TYPE,
            manifest_digest.clone(),
            length,
        );
        top.annotations = BTreeMap::from([
            ("io.containerd.image.name".to_owned(), name.clone()),
            ("org.opencontainers.image.ref.name".to_owned(), name.clone()),
        ]);
        let index = json_bytes(&ImageIndex {
            schema_version: 2,
            media_type: documents::INDEX_MEDIA_TYPE.to_owned(),
            manifests: vec![top],
        });
        let for_docker = json_bytes(&json!([{
            "Config": blob_path(&config_digest),
            "RepoTags": [name],
            "Layers": [blob_path(&layer.digest)],
        }]));
        let layout = json_bytes(&json!({ "imageLayoutVersion": "1.0.0" }));
        let files = BTreeMap::from([
            (blob_path(&config_digest), config),
            (blob_path(&manifest_digest), manifest),
            ("index.json".to_owned(), index),
            ("manifest.json".to_owned(), for_docker),
            ("oci-layout".to_owned(), layout),
        ]);
        Self { layer, files }
    }

    fn write(&self, image: &StoredImage, target: &mut impl Write) -> io::Result<()> {
        let mut tar = Builder::new(target);
        for folder in ["blobs", "blobs/sha256"] {
            let mut header = header(EntryType::Directory, 0o755, 0, 0);
            tar.append_data(&mut header, folder, io::empty())?;
        }
        for (name, content) in &self.files {
            let mut header = header(EntryType::Regular, 0o644, content.len() as u64, 0);
            tar.append_data(&mut header, name, content.as_slice())?;
        }
        let mut header = header(EntryType::Regular, 0o644, self.layer.size, 0);
        header.set_path(blob_path(&self.layer.digest))?;
        header.set_cksum();
        let target = tar.get_mut();
        target.write_all(header.as_bytes())?;
        let mut second = HashingStream::new(&mut *target);
        write_layer(&image.root, &mut second)?;
        let (digest, size) = second.finish();
        if digest != self.layer.digest || size != self.layer.size {
            return Err(io::Error::other("it was changed while it was read"));
        }
        let padding = (size.wrapping_neg() % 512) as usize;
        target.write_all(&[0; 512][..padding])?;
        tar.finish()
    }
}

/// Writes the whole tree as one layer.
fn write_layer(root: &Path, target: &mut impl Write) -> io::Result<()> {
    let mut tar = Builder::new(BufWriter::with_capacity(1 << 18, target));
    // Hard links: only the first name has the content.
    let mut seen: HashMap<(u64, u64), PathBuf> = HashMap::new();
    walk(root, &mut |path, about| {
        let name = path.strip_prefix(root).unwrap_or(path);
        if name.as_os_str().is_empty() {
            return Ok(());
        }
        let kind = about.file_type();
        let (mode, mtime) = (about.mode() & 0o1777, about.mtime().max(0).unsigned_abs());
        if kind.is_dir() {
            let mut header = header(EntryType::Directory, mode, 0, mtime);
            tar.append_data(&mut header, name, io::empty())
        } else if kind.is_symlink() {
            let mut header = header(EntryType::Symlink, 0o777, 0, mtime);
            tar.append_link(&mut header, name, fs::read_link(path)?)
        } else if kind.is_file() {
            if about.nlink() > 1 {
                let key = (about.dev(), about.ino());
                if let Some(first) = seen.get(&key) {
                    let mut header = header(EntryType::Link, mode, 0, mtime);
                    return tar.append_link(&mut header, name, first);
                }
                seen.insert(key, name.to_owned());
            }
            let mut header = header(EntryType::Regular, mode, about.len(), mtime);
            let content = io::Read::take(File::open(path)?, about.len());
            tar.append_data(&mut header, name, content)
        } else {
            Ok(())
        }
    })?;
    tar.into_inner()?.flush()
}

fn header(kind: EntryType, mode: u32, size: u64, mtime: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(mtime);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn make_descriptor(kind: &str, digest: Digest, size: u64) -> Descriptor {
    Descriptor {
        media_type: kind.to_owned(),
        digest,
        size,
        platform: None,
        annotations: BTreeMap::new(),
    }
}

fn blob_path(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Converts an image's name to a reference: lower case, with exactly one tag.
fn to_reference(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.split_once(':') {
        Some((name, tag)) if !tag.is_empty() => format!("{name}:{}", tag.replace(':', "-")),
        _ => format!("{}:latest", name.trim_end_matches(':')),
    }
}

fn json_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("text and numbers can be serialised")
}
