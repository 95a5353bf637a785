//! Builds with `debootstrap`, if `mmdebstrap` is not installed: first a minimal system, then the packages
//! with that system's own package manager. Requires root.

use std::fs;
use std::io;
use std::process::Command;

use super::inputs::{BUILD_FOLDER, BuildInputs};
use super::mmdebstrap::command_tied_to_parent;
use crate::error::ImageError;
use crate::programs::HostPrograms;

/// Runs in its own mount namespace. The tar goes to stdout, all messages go to stderr.
const BUILD_SCRIPT: &str = r#"set -eu
exec 3>&1 1>&2
root=$TMPDIR/root
debootstrap --variant=minbase $KEYRING "$SUITE" "$root" "$MIRROR"
tar -C "$root" -xf files.tar
rm -f "$root/etc/apt/sources.list"
cp archives.sources "$root/etc/apt/sources.list.d/hotcell.sources"
cp apt.conf "$root/etc/apt/apt.conf.d/99hotcell"
cp -L /etc/resolv.conf "$root/etc/resolv.conf" || true
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
export DEBIAN_FRONTEND=noninteractive
inside() {
    chroot "$root" /usr/bin/env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
inside apt-get -q update
inside apt-get -q -y dist-upgrade
if [ -n "$PACKAGES" ]; then
    inside apt-get -q -y install --no-install-recommends $PACKAGES
fi
inside /bin/sh /INSIDE/run
inside apt-get clean
rm -rf "$root/INSIDE" "$root/usr/sbin/policy-rc.d" "$root/etc/apt/apt.conf.d/99hotcell"
umount -l "$root/dev" "$root/proc"
tar -C "$root" --one-file-system --sort=name --numeric-owner --format=pax -cf - . >&3
"#;

pub(super) fn command(
    programs: &HostPrograms,
    kitchen: &BuildInputs,
) -> io::Result<Result<Command, ImageError>> {
    if programs.find("debootstrap").is_none() {
        return Ok(Err(ImageError::NoBuilder));
    }
    if !nix::unistd::geteuid().is_root() {
        let why = "debootstrap needs root, and mmdebstrap is not installed";
        return Ok(Err(ImageError::Unprivileged(why)));
    }
    let script = BUILD_SCRIPT.replace("INSIDE", BUILD_FOLDER);
    fs::write(kitchen.folder.join("build"), script)?;
    let options: Vec<String> = kitchen
        .options
        .iter()
        .map(|one| format!("{one};\n"))
        .collect();
    fs::write(kitchen.folder.join("apt.conf"), options.concat())?;
    let keyring = kitchen
        .keyring
        .as_ref()
        .map(|path| path.display().to_string());
    let mut command = command_tied_to_parent(programs, true);
    command.args(["/bin/sh", "build"]);
    command.current_dir(&kitchen.folder);
    command.env_clear().env("PATH", programs.path_variable());
    command.envs(kitchen.env.iter().map(|(name, value)| (name, value)));
    command
        .env("LC_ALL", "C.UTF-8")
        .env("TMPDIR", &kitchen.scratch)
        .env("SUITE", &kitchen.suite)
        .env("MIRROR", &kitchen.mirror)
        // Expanded unquoted, so that it is one word or none. The path is the host's and has no spaces.
        .env(
            "KEYRING",
            keyring
                .map(|path| format!("--keyring={path}"))
                .unwrap_or_default(),
        )
        .env("PACKAGES", kitchen.packages.join(" "));
    Ok(Ok(command))
}
