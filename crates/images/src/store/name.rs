//! Validates image names: each must be a file name on any file system and a plain word in any shell.

use crate::error::ImageError;

const MAX_NAME_LEN: usize = 100;

/// Letters, digits, `.`, `_`, `-` and `:`, beginning with a letter or a digit.
pub fn check_name(name: &str) -> Result<(), ImageError> {
    let is_first = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "._-:".contains(letter);
    if is_first && name.len() <= MAX_NAME_LEN && name.chars().all(is_known) {
        Ok(())
    } else {
        Err(ImageError::Name(name.chars().take(MAX_NAME_LEN).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["base", "a", "debian:bookworm", "my_tools-1.2", "9"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let long = "a".repeat(101);
        for bad in [
            "", ".", "..", "-x", "a/b", "/", "a b", "ä", "a\0", "a\n", &long,
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
