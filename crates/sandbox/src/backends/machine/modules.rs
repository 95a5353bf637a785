//! Determines the kernel modules that a machine needs, in load order. Pure: parses the text of
//! `modules.dep`.

use std::collections::HashMap;

/// Kernel features that every machine needs, built in or as modules.
pub(super) const COMMON_MODULES: &[&str] = &[
    "virtio_mmio",
    "virtio_blk",
    "virtio_console",
    "virtio_rng",
    "erofs",
    "squashfs",
    "overlay",
    "fuse",
];

/// Files of the wanted modules and of their dependencies, in load order. A module that is not
/// listed is built in; if not, the machine reports that it is missing.
pub(super) fn load_order(dependencies: &str, wanted: &[&str]) -> Vec<String> {
    let lines: HashMap<String, (&str, Vec<&str>)> = dependencies
        .lines()
        .filter_map(|line| {
            let (file, below) = line.split_once(':')?;
            Some((name(file), (file, below.split_whitespace().collect())))
        })
        .collect();
    let mut order: Vec<String> = Vec::new();
    for one in wanted {
        let Some((file, below)) = lines.get(*one) else {
            continue;
        };
        // The list has the first dependency to load last.
        for file in below.iter().rev().chain([file]) {
            if !order.iter().any(|known| known == file) {
                order.push((*file).to_owned());
            }
        }
    }
    order
}

/// The kernel's name of a module: file names mix dashes and underscores.
pub(super) fn name(file: &str) -> String {
    let file = file.rsplit('/').next().unwrap_or(file);
    let stem = file.split('.').next().unwrap_or(file);
    stem.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_stands_on_comes_first_and_once() {
        let listing = "\
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio_mmio.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/fs/fuse/fuse.ko:";
        let check = |wanted: &[&str], expect: &[&str]| {
            let order: Vec<String> = load_order(listing, wanted)
                .iter()
                .map(|file| name(file))
                .collect();
            assert_eq!(order, expect);
        };
        check(
            &["virtio_mmio", "virtio_rng"],
            &["virtio", "virtio_ring", "virtio_mmio", "virtio_rng"],
        );
        check(&["built_in", "fuse"], &["fuse"]);
        check(&[], &[]);
    }
}
