//! Formats numbers for display. Pure.

use protocol::Spending;

/// `950`, `12.3k`, `4.56M`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=999_999 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.2}M", count as f64 / 1e6),
    }
}

pub(crate) fn dollars(cost: Option<f64>) -> String {
    match cost {
        None => "cost unknown".to_owned(),
        Some(cost) if cost < 0.1 => format!("${cost:.4}"),
        Some(cost) => format!("${cost:.2}"),
    }
}

/// What was spent, with its limits.
pub(crate) fn spending_line(spending: &Spending) -> String {
    let of = |text: String, most: Option<String>| match most {
        Some(most) => format!("{text} of {most}"),
        None => text,
    };
    let requests = match spending.requests {
        1 => "1 request".to_owned(),
        many => format!("{many} requests"),
    };
    [
        of(requests, spending.max_requests.map(|most| most.to_string())),
        of(
            format!("{} tokens", tokens(spending.usage.total())),
            spending.max_tokens.map(tokens),
        ),
        of(
            dollars(spending.cost),
            spending.max_cost.map(|most| dollars(Some(most))),
        ),
        of(
            format!("{:.1} s", spending.seconds),
            spending.max_seconds.map(|most| format!("{most:.0} s")),
        ),
    ]
    .join(" · ")
}

/// Whether there is any limit, so that spending is worth showing.
pub(super) fn has_limit(spending: &Spending) -> bool {
    spending.max_cost.is_some()
        || spending.max_tokens.is_some()
        || spending.max_requests.is_some()
        || spending.max_seconds.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (count, expect) in [
            (0, "0"),
            (999, "999"),
            (12_345, "12.3k"),
            (4_560_000, "4.56M"),
        ] {
            assert_eq!(tokens(count), expect);
        }
        assert_eq!(dollars(Some(0.0123)), "$0.0123");
        assert_eq!(dollars(Some(12.0)), "$12.00");
        assert_eq!(dollars(None), "cost unknown");
    }
}
