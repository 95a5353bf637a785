//! Validates the values of a recipe. Each becomes an argument of a program or a path in the new root, so
//! each is limited to the characters that such a value has.

use std::path::{Component, Path};

/// The mode of a file for which the recipe gives none.
const DEFAULT_FILE_MODE: u32 = 0o644;

pub(super) fn suite(suite: &str) -> Result<String, String> {
    let is_suite = suite.starts_with(|letter: char| letter.is_ascii_lowercase())
        && suite.chars().all(is_plain);
    if is_suite {
        Ok(suite.to_owned())
    } else {
        Err(format!("`{suite}` is not a suite such as `bookworm`"))
    }
}

/// A package, optionally with a version or an architecture: `nodejs`, `nodejs=18.19.0+dfsg-6`, `libc6:arm64`.
pub(super) fn package(package: &str) -> Result<String, String> {
    let is_package = package.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && package
            .chars()
            .all(|letter| is_plain(letter) || "+:=~/".contains(letter));
    if is_package {
        Ok(package.to_owned())
    } else {
        Err(format!("`{package}` is not a package name"))
    }
}

pub(super) fn mirror(mirror: &str) -> Result<String, String> {
    let is_address = ["http://", "https://"]
        .iter()
        .any(|scheme| mirror.starts_with(scheme));
    let is_clean = mirror.chars().all(|letter| {
        is_plain(letter) || "/:~+_%@[]".contains(letter) || letter.is_ascii_uppercase()
    });
    if is_address && is_clean {
        Ok(mirror.to_owned())
    } else {
        Err(format!("the mirror `{mirror}` is not an http or https URL"))
    }
}

pub(super) fn mode(mode: Option<&str>, path: &str) -> Result<u32, String> {
    let Some(text) = mode else {
        return Ok(DEFAULT_FILE_MODE);
    };
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 && !text.starts_with('+') => Ok(mode),
        _ => Err(format!(
            "the mode `{text}` of `{path}` is not one from `0000` to `0777`"
        )),
    }
}

/// An absolute path in the image; returned without repeated slashes and `.`.
pub(super) fn path_in_image(path: &str) -> Result<String, String> {
    let wrong = || format!("`{path}` is not an absolute file path such as `/etc/motd`");
    let mut clean = String::new();
    if path.ends_with('/') || path.contains('\0') {
        return Err(wrong());
    }
    for (number, part) in Path::new(path).components().enumerate() {
        match part {
            Component::RootDir if number == 0 => {}
            Component::Normal(part) if number > 0 => {
                clean.push('/');
                clean.push_str(part.to_str().ok_or_else(wrong)?);
            }
            _ => return Err(wrong()),
        }
    }
    if clean.is_empty() {
        Err(wrong())
    } else {
        Ok(clean)
    }
}

/// A file beside the recipe or below it.
pub(super) fn path_beside_recipe(source: &str) -> Result<(), String> {
    let is_normal = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !source.is_empty() && Path::new(source).components().all(is_normal) {
        Ok(())
    } else {
        Err(format!("`{source}` is not beside the recipe"))
    }
}

pub(super) fn command(command: &str) -> Result<String, String> {
    if command.trim().is_empty() || command.contains('\0') {
        Err("a command in `run` is empty".to_owned())
    } else {
        Ok(command.to_owned())
    }
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-".contains(letter)
}
