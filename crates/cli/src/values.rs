//! Parses sizes, times and variables from flags and settings. Pure.

use std::str::FromStr;
use std::time::Duration;

/// `512M`, `1G`, `4096`: powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1u64,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err("a size is a number with K, M, G or T, such as `512M`".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a size is a whole number with K, M, G or T, such as `512M`")?;
    match number.checked_mul(unit) {
        Some(size) if size >= 1 << 20 => Ok(size),
        Some(_) => Err("the smallest size is `1M`".into()),
        None => Err("this size is too large".into()),
    }
}

/// `500ms`, `30s`, `5m`, `1h`, `7d`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    const TIME_FORMAT: &str = "a time is a whole number with ms, s, m, h or d, such as `30s`";
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| TIME_FORMAT)?;
    let milliseconds = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(TIME_FORMAT.into()),
    };
    match number.checked_mul(milliseconds) {
        Some(0) => Err("a time must be greater than 0".into()),
        Some(time) => Ok(Duration::from_millis(time)),
        None => Err("this time is too long".into()),
    }
}

pub(crate) fn parse_cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if (0.01..=4096.0).contains(&cpus) => Ok(cpus),
        _ => Err("the CPU limit is a number from 0.01 on, such as `1` or `0.5`".into()),
    }
}

pub(crate) fn parse_pids(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(pids @ 1..=1_000_000) => Ok(pids),
        _ => Err("processes are a number from 1 to 1000000".into()),
    }
}

pub(crate) fn parse_open_files(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(files @ 16..=1_000_000) => Ok(files),
        _ => Err("open files are a number from 16 to 1000000".into()),
    }
}

/// A whole number from 1 on.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(count @ 1..=1_000_000_000_000) => Ok(count),
        _ => Err("it must be a whole number from 1 on".into()),
    }
}

/// A whole number; 0 is no limit.
pub(crate) fn parse_limit(text: &str) -> Result<u64, String> {
    let number = text.parse();
    number.map_err(|_| "it must be a whole number; 0 means all".into())
}

/// US dollars: `0.50`, `$2`.
pub(crate) fn parse_cost(text: &str) -> Result<f64, String> {
    match text.strip_prefix('$').unwrap_or(text).parse::<f64>() {
        Ok(cost) if cost > 0.0 && cost <= 1_000_000.0 => Ok(cost),
        _ => Err("a cost is a number of US dollars above 0, such as `0.50`".into()),
    }
}

/// `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvVariable {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl FromStr for EnvVariable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("a variable is written `NAME=VALUE`".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check =
            |text: &str, expect: Option<u64>| assert_eq!(parse_size(text).ok(), expect, "{text}");
        check("512M", Some(512 << 20));
        check("1g", Some(1 << 30));
        check("2GiB", Some(2 << 30));
        check("1048576", Some(1 << 20));
        for bad in [
            "",
            "M",
            "1.5G",
            "-1M",
            "1X",
            "12k",
            "99999999999T",
            "1 G",
            "１M",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn times() {
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(
                parse_duration(text).ok(),
                expect.map(Duration::from_millis),
                "{text}"
            );
        };
        check("30s", Some(30_000));
        check("250ms", Some(250));
        check("5m", Some(300_000));
        check("7", Some(7000));
        check("2d", Some(172_800_000));
        for bad in [
            "",
            "s",
            "0",
            "0s",
            "-1s",
            "1y",
            "1.5s",
            "99999999999999999999h",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn variables() {
        let parsed: EnvVariable = "A=b=c".parse().unwrap();
        assert_eq!((parsed.name.as_str(), parsed.value.as_str()), ("A", "b=c"));
        assert!("A".parse::<EnvVariable>().is_err());
        assert!("=x".parse::<EnvVariable>().is_err());
    }
}
