//! Finds the kernel that machines boot: the configured one, or the newest on this host, preferring
//! kernels for virtual machines. Does not read its content.

use std::cmp::Ordering;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use protocol::Backend;

use crate::backend_config::VmConfig;
use crate::error::SandboxError;

/// A kernel and the folder of its modules; `None` if everything is built in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VmKernel {
    pub(crate) image: PathBuf,
    pub(crate) modules: Option<PathBuf>,
}

const BOOT_DIR: &str = "/boot";
const KERNEL_PREFIX: &str = "vmlinuz-";
const CLOUD_SUFFIX: &str = "-cloud-amd64";

impl VmKernel {
    pub(crate) fn find(machines: &VmConfig, backend: Backend) -> Result<Self, SandboxError> {
        let image = machines
            .kernel
            .clone()
            .or_else(|| newest(Path::new(BOOT_DIR)));
        let Some(image) = image else {
            return Err(SandboxError::Unavailable {
                backend,
                reason: "there is no kernel for virtual machines".into(),
                advice: Some("`apt install linux-image-cloud-amd64`".into()),
            });
        };
        File::open(&image).map_err(|error| SandboxError::Unavailable {
            backend,
            reason: format!("kernel `{}` cannot be read: {error}", image.display()),
            advice: Some("name another kernel in the settings of virtual machines".into()),
        })?;
        let modules = machines.modules.clone().or_else(|| modules_of(&image));
        Ok(Self { image, modules })
    }
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(folder).ok()?.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let best = names
        .filter(|name| name.starts_with(KERNEL_PREFIX))
        .max_by(|one, other| {
            let is_cloud = |name: &str| name.ends_with(CLOUD_SUFFIX);
            is_cloud(one)
                .cmp(&is_cloud(other))
                .then_with(|| by_version(one, other))
        })?;
    Some(folder.join(best))
}

/// Finds the modules by the release in the kernel's name, where distributions put them.
fn modules_of(image: &Path) -> Option<PathBuf> {
    let release = image.file_name()?.to_str()?.strip_prefix(KERNEL_PREFIX)?;
    ["/lib/modules", "/usr/lib/modules"]
        .iter()
        .map(|folder| Path::new(folder).join(release))
        .find(|folder| folder.join("modules.dep").is_file())
}

/// Compares numbers in names by value: `6.1.0-9` is older than `6.1.0-10`.
fn by_version(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        text.split(['.', '-', '_', '+', '~'])
            .map(|part| (part.parse().unwrap_or(0), part.to_owned()))
            .collect()
    };
    parts(one).cmp(&parts(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_for_machines_is_taken() {
        let check = |names: &[&str], expect: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                fs::write(folder.path().join(name), "").unwrap();
            }
            let found = newest(folder.path()).map(|path| path.file_name().unwrap().to_owned());
            assert_eq!(found.as_deref(), expect.map(AsRef::as_ref));
        };
        check(&[], None);
        check(&["initrd.img-6.1", "config-6.1"], None);
        check(
            &["vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-10-amd64"],
            Some("vmlinuz-6.1.0-10-amd64"),
        );
        check(
            &["vmlinuz-6.1.0-9-cloud-amd64", "vmlinuz-6.12.0-1-amd64"],
            Some("vmlinuz-6.1.0-9-cloud-amd64"),
        );
    }
}
