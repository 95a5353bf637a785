//! Durations and sizes as shown in the transcript only. Pure.

use std::time::Duration;

use crate::amount;

/// A duration: `0.3 s`, `12.3 s`, and without tenths from a minute on.
pub(super) fn duration_text(millis: u64) -> String {
    match millis {
        0..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => amount::time(Duration::from_millis(millis)),
    }
}

/// `950 bytes`, `1.2 kB`, `48 MB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1000 {
        return amount::some(bytes, "byte", "bytes");
    }
    let mut size = bytes as f64 / 1e3;
    let mut unit = "kB";
    for larger in ["MB", "GB", "TB"] {
        if size < 999.5 {
            break;
        }
        size /= 1e3;
        unit = larger;
    }
    if size < 9.95 {
        format!("{size:.1} {unit}")
    } else {
        format!("{size:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (millis, expect) in [
            (0, "0.0 s"),
            (340, "0.3 s"),
            (12_340, "12.3 s"),
            (185_000, "3 min 05 s"),
        ] {
            assert_eq!(duration_text(millis), expect);
        }
        for (bytes, expect) in [
            (1, "1 byte"),
            (950, "950 bytes"),
            (1234, "1.2 kB"),
            (48_000_000, "48 MB"),
            (999_700, "1.0 MB"),
        ] {
            assert_eq!(size(bytes), expect);
        }
    }
}
