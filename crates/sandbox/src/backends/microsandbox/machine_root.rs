//! The root folder of a machine: made for one sandbox and deleted with it, because `msb` gives the
//! machine write access to its root folder. Large parts are mounted into it read-only: the host's
//! programs, or the folders of an image. An image is never the root itself.
//! Entry point: [`MachineRoot::make`].

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::backends::bundle::{Bundle, BundleMount};
use crate::spec::{RootSpec, SandboxSpec};

/// A root folder and the mounts inside it.
#[derive(Debug)]
pub(super) struct MachineRoot {
    pub(super) root: PathBuf,
    pub(super) mounts: Vec<BundleMount>,
}

/// Top-level folders of an image that the machine provides itself or does not need.
const SKIPPED_FOLDERS: &[&str] = &["boot", "dev", "lost+found", "proc", "run", "sys", "tmp"];

/// Larger files of an image's `/etc` are not copied.
const MAX_COPY_BYTES: u64 = 4 << 20;

impl MachineRoot {
    /// Makes it in `folder`, which must be empty.
    pub(super) fn make(spec: &SandboxSpec, folder: &Path, workspace: &Path) -> io::Result<Self> {
        let Bundle { root, mounts } = Bundle::make(spec, folder, workspace)?;
        match &spec.root {
            RootSpec::Host => Ok(Self { root, mounts }),
            RootSpec::Image(image) => Self::of_image(image, &folder.join("root"), mounts),
        }
    }

    fn of_image(image: &Path, root: &Path, mounts: Vec<BundleMount>) -> io::Result<Self> {
        // The generated files that would be mounted over the image are in the root already.
        let mut mounts: Vec<BundleMount> = mounts
            .into_iter()
            .filter(
                |mount| !matches!(mount, BundleMount::Bind { source, .. } if source.starts_with(root)),
            )
            .collect();
        for entry in fs::read_dir(image)? {
            let entry = entry?;
            let name = entry.file_name();
            let target = root.join(&name);
            let kind = entry.file_type()?;
            if name == "etc" {
                copy_missing(&entry.path(), &target)?;
            } else if SKIPPED_FOLDERS.iter().any(|one| name == *one)
                || target.symlink_metadata().is_ok()
            {
                // Provided by the machine, or generated.
            } else if kind.is_symlink() {
                symlink(fs::read_link(entry.path())?, &target)?;
            } else if kind.is_dir() {
                fs::create_dir(&target)?;
                mounts.push(BundleMount::Bind {
                    source: entry.path(),
                    target: Path::new("/").join(&name),
                    read_only: true,
                });
            }
        }
        Ok(Self {
            root: root.to_owned(),
            mounts,
        })
    }
}

/// Copies world-readable files that are not there yet.
fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let found = entry.metadata()?;
        if found.is_dir() {
            copy_missing(&entry.path(), &target)?;
        } else if target.symlink_metadata().is_ok() {
            // Generated for this sandbox.
        } else if found.is_symlink() {
            symlink(fs::read_link(entry.path())?, &target)?;
        } else if found.is_file()
            && found.permissions().mode() & 0o004 != 0
            && found.len() <= MAX_COPY_BYTES
        {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::backend_config::BackendConfig;

    #[test]
    fn an_image_is_mounted_and_never_changed() {
        let place = tempfile::tempdir().unwrap();
        let (image, folder) = (place.path().join("image"), place.path().join("sandbox"));
        for made in ["usr/bin", "etc/ssl", "var/lib", "proc", "home/somebody"] {
            fs::create_dir_all(image.join(made)).unwrap();
        }
        symlink("usr/bin", image.join("bin")).unwrap();
        for (file, mode) in [
            ("etc/hosts", 0o644),
            ("etc/ssl/x", 0o644),
            ("etc/shadow", 0o640),
        ] {
            fs::write(image.join(file), "the image's").unwrap();
            fs::set_permissions(image.join(file), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        let spec = SandboxSpec {
            root: RootSpec::Image(image.clone()),
            provisions: Arc::new(BackendConfig {
                cache: place.path().join("cache"),
                ..BackendConfig::default()
            }),
            ..SandboxSpec::new(place.path())
        };
        let made = MachineRoot::make(&spec, &folder, place.path()).unwrap();
        assert!(made.root.starts_with(&folder));
        let mounted: Vec<_> = made
            .mounts
            .iter()
            .filter(
                |mount| matches!(mount, BundleMount::Bind { source, .. } if source.starts_with(&image)),
            )
            .map(|mount| mount.target().to_owned())
            .collect();
        let mut expect = vec![PathBuf::from("/usr"), PathBuf::from("/var")];
        expect.retain(|path| !mounted.contains(path));
        assert_eq!(expect, Vec::<PathBuf>::new(), "{mounted:?}");
        assert!(!mounted.contains(&PathBuf::from("/proc")));
        for mount in &made.mounts {
            if let BundleMount::Bind {
                source, read_only, ..
            } = mount
            {
                assert!(*read_only || source == place.path(), "{mount:?}");
            }
        }
        let read = |file: &str| fs::read_to_string(made.root.join(file)).ok();
        assert_ne!(read("etc/hosts").unwrap(), "the image's");
        assert_eq!(read("etc/ssl/x").unwrap(), "the image's");
        assert_eq!(read("etc/shadow"), None);
        assert_eq!(
            fs::read_link(made.root.join("bin")).unwrap(),
            Path::new("usr/bin")
        );
        let top: Vec<_> = fs::read_dir(&image).unwrap().collect();
        assert_eq!(top.len(), 6, "nothing was made in the image");
    }
}
