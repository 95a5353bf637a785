//! The installed `runsc`: its path, the flags that it knows, the platforms that it supports, and
//! which of them worked here. Starts no sandbox. Entry types: [`RunscProgram`], [`RunscFeatures`].

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use protocol::Backend;
use serde::{Deserialize, Serialize};

use super::unavailable;
use crate::backend_config::{BackendConfig, GvisorConfig, find_program};
use crate::backends::confined_guest::own_folder;
use crate::error::SandboxError;

/// Platforms, best first. `ptrace` works everywhere and is the slowest.
const PLATFORMS_BY_PREFERENCE: &[&str] = &["systrap", "kvm", "ptrace"];

/// The device of the `kvm` platform.
pub(super) const KVM_PATH: &str = "/dev/kvm";

/// The `runsc` program.
#[derive(Debug)]
pub(super) struct RunscProgram {
    pub(super) path: PathBuf,
    /// Identifies this program file, kernel and user.
    key: String,
}

impl RunscProgram {
    pub(super) fn find(named: &Path) -> Result<Self, SandboxError> {
        let looked = find_program(named).and_then(|path| {
            let path = path.canonicalize().ok()?;
            let file = fs::metadata(&path).ok()?;
            Some((path, file))
        });
        let Some((path, file)) = looked else {
            return Err(SandboxError::Unavailable {
                backend: Backend::Gvisor,
                reason: format!("`{}` is not installed", named.display()),
                advice: Some("`apt install runsc`".into()),
            });
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let key = format!(
            "{} {} {} {} {}",
            path.display(),
            file.len(),
            file.mtime(),
            kernel.trim(),
            nix::unistd::geteuid(),
        );
        Ok(Self { path, key })
    }

    #[cfg(test)]
    pub(super) fn at(path: &str) -> Self {
        Self {
            path: path.into(),
            key: String::new(),
        }
    }
}

/// The features of a version of `runsc`, from its own help.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunscFeatures {
    flags: Vec<String>,
    platforms: Vec<String>,
}

impl RunscFeatures {
    pub(super) async fn ask(program: &RunscProgram) -> Result<Self, SandboxError> {
        let answer = tokio::process::Command::new(&program.path)
            .arg("flags")
            .env_clear()
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let answer = answer.map_err(|source| SandboxError::Backend {
            backend: Backend::Gvisor,
            doing: format!("start `{}`", program.path.display()),
            source: source.into(),
        })?;
        let text = [answer.stdout, answer.stderr].concat();
        let offer = Self::parse(&String::from_utf8_lossy(&text));
        if offer.platforms.is_empty() {
            Err(unavailable("`runsc flags` names no platform"))
        } else {
            Ok(offer)
        }
    }

    /// Parses the output of `runsc flags`. Each flag starts a line, indented by two; the platforms
    /// are in the description of the `platform` flag.
    pub(super) fn parse(text: &str) -> Self {
        let flags = text.lines().filter_map(|line| {
            let name = line.strip_prefix("  -")?.split_whitespace().next()?;
            Some(name.to_owned())
        });
        let platforms = text
            .lines()
            .find_map(|line| Some(line.split_once("which platform to use:")?.1))
            .unwrap_or_default();
        let platforms = platforms
            .split(['.', '\n'])
            .next()
            .unwrap_or_default()
            .split(',')
            .filter_map(|item| item.split_whitespace().next())
            .map(str::to_owned);
        Self {
            flags: flags.collect(),
            platforms: platforms.collect(),
        }
    }

    /// The platforms to try, in order: the configured one, or all that could work.
    pub(super) fn platforms(&self, settings: &GvisorConfig) -> Vec<String> {
        if let Some(named) = &settings.platform {
            return vec![named.clone()];
        }
        let offered = |name: &&&str| self.platforms.iter().any(|one| one == **name);
        let could_work = |name: &&&str| **name != "kvm" || is_open(KVM_PATH);
        PLATFORMS_BY_PREFERENCE
            .iter()
            .filter(offered)
            .filter(could_work)
            .map(|name| (*name).to_owned())
            .collect()
    }

    pub(super) fn verdict(&self, platform: &str) -> WorkingPlatform {
        WorkingPlatform {
            platform: platform.to_owned(),
            flags: self.flags.clone(),
        }
    }
}

/// Whether the sandbox's user can use a device. That user is never root, so root's access does not
/// count.
fn is_open(device: &str) -> bool {
    let Ok(found) = fs::metadata(device) else {
        return false;
    };
    let for_all = found.mode() & 0o006 == 0o006;
    let access = nix::unistd::AccessFlags::R_OK | nix::unistd::AccessFlags::W_OK;
    let for_caller = nix::unistd::access(device, access).is_ok();
    for_all || (for_caller && !nix::unistd::geteuid().is_root())
}

/// A platform on which a sandbox started, and the flags of that version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkingPlatform {
    pub(super) platform: String,
    flags: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredPlatform {
    key: String,
    verdict: WorkingPlatform,
}

impl WorkingPlatform {
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|one| one == flag)
    }

    /// The stored platform, if it is for this program and matches the settings.
    pub(super) fn read(provisions: &BackendConfig, program: &RunscProgram) -> Option<Self> {
        let folder = own_folder(&provisions.cache).ok()?;
        let kept = fs::read(folder.join(CACHE_FILE)).ok()?;
        let kept: StoredPlatform = serde_json::from_slice(&kept).ok()?;
        let named = provisions.gvisor.platform.as_ref();
        let fits = named.is_none_or(|named| *named == kept.verdict.platform);
        (kept.key == program.key && fits).then_some(kept.verdict)
    }

    /// Stores the platform. A failure is harmless: the platform is determined again.
    pub(super) fn keep(&self, provisions: &BackendConfig, program: &RunscProgram) {
        let write = || -> io::Result<()> {
            let folder = own_folder(&provisions.cache)?;
            let kept = serde_json::to_vec(&StoredPlatform {
                key: program.key.clone(),
                verdict: self.clone(),
            })?;
            let made = folder.join(format!(".{CACHE_FILE}-{}", std::process::id()));
            fs::write(&made, kept)?;
            fs::rename(made, folder.join(CACHE_FILE))
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "cannot store the working gVisor platform");
        }
    }

    pub(super) fn forget(provisions: &BackendConfig) {
        let _ = fs::remove_file(provisions.cache.join(CACHE_FILE));
    }
}

const CACHE_FILE: &str = "gvisor.json";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const FLAGS_2022: &str = "Flags:
  -overlay2 value
    \twrap mounts with overlayfs. Format is {mount}:{medium}.
  -platform string
    \tspecifies which platform to use: ptrace (default), kvm. (default \"ptrace\")
  -rootless
    \tit allows the sandbox to be started with a user that is not root.
";

    const FLAGS_2024: &str = "Flags:
  -directfs
    \tdirectly access the container filesystems from the sentry. (default true)
  -platform string
    \tspecifies which platform to use: systrap (default), ptrace, kvm. (default \"systrap\")
";

    #[test]
    fn flags_and_platforms_are_read_from_every_version() {
        let check = |text: &str, flags: &[&str], platforms: &[&str]| {
            let expect = RunscFeatures {
                flags: flags.iter().map(ToString::to_string).collect(),
                platforms: platforms.iter().map(ToString::to_string).collect(),
            };
            assert_eq!(RunscFeatures::parse(text), expect);
        };
        check(
            FLAGS_2022,
            &["overlay2", "platform", "rootless"],
            &["ptrace", "kvm"],
        );
        check(
            FLAGS_2024,
            &["directfs", "platform"],
            &["systrap", "ptrace", "kvm"],
        );
        check("flag provided but not defined", &[], &[]);
    }

    #[test]
    fn the_best_platform_comes_first_and_a_named_one_alone() {
        let settings = |platform: Option<&str>| GvisorConfig {
            runsc: "runsc".into(),
            platform: platform.map(str::to_owned),
        };
        let offer = RunscFeatures::parse(FLAGS_2024);
        let tried = offer.platforms(&settings(None));
        assert_eq!(tried.first().unwrap(), "systrap");
        assert_eq!(tried.last().unwrap(), "ptrace");
        assert_eq!(offer.platforms(&settings(Some("kvm"))), ["kvm"]);
    }

    #[test]
    fn a_verdict_holds_for_the_same_program_and_setting_only() {
        let folder = tempfile::tempdir().unwrap();
        let program = |key: &str| RunscProgram {
            path: "/usr/bin/runsc".into(),
            key: key.into(),
        };
        let mut provisions = BackendConfig {
            cache: folder.path().join("cache"),
            ..BackendConfig::default()
        };
        let verdict = RunscFeatures::parse(FLAGS_2022).verdict("ptrace");
        assert_eq!(WorkingPlatform::read(&provisions, &program("one")), None);
        verdict.keep(&provisions, &program("one"));
        let read = WorkingPlatform::read(&provisions, &program("one")).unwrap();
        assert_eq!(read, verdict);
        assert!(read.has_flag("overlay2") && !read.has_flag("directfs"));
        assert_eq!(WorkingPlatform::read(&provisions, &program("two")), None);
        provisions.gvisor.platform = Some("kvm".into());
        assert_eq!(WorkingPlatform::read(&provisions, &program("one")), None);
        provisions.gvisor.platform = None;
        WorkingPlatform::forget(&provisions);
        assert_eq!(WorkingPlatform::read(&provisions, &program("one")), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_one_line_with_advice() {
        for named in ["no-such-runsc", "/nowhere/runsc", "/usr"] {
            let error = RunscProgram::find(Path::new(named)).unwrap_err();
            let expect = format!("cannot use the `gvisor` backend: `{named}` is not installed");
            assert_eq!(error.to_string(), expect);
            assert_eq!(error.hint().unwrap(), "`apt install runsc`");
        }
    }
}
