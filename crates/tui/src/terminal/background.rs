//! Detects whether the terminal is light or dark. Pure.

use crate::theme::Look;

/// Queries the background colour, then the device attributes. Every terminal answers the second
/// query, so its answer ends the wait for the first.
pub(super) const QUESTION: &str = "\x1b]11;?\x1b\\\x1b[c";

/// The look for a background colour: red, green and blue, each from 0 to 1.
pub(super) fn look([red, green, blue]: [f32; 3]) -> Look {
    let brightness = 0.299 * red + 0.587 * green + 0.114 * blue;
    if brightness > 0.5 {
        Look::Light
    } else {
        Look::Dark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_and_dark() {
        assert_eq!(look([1.0, 1.0, 1.0]), Look::Light);
        assert_eq!(look([0.99, 0.96, 0.89]), Look::Light);
        assert_eq!(look([0.0, 0.17, 0.21]), Look::Dark);
        assert_eq!(look([0.0, 0.0, 1.0]), Look::Dark);
    }
}
