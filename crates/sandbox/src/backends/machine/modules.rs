//! Which modules of a kernel a machine needs, in the order in which they must be loaded. Pure: from
//! the text of `modules.dep`.

use std::collections::HashMap;

/// What every machine needs of its kernel, whether built in or as a module.
pub(super) const USUAL: &[&str] = &[
    "virtio_mmio",
    "virtio_blk",
    "virtio_console",
    "virtio_rng",
    "erofs",
    "squashfs",
    "overlay",
    "fuse",
];

/// Files of the wanted modules and of all that they stand on, in order. A module that the kernel
/// does not list is built in, or the machine will say that it lacks it.
pub(super) fn in_order(dependencies: &str, wanted: &[&str]) -> Vec<String> {
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
        // The list names what comes first last.
        for file in below.iter().rev().chain([file]) {
            if !order.iter().any(|known| known == file) {
                order.push((*file).to_owned());
            }
        }
    }
    order
}

/// As the kernel calls a module: file names mix dashes and underscores.
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
            let order: Vec<String> = in_order(listing, wanted)
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
