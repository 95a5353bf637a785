//! The inputs of a build in one folder: package archives, the recipe's files, its commands as scripts, and
//! the proxies and certificates with which the commands reach the network as the host does.
//!
//! Files that are needed in the new root only during the build are in [`BUILD_FOLDER`], which is removed at the
//! end. Entry type: [`BuildInputs`].

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::sources::PackageSources;
use crate::recipe::Recipe;
use crate::store::WorkFolder;

/// The folder in the new root that holds commands and certificates during the build.
pub(super) const BUILD_FOLDER: &str = ".hotcell-build";

/// Environment variables that name a file of trusted certificates.
const CERTIFICATE_VARIABLES: [&str; 6] = [
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

/// The inputs of a build. The folder contains `archives.sources` and `files.tar`.
#[derive(Debug)]
pub(super) struct BuildInputs {
    pub(super) folder: PathBuf,
    /// The builder program's `TMPDIR`.
    pub(super) scratch: PathBuf,
    pub(super) suite: String,
    pub(super) packages: Vec<String>,
    /// Options for apt.
    pub(super) options: Vec<String>,
    /// Proxies, for apt and for commands.
    pub(super) env: Vec<(String, String)>,
    pub(super) has_commands: bool,
    /// The first archive, for `debootstrap`, which takes only one.
    pub(super) mirror: String,
    pub(super) keyring: Option<PathBuf>,
}

impl BuildInputs {
    pub(super) fn new(
        recipe: &Recipe,
        sources: &PackageSources,
        work: &WorkFolder,
    ) -> io::Result<Self> {
        let folder = work.folder().join("inputs");
        fs::create_dir(&folder)?;
        let scratch = work.scratch(!nix::unistd::geteuid().is_root())?;
        let archives = sources.archives(&recipe.suite, recipe.mirror.as_deref());
        let text: Vec<String> = archives.iter().map(ToString::to_string).collect();
        fs::write(folder.join("archives.sources"), text.join("\n"))?;
        write_files_tar(recipe, sources, &folder.join("files.tar"))?;
        let first = archives.first();
        Ok(Self {
            folder,
            scratch,
            suite: recipe.suite.clone(),
            packages: recipe.packages.clone(),
            options: sources.options.clone(),
            env: sources.env.clone(),
            has_commands: !recipe.run.is_empty(),
            mirror: first.map(|one| one.uri().to_owned()).unwrap_or_default(),
            keyring: first.and_then(|one| one.keyring()),
        })
    }
}

/// Writes a tar with the recipe's files and, below [`BUILD_FOLDER`], the commands and their certificates.
fn write_files_tar(recipe: &Recipe, sources: &PackageSources, path: &Path) -> io::Result<()> {
    let mut tar = tar::Builder::new(File::create(path)?);
    let mut add = |path: &str, mode, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, path, content)
    };
    for (path, file) in &recipe.files {
        add(path.trim_start_matches('/'), file.mode, &file.content)?;
    }
    let mut script = String::from("set -eu\ncd /root\numask 022\n");
    let mut export = |name: &str, value: &str| {
        if is_variable_name(name) {
            script.push_str(&format!("export {name}={}\n", shell_quote(value)));
        }
    };
    for (name, value) in [
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("HOME", "/root"),
        ("LC_ALL", "C.UTF-8"),
        (
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ),
        ("npm_config_update_notifier", "false"),
    ] {
        export(name, value);
    }
    for (name, value) in &sources.env {
        export(name, value);
    }
    if let Some(certificates) = &sources.certificates {
        add(
            &format!("{BUILD_FOLDER}/certificates.pem"),
            0o644,
            certificates,
        )?;
        for name in CERTIFICATE_VARIABLES {
            export(name, &format!("/{BUILD_FOLDER}/certificates.pem"));
        }
    }
    for (number, command) in recipe.run.iter().enumerate() {
        let file = format!("{BUILD_FOLDER}/run-{number:03}");
        add(&file, 0o644, format!("{command}\n").as_bytes())?;
        let first = command.trim().lines().next().unwrap_or_default();
        script.push_str(&format!("echo {}\n", shell_quote(&format!("+ {first}"))));
        script.push_str(&format!("/bin/sh -e /{file} < /dev/null\n"));
    }
    add(&format!("{BUILD_FOLDER}/run"), 0o644, script.as_bytes())?;
    tar.into_inner()?.sync_all()
}

fn is_variable_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(is_letter)
}

/// Quotes any text as one word of a shell.
fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
