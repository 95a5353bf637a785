//! The arguments for `msb`. Pure: paths and limits in, argument lists out.
//!
//! Two calls make a sandbox. `msb run` holds the machine: it is attached, so the machine ends with
//! it, and its command is a guest that only waits for the end of its input. `msb exec --stream`
//! runs the actual guest, with the link as its standard input and output; `run` would hold back all
//! output until the end.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use crate::backends::bundle::BundleMount;
use crate::backends::confined_guest::GUEST_PATH;
use crate::backends::root_entries::{HOSTNAME, UID};
use crate::limits::SandboxLimits;
use crate::spec::WORKSPACE_PATH;

/// Time after the deadline in which the guest may end the sandbox by itself.
const DEADLINE_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// One machine for `msb run`.
#[derive(Debug)]
pub(super) struct MsbMachine<'a> {
    pub(super) name: &'a str,
    pub(super) root: &'a Path,
    pub(super) mounts: &'a [BundleMount],
    pub(super) limits: &'a SandboxLimits,
    /// Processors of the host.
    pub(super) processors: usize,
}

impl MsbMachine<'_> {
    /// Arguments of the process that holds the machine.
    pub(super) fn run(&self) -> Vec<OsString> {
        let mut all = MsbArguments::default();
        all.flags(&["run", "--quiet", "--no-tty", "--pull", "never"]);
        all.option("--name", self.name);
        all.option(
            "--cpus",
            processors(self.limits, self.processors).to_string(),
        );
        all.option("--memory", format!("{}M", megabytes(self.limits.memory)));
        all.flags(&["--no-net", "--security", "restricted"]);
        all.option("--hostname", HOSTNAME);
        all.option("--user", format!("{UID}:{UID}"));
        all.option("--workdir", "/");
        if let Some(wall) = self.limits.wall {
            let seconds = (wall + DEADLINE_GRACE_PERIOD).as_secs() + 1;
            all.option("--max-duration", format!("{seconds}s"));
        }
        for mount in self.mounts {
            all.mount(mount);
        }
        all.0.push(self.root.into());
        all.flags(&["--", GUEST_PATH, "piped"]);
        all.0
    }

    /// Arguments of the process that carries the link.
    pub(super) fn exec(&self) -> Vec<OsString> {
        let mut all = MsbArguments::default();
        all.flags(&["exec", "--quiet", "--stream"]);
        all.option("--user", format!("{UID}:{UID}"));
        all.option("--workdir", "/");
        all.flags(&[self.name, "--", GUEST_PATH, "piped"]);
        all.0
    }
}

/// The first path that cannot be passed to `msb`, whose mount syntax uses colons and commas.
pub(super) fn unsupported_path(mounts: &[BundleMount]) -> Option<&Path> {
    mounts.iter().find_map(|mount| match mount {
        BundleMount::Bind { source, .. } => {
            let name = source.as_os_str().as_encoded_bytes();
            name.iter()
                .any(|byte| matches!(byte, b':' | b','))
                .then_some(source.as_path())
        }
        BundleMount::Tmpfs { .. } => None,
    })
}

/// A machine has whole processors, and no more than the host.
pub(super) fn processors(limits: &SandboxLimits, host: usize) -> usize {
    (limits.cpus.ceil() as usize).clamp(1, host.clamp(1, u8::MAX.into()))
}

fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20).max(1)
}

#[derive(Default)]
struct MsbArguments(Vec<OsString>);

impl MsbArguments {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    fn option(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.push(name.into());
        self.0.push(value.as_ref().into());
    }

    fn mount(&mut self, mount: &BundleMount) {
        match mount {
            BundleMount::Bind {
                source,
                target,
                read_only,
            } => {
                let kind = if source.is_dir() {
                    "--mount-dir"
                } else {
                    "--mount-file"
                };
                let mut text = source.clone().into_os_string();
                text.push(":");
                text.push(target);
                text.push(":nosuid,nodev,");
                text.push(
                    match (read_only, mount.target() == Path::new(WORKSPACE_PATH)) {
                        // Keeps owner and mode as they are on the host.
                        (true, _) => "ro,stat-virt=off".to_owned(),
                        // Everything belongs to the user inside, and modes are applied on the host.
                        (false, true) => {
                            format!("uid={UID},gid={UID},stat-virt=relaxed,host-perms=mirror")
                        }
                        (false, false) => format!("uid={UID},gid={UID}"),
                    },
                );
                self.option(kind, text);
            }
            BundleMount::Tmpfs { target, bytes, .. } => {
                let mut text = target.clone().into_os_string();
                text.push(format!(":{}M:nosuid,nodev", megabytes(*bytes)));
                self.option("--tmpfs", text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arguments: Vec<OsString>) -> String {
        let all: Vec<_> = arguments.iter().map(|one| one.to_string_lossy()).collect();
        all.join(" ")
    }

    fn bind(source: &str, target: &str, read_only: bool) -> BundleMount {
        BundleMount::Bind {
            source: source.into(),
            target: target.into(),
            read_only,
        }
    }

    #[test]
    fn mounts_and_limits_become_options() {
        let mounts = [
            bind("/usr", "/usr", true),
            bind("/no/such/guest", GUEST_PATH, true),
            bind("/tmp", WORKSPACE_PATH, false),
            BundleMount::Tmpfs {
                target: "/tmp".into(),
                bytes: (1 << 20) + 1,
                inodes: 10,
                mode: 0o1777,
            },
        ];
        let check = |limits: SandboxLimits, expect: &[&str], never: &[&str]| {
            let machine = MsbMachine {
                name: "hotcell-1",
                root: Path::new("/r"),
                mounts: &mounts,
                limits: &limits,
                processors: 4,
            };
            let said = text(machine.run());
            for part in expect {
                assert!(said.contains(part), "`{part}` is not in: {said}");
            }
            for part in never {
                assert!(!said.contains(part), "`{part}` is in: {said}");
            }
        };
        let always = [
            "run --quiet --no-tty --pull never --name hotcell-1",
            "--no-net --security restricted",
            "--user 1000:1000",
            "--mount-dir /usr:/usr:nosuid,nodev,ro,stat-virt=off",
            "--mount-file /no/such/guest:/.hotcell/guest:nosuid,nodev,ro,stat-virt=off",
            "--mount-dir /tmp:/workspace:nosuid,nodev,uid=1000,gid=1000,stat-virt=relaxed,host-perms=mirror",
            "--tmpfs /tmp:2M:nosuid,nodev",
            " /r -- /.hotcell/guest piped",
        ];
        check(
            SandboxLimits::default(),
            &always,
            &["--max-duration", "--tty "],
        );
        check(
            SandboxLimits {
                memory: 100 << 20,
                cpus: 0.5,
                wall: Some(Duration::from_millis(1500)),
                ..SandboxLimits::default()
            },
            &["--cpus 1 --memory 100M", "--max-duration 7s"],
            &[],
        );
        check(
            SandboxLimits {
                memory: 1,
                cpus: 64.0,
                ..SandboxLimits::default()
            },
            &["--cpus 4 --memory 1M"],
            &[],
        );
    }

    #[test]
    fn the_link_is_a_raw_stream() {
        let machine = MsbMachine {
            name: "n",
            root: Path::new("/r"),
            mounts: &[],
            limits: &SandboxLimits::default(),
            processors: 1,
        };
        assert_eq!(
            text(machine.exec()),
            "exec --quiet --stream --user 1000:1000 --workdir / n -- /.hotcell/guest piped"
        );
    }

    #[test]
    fn paths_that_cannot_be_said_are_found() {
        let check = |source: &str, expect: bool| {
            let mounts = [
                bind("/usr", "/usr", true),
                bind(source, WORKSPACE_PATH, false),
            ];
            assert_eq!(unsupported_path(&mounts).is_some(), expect, "{source}");
        };
        check("/home/me/work space", false);
        check("/home/me/a:b", true);
        check("/home/me/a,b", true);
    }
}
