//! Detects whether the terminal is light or dark. Pure.

use crate::theme::ColourScheme;

/// Queries the background colour, then the device attributes. Every terminal answers the second
/// query, so its answer ends the wait for the first.
pub(super) const BACKGROUND_QUERY: &str = "\x1b]11;?\x1b\\\x1b[c";

/// The look for a background colour: red, green and blue, each from 0 to 1.
pub(super) fn scheme_for_background([red, green, blue]: [f32; 3]) -> ColourScheme {
    let brightness = 0.299 * red + 0.587 * green + 0.114 * blue;
    if brightness > 0.5 {
        ColourScheme::Light
    } else {
        ColourScheme::Dark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_and_dark() {
        assert_eq!(scheme_for_background([1.0, 1.0, 1.0]), ColourScheme::Light);
        assert_eq!(
            scheme_for_background([0.99, 0.96, 0.89]),
            ColourScheme::Light
        );
        assert_eq!(scheme_for_background([0.0, 0.17, 0.21]), ColourScheme::Dark);
        assert_eq!(scheme_for_background([0.0, 0.0, 1.0]), ColourScheme::Dark);
    }
}
