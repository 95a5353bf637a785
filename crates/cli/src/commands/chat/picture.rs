//! Pictures that the user attaches for the model: files of the host.
//!
//! The type of a picture is detected from its first bytes, not from its name. A link that a sandbox has
//! put into the workspace is never followed out of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::Image;

use crate::cli_error::CliError;

/// The maximum that providers accept.
const MAX_PICTURE_BYTES: u64 = 5 << 20;

/// Enough to recognize every type.
const MAGIC_BYTES: usize = 12;

/// A picture as it is put into a message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    pub(super) path: PathBuf,
    pub(super) image: Image,
    pub(super) bytes: u64,
}

/// Reads a picture. A relative path is looked up in the current folder, then in the workspace.
pub(super) fn read(path: &Path, workspace: &Path) -> Result<Picture, CliError> {
    let complain = |why: &dyn std::fmt::Display| {
        CliError::usage(format!(
            "cannot use `{}` as a picture: {why}",
            path.display()
        ))
    };
    let found = find(path, workspace).map_err(|error| complain(&error))?;
    let file = open(&found).map_err(|error| complain(&error))?;
    let mut content = Vec::new();
    file.take(MAX_PICTURE_BYTES + 1)
        .read_to_end(&mut content)
        .map_err(|error| complain(&error))?;
    if content.len() as u64 > MAX_PICTURE_BYTES {
        return Err(complain(&"it is larger than 5 MiB").hint("use a smaller picture".to_owned()));
    }
    let Some(media_type) = media_type(&content) else {
        return Err(complain(&"it is not a supported picture")
            .hint("PNG, JPEG, GIF and WebP are supported".to_owned()));
    };
    Ok(Picture {
        path: path.to_owned(),
        bytes: content.len() as u64,
        image: Image::Base64 {
            media_type: media_type.to_owned(),
            data: STANDARD.encode(content),
        },
    })
}

/// The real path of the file.
fn find(path: &Path, workspace: &Path) -> io::Result<PathBuf> {
    let at_home = path.strip_prefix("~").ok().zip(std::env::home_dir());
    let named = match at_home {
        Some((rest, home)) => home.join(rest),
        None => path.to_owned(),
    };
    let named = if named.exists() || named.is_absolute() {
        named
    } else {
        workspace.join(&named)
    };
    let real = fs::canonicalize(&named)?;
    let workspace = fs::canonicalize(workspace).unwrap_or_else(|_| workspace.to_owned());
    let is_in_workspace = std::path::absolute(&named)?
        .ancestors()
        .skip(1)
        .any(|folder| fs::canonicalize(folder).is_ok_and(|folder| folder.starts_with(&workspace)));
    if is_in_workspace && !real.starts_with(&workspace) {
        Err(io::Error::other("it leads out of the workspace"))
    } else {
        Ok(real)
    }
}

/// Does not block on a FIFO without a writer.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn media_type(content: &[u8]) -> Option<&'static str> {
    let start = &content[..content.len().min(MAGIC_BYTES)];
    match start {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P'] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        for (content, expect) in [
            (PNG, Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x01\x02\x03\x04WEBPVP8", Some("image/webp")),
            (b"RIFF\x01\x02\x03\x04WAVEfmt", None),
            (b"", None),
            (b"#!/bin/sh", None),
        ] {
            assert_eq!(media_type(content), expect, "{content:?}");
        }
    }

    #[test]
    fn files_become_pictures_or_complaints() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let outside = file("outside.png", PNG);
        file("workspace/inside.png", PNG);
        std::os::unix::fs::symlink(&outside, workspace.join("link.png")).unwrap();
        std::os::unix::fs::symlink(folder.path(), workspace.join("folder")).unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let check = |path: &Path, expect: Option<&str>| {
            let read = read(path, &workspace).map_err(|complaint| complaint.into_parts().0);
            match (read, expect) {
                (Ok(picture), None) => assert_eq!(picture.bytes, PNG.len() as u64),
                (Err(said), Some(expect)) => assert!(said.ends_with(expect), "{said}"),
                (read, _) => panic!("{}: {read:?}", path.display()),
            }
        };
        check(&outside, None);
        check(Path::new("inside.png"), None);
        check(&workspace.join("inside.png"), None);
        let out = Some("it leads out of the workspace");
        check(Path::new("link.png"), out);
        check(&workspace.join("link.png"), out);
        check(&workspace.join("folder/outside.png"), out);
        check(&pipe, Some("it is not a regular file"));
        check(&workspace, Some("it is not a regular file"));
        check(
            &file("text.png", b"hello"),
            Some("it is not a supported picture"),
        );
        check(
            &file(
                "huge.png",
                &[PNG, &vec![0; MAX_PICTURE_BYTES as usize]].concat(),
            ),
            Some("it is larger than 5 MiB"),
        );
        check(
            Path::new("missing.png"),
            Some("No such file or directory (os error 2)"),
        );
    }
}
