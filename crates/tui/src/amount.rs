//! Formats amounts for display: money, tokens, durations, counts. Pure; reads no clock.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// `950`, `12.3k`, `1.2M`.
pub(crate) fn tokens(count: u64) -> String {
    let scaled = |unit: f64| {
        let value = count as f64 / unit;
        if value < 99.95 {
            format!("{value:.1}")
        } else {
            format!("{value:.0}")
        }
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..999_500 => format!("{}k", scaled(1e3)),
        _ => format!("{}M", scaled(1e6)),
    }
}

/// US dollars with cents; amounts below one cent get four digits.
pub(crate) fn money(dollars: f64) -> String {
    match dollars {
        dollars if dollars > 0.0 && dollars < 0.00995 => format!("${dollars:.4}"),
        dollars => format!("${dollars:.2}"),
    }
}

/// `10,000`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 file`, `2 files`.
pub(crate) fn some(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A duration in whole seconds: `8 s`, `3 min 05 s`, `2 h 10 min`.
pub(crate) fn time(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// How long ago: `now`, `5 min`, `3 h`, `2 days`. The date itself after two weeks, or when `then`
/// is in the future (clock skew).
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    match now.as_second() - then.as_second() {
        -60..60 => "now".to_owned(),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds @ 86_400..172_800 => format!("{} day", seconds / 86_400),
        seconds @ 172_800..1_209_600 => format!("{} days", seconds / 86_400),
        _ => then.to_zoned(TimeZone::UTC).date().to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn tokens_are_short() {
        for (number, expect) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (12_345, "12.3k"),
            (99_949, "99.9k"),
            (99_960, "100k"),
            (999_499, "999k"),
            (999_500, "1.0M"),
            (1_234_567, "1.2M"),
        ] {
            assert_eq!(tokens(number), expect);
        }
    }

    #[test]
    fn money_below_a_cent_has_more_digits() {
        for (dollars, expect) in [
            (0.0, "$0.00"),
            (0.0034, "$0.0034"),
            (0.0099, "$0.0099"),
            (0.00999, "$0.01"),
            (0.125, "$0.12"),
            (12.0, "$12.00"),
        ] {
            assert_eq!(money(dollars), expect);
        }
    }

    #[test]
    fn counts_are_grouped() {
        for (number, expect) in [(7, "7"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), expect);
        }
        assert_eq!(some(1, "file", "files"), "1 file");
        assert_eq!(some(10_000, "line", "lines"), "10,000 lines");
    }

    #[test]
    fn durations_are_whole_seconds() {
        for (seconds, expect) in [
            (0, "0 s"),
            (59, "59 s"),
            (185, "3 min 05 s"),
            (7_830, "2 h 10 min"),
        ] {
            assert_eq!(time(Duration::from_secs(seconds)), expect);
        }
    }

    #[test]
    fn old_ages_are_days_and_then_dates() {
        let now: Timestamp = "2026-03-15T12:00:00Z".parse().unwrap();
        for (then, expect) in [
            ("2026-03-15T12:00:30Z", "now"),
            ("2026-03-15T11:59:30Z", "now"),
            ("2026-03-15T11:55:00Z", "5 min"),
            ("2026-03-15T09:00:00Z", "3 h"),
            ("2026-03-14T11:00:00Z", "1 day"),
            ("2026-03-10T11:00:00Z", "5 days"),
            ("2026-01-31T17:45:00Z", "2026-01-31"),
            ("2027-01-01T00:00:00Z", "2027-01-01"),
        ] {
            assert_eq!(age(now, then.parse().unwrap()), expect);
        }
    }
}
