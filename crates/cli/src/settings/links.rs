//! Refuses links in the path of a workspace that the user did not type.
//!
//! A sandbox whose workspace is the current folder can replace `./workspace` by a link, and the next start
//! would expose the link's target to it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::cli_error::CliError;

/// Fails if any part of the path below the current folder is a symbolic link. The path above it belongs
/// to the user.
pub(super) fn refuse_links_below_current(path: &Path) -> Result<(), CliError> {
    let here = std::env::current_dir().unwrap_or_default();
    let Some(link) = first_link(&here, path) else {
        return Ok(());
    };
    let text = format!(
        "cannot use `{}` for the workspace: `{}` is a symbolic link",
        path.display(),
        link.display()
    );
    Err(CliError::usage(text).hint(
        "a sandbox may have made it: if you trust it, name the folder with `--workspace`"
            .to_owned(),
    ))
}

/// The first link in the path, below `here` or relative to it.
fn first_link(here: &Path, path: &Path) -> Option<PathBuf> {
    let below = if path.is_absolute() {
        path.strip_prefix(here).ok()?
    } else {
        path
    };
    let mut place = here.to_owned();
    for part in below.components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::Normal(name) => place.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
        let is_link = |about: fs::Metadata| about.is_symlink();
        if place != here && fs::symlink_metadata(&place).is_ok_and(is_link) {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_found_at_the_end_and_on_the_way() {
        let place = tempfile::tempdir().unwrap();
        let here = place.path().join("here");
        fs::create_dir_all(here.join("real/deep")).unwrap();
        fs::create_dir(place.path().join("beside")).unwrap();
        symlink("/root", here.join("link")).unwrap();
        symlink("nowhere", here.join("dangling")).unwrap();
        symlink("real", here.join("way")).unwrap();
        let absolute = here.join("link").display().to_string();
        for (path, expect) in [
            ("./workspace", None),
            ("real/deep", None),
            ("../beside", None),
            ("link", Some("link")),
            ("./link", Some("link")),
            ("real/../link", Some("link")),
            ("dangling", Some("dangling")),
            ("way/deep", Some("way")),
            ("way/not-yet", Some("way")),
            (absolute.as_str(), Some("link")),
            ("/bin", None),
        ] {
            let found = first_link(&here, Path::new(path));
            assert_eq!(found, expect.map(|name| here.join(name)), "{path}");
        }
    }
}
