//! Tokens, money and budgets as a table.

use std::time::Duration;

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::content::ViewerLines;
use crate::amount::{count, money, time, tokens};
use crate::status::{UiStatus, UsageTotal};
use crate::text::fit;
use crate::theme::Theme;

const HEADINGS: [&str; 6] = ["model", "requests", "input", "cached", "output", "cost"];
/// Columns with numbers, from all of them to those for the narrowest screen.
const SHOWN_COLUMNS: [&[usize]; 4] = [&[1, 2, 3, 4, 5], &[1, 2, 4, 5], &[2, 4, 5], &[5]];
/// Minimum width of the model name.
const MIN_NAME_WIDTH: usize = 12;
/// Width of the bar that shows the used part of a budget.
const BUDGET_BAR_WIDTH: usize = 24;

pub(super) fn lay_out(status: &UiStatus, width: u16, theme: &Theme) -> ViewerLines {
    let mut lines = table(status, usize::from(width), theme);
    let spending = &status.spending;
    let seconds = |seconds: f64| time(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    let mut budgets = Vec::new();
    if let Some(window) = status.window {
        let label = format!("{} of {} tokens", tokens(status.context), tokens(window));
        budgets.push((
            "context",
            label,
            ratio(status.context as f64, window as f64),
        ));
    }
    if let Some((limit, cost)) = spending.max_cost.zip(status.total().cost) {
        let label = format!("{} of {}", money(cost), money(limit));
        budgets.push(("money", label, ratio(cost, limit)));
    }
    if let Some(limit) = spending.max_tokens {
        let used = spending.usage.total();
        let label = format!("{} of {} tokens", tokens(used), tokens(limit));
        budgets.push(("tokens", label, ratio(used as f64, limit as f64)));
    }
    if let Some(limit) = spending.max_requests {
        let label = format!("{} of {limit}", spending.requests);
        budgets.push((
            "requests",
            label,
            ratio(spending.requests.into(), limit.into()),
        ));
    }
    match spending.max_seconds {
        Some(limit) => {
            let label = format!("{} of {}", seconds(spending.seconds), seconds(limit));
            budgets.push(("time", label, ratio(spending.seconds, limit)));
        }
        None if spending.seconds > 0.0 => {
            budgets.push(("time", seconds(spending.seconds), None));
        }
        None => {}
    }
    if !budgets.is_empty() {
        lines.push(Line::default());
    }
    let longest = budgets.iter().map(|(_, label, _)| label.width()).max();
    for (name, label, part) in budgets {
        let gap = longest.unwrap_or(0).saturating_sub(label.width()) + 2;
        let mut line = vec![
            Span::styled(format!("{name:<10}"), theme.dim),
            Span::styled(label, theme.text),
            Span::raw(" ".repeat(gap)),
        ];
        if let Some(part) = part {
            let style = if part >= 0.8 { theme.warn } else { theme.dim };
            let full = ((part * BUDGET_BAR_WIDTH as f64).round() as usize).min(BUDGET_BAR_WIDTH);
            line.push(Span::styled("━".repeat(full), style));
            line.push(Span::styled("─".repeat(BUDGET_BAR_WIDTH - full), theme.dim));
            line.push(Span::styled(format!(" {:.0} %", part * 100.0), style));
        }
        lines.push(Line::from(line));
    }
    ViewerLines {
        lines,
        parts: Vec::new(),
    }
}

fn table(status: &UiStatus, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    let totals: Vec<_> = status.ledger.totals().collect();
    rows.extend(totals.iter().map(|(model, total)| row(model, total)));
    // A resumed session may have spent more than the replies seen here add up to.
    if totals.len() != 1 || status.total() != status.ledger.all() {
        rows.push(row("all", &status.total()));
    }
    let column = |index: usize| rows.iter().map(|row| row[index].width()).max().unwrap_or(0);
    let figures =
        |indices: &[usize]| -> usize { indices.iter().map(|index| column(*index) + 2).sum() };
    let indices = SHOWN_COLUMNS
        .iter()
        .find(|indices| figures(indices) + MIN_NAME_WIDTH <= width)
        .unwrap_or(&SHOWN_COLUMNS[SHOWN_COLUMNS.len() - 1]);
    let name = column(0).min(width.saturating_sub(figures(indices)).max(MIN_NAME_WIDTH));
    let line = |(at, row): (usize, &[String; 6])| {
        let shown = fit(&row[0], name);
        let gap = " ".repeat(name.saturating_sub(shown.width()));
        let mut text = format!("{shown}{gap}");
        for index in *indices {
            text.push_str(&format!(
                "{:>width$}",
                row[*index],
                width = column(*index) + 2
            ));
        }
        let style = match at {
            0 => theme.dim,
            _ if row[0] == "all" => theme.strong,
            _ => theme.text,
        };
        Line::styled(text, style)
    };
    rows.iter().enumerate().map(line).collect()
}

fn row(model: &str, total: &UsageTotal) -> [String; 6] {
    let usage = &total.usage;
    [
        model.to_owned(),
        count(total.requests.into()),
        tokens(usage.input()),
        tokens(usage.cache_read_input_tokens),
        tokens(usage.output_tokens),
        total.cost.map_or_else(|| "unknown".to_owned(), money),
    ]
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}
