//! Where packages come from and how the network is reached. The defaults are the host's: its package
//! archives and keys, its proxies, its trusted certificates.
//!
//! Entry type: [`PackageSources`].

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::HostPrograms;

/// Debian's archive keys, if the host has them.
const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Prefixes of the apt settings that configure network access.
const APT_OPTION_PREFIXES: [&str; 3] = [
    "Acquire::http",
    "Acquire::https",
    "Acquire::Check-Valid-Until",
];

/// The host's network and package settings for a build. None of them stay in the image.
#[derive(Debug, Clone, Default)]
pub struct PackageSources {
    archives: Vec<PackageArchive>,
    pub(super) options: Vec<String>,
    /// Proxy variables.
    pub env: Vec<(String, String)>,
    /// PEM certificates that commands trust in addition to the image's.
    pub certificates: Option<Vec<u8>>,
}

impl PackageSources {
    /// Reads the host's settings; `apt` is its `/etc/apt`.
    pub fn of_host(apt: &Path, programs: &HostPrograms) -> Self {
        let mut files = vec![apt.join("sources.list")];
        let parts = fs::read_dir(apt.join("sources.list.d"));
        let mut parts: Vec<PathBuf> = parts
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        parts.sort();
        files.extend(parts);
        let mut archives = Vec::new();
        for file in files {
            let text = fs::read_to_string(&file).unwrap_or_default();
            match file.extension().and_then(|end| end.to_str()) {
                Some("sources") => archives.extend(parse_deb822(&text)),
                Some("list") => archives.extend(text.lines().filter_map(parse_list_line)),
                _ => {}
            }
        }
        Self {
            archives,
            options: options(programs),
            ..Self::default()
        }
    }

    /// The host's archives that have the suite, or Debian's public ones if the host has none.
    pub(super) fn archives(&self, suite: &str, mirror: Option<&str>) -> Vec<PackageArchive> {
        let known = |path: &str| Path::new(path).exists().then(|| path.to_owned());
        let debian = |uri: &str, suites: &[String]| PackageArchive {
            uris: vec![uri.to_owned()],
            suites: suites.to_vec(),
            components: vec!["main".to_owned()],
            signed_by: known(DEBIAN_KEYRING),
        };
        let updates = format!("{suite}-updates");
        let security = format!("{suite}-security");
        if let Some(mirror) = mirror {
            return vec![debian(mirror, &[suite.to_owned()])];
        }
        let is_wanted = |one: &String| [suite, &updates, &security].contains(&one.as_str());
        let of_host: Vec<PackageArchive> = self
            .archives
            .iter()
            .map(|archive| PackageArchive {
                suites: archive
                    .suites
                    .iter()
                    .filter(|one| is_wanted(one))
                    .cloned()
                    .collect(),
                ..archive.clone()
            })
            .filter(|archive| !archive.suites.is_empty())
            .collect();
        let has_suite = |archive: &PackageArchive| archive.suites.iter().any(|one| one == suite);
        if of_host.iter().any(has_suite) {
            of_host
        } else {
            vec![
                debian("http://deb.debian.org/debian", &[suite.to_owned(), updates]),
                debian("http://deb.debian.org/debian-security", &[security]),
            ]
        }
    }
}

/// A package archive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PackageArchive {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// The path of a keyring, or the keys themselves.
    signed_by: Option<String>,
}

impl PackageArchive {
    pub(super) fn uri(&self) -> &str {
        self.uris.first().map_or("", String::as_str)
    }

    pub(super) fn keyring(&self) -> Option<PathBuf> {
        let path = self.signed_by.as_deref()?;
        path.starts_with('/').then(|| path.into())
    }
}

impl fmt::Display for PackageArchive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Types: deb")?;
        writeln!(formatter, "URIs: {}", self.uris.join(" "))?;
        writeln!(formatter, "Suites: {}", self.suites.join(" "))?;
        writeln!(formatter, "Components: {}", self.components.join(" "))?;
        if let Some(keys) = &self.signed_by {
            writeln!(formatter, "Signed-By: {keys}")?;
        }
        Ok(())
    }
}

/// Parses a `.sources` file (deb822): paragraphs of fields. A line that starts with a space continues the
/// field above.
fn parse_deb822(text: &str) -> Vec<PackageArchive> {
    let mut archives = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = fields.last_mut() {
                    value.push('\n');
                    value.push_str(line);
                }
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let field = |name: &str| fields.iter().find(|(known, _)| known == name);
        let words = |name: &str| -> Vec<String> {
            let value = field(name).map_or("", |(_, value)| value);
            value.split_whitespace().map(str::to_owned).collect()
        };
        let is_off = field("enabled").is_some_and(|(_, value)| value == "no");
        if words("types").iter().any(|kind| kind == "deb") && !is_off {
            archives.push(PackageArchive {
                uris: words("uris"),
                suites: words("suites"),
                components: words("components"),
                signed_by: field("signed-by").map(|(_, keys)| keys.clone()),
            });
        }
    }
    archives
}

/// Parses a line of a `.list` file: `deb [signed-by=FILE] URI SUITE COMPONENT…`.
fn parse_list_line(line: &str) -> Option<PackageArchive> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?.trim_start();
    if line.starts_with("deb-src") {
        return None;
    }
    let mut signed_by = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (options, after) = options.split_once(']')?;
        let mut options = options.split_whitespace();
        signed_by = options
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(PackageArchive {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by,
    })
}

/// The host's apt settings for network access, such as proxies.
fn options(programs: &HostPrograms) -> Vec<String> {
    let Some(program) = programs.find("apt-config") else {
        return Vec::new();
    };
    let output = Command::new(program)
        .arg("dump")
        .env_clear()
        .env("PATH", programs.path_variable())
        .stdin(Stdio::null())
        .output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text)
        .lines()
        .filter(|line| {
            let is_meant = APT_OPTION_PREFIXES
                .iter()
                .any(|start| line.starts_with(start));
            is_meant && !line.ends_with(" \"\";") && !line.contains("::Auto-Detect")
        })
        .map(|line| line.trim_end_matches(';').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822_SOURCES: &str = "Types: deb deb-src\nURIs: http://one/debian\n# a remark\n\
        Suites: bookworm bookworm-updates bookworm-backports\nComponents: main contrib\n\
        Signed-By:\n -----BEGIN\n .\n abc\n\n\
        Types: deb\nURIs: http://two\nSuites: nodistro\nComponents: main\n\n\
        Types: deb\nEnabled: no\nURIs: http://three\nSuites: bookworm\nComponents: main\n";

    const SOURCES_LIST: &str = "# deb http://no bookworm main\n\
        deb [arch=amd64 signed-by=/keys.gpg] http://four bookworm-security main # remark\n\
        deb-src http://no bookworm main\n\
        deb http://five trixie main\n";

    #[track_caller]
    fn check(suite: &str, mirror: Option<&str>, expected: &str) {
        let apt = tempfile::tempdir().unwrap();
        fs::create_dir(apt.path().join("sources.list.d")).unwrap();
        fs::write(apt.path().join("sources.list"), SOURCES_LIST).unwrap();
        fs::write(apt.path().join("sources.list.d/a.sources"), DEB822_SOURCES).unwrap();
        fs::write(apt.path().join("sources.list.d/a.save"), SOURCES_LIST).unwrap();
        let sources = PackageSources::of_host(apt.path(), &HostPrograms::in_folders([apt.path()]));
        let archives = sources.archives(suite, mirror).into_iter().map(|one| {
            // Ignored: the test must not depend on whether the host has Debian's keys.
            let keys = one.signed_by.clone().filter(|keys| keys != DEBIAN_KEYRING);
            let keys = keys.unwrap_or_default().replace('\n', "|");
            format!(
                "{} {} {} {keys}",
                one.uri(),
                one.suites.join(","),
                one.components.join(",")
            )
        });
        assert_eq!(archives.collect::<Vec<_>>().join("\n"), expected);
    }

    #[test]
    fn what_the_host_has_of_a_suite() {
        check(
            "bookworm",
            None,
            "http://four bookworm-security main /keys.gpg\n\
             http://one/debian bookworm,bookworm-updates main,contrib | -----BEGIN| .| abc",
        );
        check("trixie", None, "http://five trixie main ");
        check(
            "sid",
            None,
            "http://deb.debian.org/debian sid,sid-updates main \n\
             http://deb.debian.org/debian-security sid-security main ",
        );
        check("bookworm", Some("http://m"), "http://m bookworm main ");
    }
}
