//! Makes valid and invalid archives for tests: layers whose names may be any bytes, in both forms of
//! archives.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use images::Digest;
use serde_json::{Value, json};
use tar::{EntryType, Header};
use tempfile::TempDir;

/// A layer that is being written.
#[derive(Default, Clone)]
pub(crate) struct LayerBuilder(pub(crate) Vec<u8>);

impl LayerBuilder {
    /// Adds an entry with exactly this name and link, without any check.
    pub(crate) fn raw(
        mut self,
        name: impl AsRef<[u8]>,
        kind: EntryType,
        link: impl AsRef<[u8]>,
        mode: u32,
        content: &[u8],
    ) -> Self {
        let (name, link) = (name.as_ref(), link.as_ref());
        if name.len() > 100 {
            self = self.extension(EntryType::GNULongName, name);
        }
        if link.len() > 100 {
            self = self.extension(EntryType::GNULongLink, link);
        }
        let mut header = Header::new_gnu();
        fill_field(&mut header.as_old_mut().name, name);
        fill_field(&mut header.as_old_mut().linkname, link);
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_mtime(1_600_000_000);
        header.set_uid(4242);
        header.set_gid(4242);
        header.set_cksum();
        self.block(header.as_bytes(), content)
    }

    pub(crate) fn block(mut self, header: &[u8], content: &[u8]) -> Self {
        self.0.extend_from_slice(header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn extension(self, kind: EntryType, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.block(header.as_bytes(), content)
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.raw(name, EntryType::Regular, "", 0o644, content.as_bytes())
    }

    pub(crate) fn folder(self, name: &str) -> Self {
        self.raw(name, EntryType::Directory, "", 0o755, b"")
    }

    pub(crate) fn symlink(self, name: &str, to: &str) -> Self {
        self.raw(name, EntryType::Symlink, to, 0o777, b"")
    }

    pub(crate) fn hard_link(self, name: &str, to: &str) -> Self {
        self.raw(name, EntryType::Link, to, 0o644, b"")
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn fill_field(field: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(field.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(bytes, level)
}

/// The files of an archive, by name, so that a test can change any of them.
pub(crate) type ArchiveFiles = BTreeMap<String, Vec<u8>>;

pub(crate) fn config(layers: &[Vec<u8>]) -> Value {
    let digests: Vec<String> = layers
        .iter()
        .map(|layer| Digest::of(layer).to_string())
        .collect();
    json!({
        "architecture": match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        },
        "os": "linux",
        "config": { "Env": ["PATH=/opt/bin", "LANG=C.UTF-8", "nonsense"] },
        "rootfs": { "type": "layers", "diff_ids": digests },
    })
}

/// The older form, of `docker save`.
pub(crate) fn docker_files(layers: &[Vec<u8>]) -> ArchiveFiles {
    let mut files = ArchiveFiles::new();
    let config = serde_json::to_vec(&config(layers)).unwrap();
    let config_name = format!("{}.json", Digest::of(&config).hex());
    let mut names = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("{number}/layer.tar");
        files.insert(name.clone(), layer.clone());
        names.push(name);
    }
    let manifest = json!([{
        "Config": config_name, "RepoTags": ["example.com/test:1"], "Layers": names,
    }]);
    files.insert(config_name, config);
    files.insert(
        "manifest.json".into(),
        serde_json::to_vec(&manifest).unwrap(),
    );
    files
}

/// An OCI layout. `pack` compresses the layers, `ending` is the suffix of their media type.
pub(crate) fn oci_files(
    layers: &[Vec<u8>],
    pack: fn(&[u8]) -> Vec<u8>,
    ending: &str,
) -> ArchiveFiles {
    let mut files = ArchiveFiles::new();
    let mut blob = |bytes: Vec<u8>, kind: &str| {
        let digest = Digest::of(&bytes);
        let described = json!({
            "mediaType": kind, "digest": digest.to_string(), "size": bytes.len(),
        });
        files.insert(format!("blobs/sha256/{}", digest.hex()), bytes);
        described
    };
    let kind = format!("application/vnd.oci.image.layer.v1.tar{ending}");
    let described: Vec<Value> = layers.iter().map(|one| blob(pack(one), &kind)).collect();
    let config = serde_json::to_vec(&config(layers)).unwrap();
    let config = blob(config, "application/vnd.oci.image.config.v1+json");
    let manifest = json!({ "schemaVersion": 2, "config": config, "layers": described });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let top = blob(manifest, "application/vnd.oci.image.manifest.v1+json");
    let index = json!({ "schemaVersion": 2, "manifests": [top] });
    files.insert("index.json".into(), serde_json::to_vec(&index).unwrap());
    files.insert(
        "oci-layout".into(),
        br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
    );
    files
}

pub(crate) fn tar_of(files: &ArchiveFiles) -> Vec<u8> {
    let mut layer = LayerBuilder::default();
    for (name, content) in files {
        layer = layer.raw(name, EntryType::Regular, "", 0o644, content);
    }
    layer.end()
}

/// A store, a folder for archives, and a folder outside the store that must not change.
pub(crate) struct ImportFixture {
    pub(crate) folder: TempDir,
    pub(crate) store: images::ImageStore,
}

impl ImportFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/secret"), "keep").unwrap();
        let store = images::ImageStore::open(folder.path().join("store"));
        Self { folder, store }
    }

    pub(crate) fn with_limits(mut self, limits: images::UnpackLimits) -> Self {
        self.store = self.store.with_limits(limits);
        self
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(crate) fn import(&self, archive: &[u8]) -> Result<images::StoredImage, images::ImageError> {
        let path = self.folder.path().join("archive.tar");
        fs::write(&path, archive).unwrap();
        self.store.import("test", &path, None, &mut |_| {})
    }

    /// Checks that the folder outside the store has not changed.
    #[track_caller]
    pub(crate) fn assert_untouched(&self) {
        let outside: Vec<_> = fs::read_dir(self.outside()).unwrap().flatten().collect();
        assert_eq!(outside.len(), 1, "{outside:?}");
        let secret = self.outside().join("secret");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "keep");
        let links = std::os::unix::fs::MetadataExt::nlink(&fs::metadata(secret).unwrap());
        assert_eq!(links, 1, "a hard link from inside");
    }

    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        self.assert_untouched();
        let store = self.folder.path().join("store");
        for folder in ["work", "names", "roots"] {
            let left: Vec<_> = fs::read_dir(store.join(folder))
                .map(|entries| entries.flatten().collect())
                .unwrap_or_default();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
    }
}

/// Lists everything below a folder, one entry per line: name, mode, and content or target.
pub(crate) fn listing(root: &Path) -> String {
    use std::os::unix::fs::PermissionsExt;
    fn walk(root: &Path, folder: &Path, lines: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let mode = about.permissions().mode() & 0o7777;
            lines.push(match () {
                () if about.is_symlink() => {
                    format!("{name} -> {}", fs::read_link(&path).unwrap().display())
                }
                () if about.is_dir() => format!("{name}/ {mode:o}"),
                () => format!("{name} {mode:o} {}", fs::read_to_string(&path).unwrap()),
            });
            if about.is_dir() {
                walk(root, &path, lines);
            }
        }
    }
    let mut lines = Vec::new();
    walk(root, root, &mut lines);
    lines.sort();
    lines.join("\n")
}

/// The messages of an error and its causes.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
