//! The status on one or two lines: as much as fits, the most important first. Pure.

use protocol::{SandboxInfo, Strength};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::UiStatus;
use crate::amount;
use crate::text::fit;
use crate::theme::Theme;

const SEPARATOR: &str = " · ";
/// Parts up to this rank get a second line rather than being left out.
const MAX_REQUIRED_RANK: u8 = 8;
/// Percentage of a window or a budget from which it is a warning.
const WARNING_PERCENT: u64 = 80;

/// One part of the status, in a long and a short form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatusPart {
    pub(crate) long: String,
    pub(crate) short: String,
    pub(crate) style: Style,
    /// Smaller is more important.
    pub(crate) rank: u8,
}

impl StatusPart {
    pub(crate) fn new(rank: u8, style: Style, long: impl Into<String>) -> Self {
        let long = long.into();
        Self {
            short: long.clone(),
            long,
            style,
            rank,
        }
    }

    pub(crate) fn or(mut self, short: impl Into<String>) -> Self {
        self.short = short.into();
        self
    }
}

/// The status lines. `more` has the parts from the rest of the UI.
pub(crate) fn status_bar(
    status: &UiStatus,
    more: Vec<StatusPart>,
    width: u16,
    most_lines: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut parts = parts(status, theme);
    let room = usize::from(width);
    let needed = |parts: &[StatusPart]| {
        parts
            .iter()
            .filter(|part| part.rank <= MAX_REQUIRED_RANK)
            .count()
    };
    // The number of lines depends only on the permanent parts.
    let lines = (1..usize::from(most_lines))
        .find(|lines| needed(&choose_parts(&parts, room, *lines)) == needed(&parts))
        .unwrap_or(usize::from(most_lines).max(1));
    parts.extend(more);
    let selected = choose_parts(&parts, room, lines);
    let mut rows = part_lines(&selected, room, theme.dim);
    rows.resize(lines, Line::default());
    rows
}

fn parts(status: &UiStatus, theme: &Theme) -> Vec<StatusPart> {
    let mut parts = Vec::new();
    if let Some((job, server)) = &status.job {
        let short: String = job.chars().take(8).collect();
        let long = format!("job {job} on {server}");
        parts.push(StatusPart::new(1, theme.accent, long).or(format!("job {short}")));
    }
    match &status.sandbox {
        None if status.is_over => {
            parts.push(StatusPart::new(2, theme.warn, "no agent, no sandbox"))
        }
        None => parts.push(StatusPart::new(2, theme.dim, "starting the sandbox …")),
        Some(sandbox) => parts.extend([
            walls_part(sandbox, theme),
            network_part(sandbox, status.asks, theme),
        ]),
    }
    if !status.model.is_empty() {
        let part = StatusPart::new(4, theme.text, status.model.clone());
        parts.push(part.or(fit(&status.model, 24)));
    }
    parts.extend(context_part(status, theme));
    parts.extend(cost(status, theme));
    let total = status.total();
    if total.usage.total() > 0 {
        let input = amount::tokens(total.usage.input());
        let output = amount::tokens(total.usage.output_tokens);
        let long = format!("{input} in, {output} out");
        parts.push(StatusPart::new(8, theme.dim, long).or(format!("↑{input} ↓{output}")));
    }
    if status.background > 0 {
        let long = format!("{} in background", status.background);
        parts.push(
            StatusPart::new(7, theme.accent, long).or(format!("{} running", status.background)),
        );
    }
    if let Some(elapsed) = status.elapsed() {
        let long = format!("turn {}", amount::time(elapsed));
        parts.push(StatusPart::new(9, theme.dim, long));
    }
    if !status.workspace.is_empty() {
        parts.push(StatusPart::new(10, theme.dim, status.workspace.clone()));
    }
    if let Some(session) = &status.session {
        parts.push(StatusPart::new(11, theme.dim, format!("session {session}")));
    }
    parts
}

fn walls_part(sandbox: &SandboxInfo, theme: &Theme) -> StatusPart {
    if sandbox.has_walls() {
        // Walls that share the host's kernel are the normal case; only stronger ones are named.
        let more = match sandbox.strength {
            Some(strength) if strength > Strength::Namespaces => format!(" ({})", strength.name()),
            _ => String::new(),
        };
        let long = format!("{} walls{more}", sandbox.backend);
        StatusPart::new(2, theme.good, long).or(sandbox.backend.name())
    } else {
        StatusPart::new(0, theme.bad.patch(theme.strong), "NO SANDBOX")
    }
}

fn network_part(sandbox: &SandboxInfo, asks: bool, theme: &Theme) -> StatusPart {
    let hosts = &sandbox.network;
    let (long, short) = match hosts.as_slice() {
        // Without a sandbox the network is open too.
        _ if !sandbox.has_walls() => ("open network".to_owned(), "open network".to_owned()),
        [] if asks => ("network: asks".to_owned(), "net: asks".to_owned()),
        [] => ("no network".to_owned(), "no network".to_owned()),
        [first, rest @ ..] => {
            let asks = if asks { ", asks" } else { "" };
            let more = match rest.len() {
                0 => String::new(),
                more => format!(" +{more}"),
            };
            let long = format!("{}{asks}", hosts.join(", "));
            (long, format!("{}{more}{asks}", fit(first, 24)))
        }
    };
    let is_closed = sandbox.has_walls() && hosts.is_empty();
    StatusPart::new(3, if is_closed { theme.dim } else { theme.warn }, long).or(short)
}

fn context_part(status: &UiStatus, theme: &Theme) -> Option<StatusPart> {
    let used = status.context_used().filter(|_| status.context > 0)?;
    Some(if used >= WARNING_PERCENT {
        StatusPart::new(1, theme.warn, format!("{used} % of context: /compact"))
            .or(format!("{used} %: /compact"))
    } else {
        StatusPart::new(5, theme.dim, format!("{used} % of context")).or(format!("ctx {used} %"))
    })
}

fn cost(status: &UiStatus, theme: &Theme) -> Option<StatusPart> {
    let total = status.total();
    let limit = status.spending.max_cost;
    let cost = match total.cost {
        Some(cost) if total.requests > 0 || limit.is_some() => cost,
        None if total.requests > 0 => return Some(StatusPart::new(6, theme.dim, "cost unknown")),
        _ => return None,
    };
    Some(match limit {
        Some(limit) => {
            let is_near = cost * 100.0 >= limit * WARNING_PERCENT as f64;
            let style = if is_near { theme.warn } else { theme.dim };
            let (cost, limit) = (amount::money(cost), amount::money(limit));
            StatusPart::new(
                if is_near { 1 } else { 6 },
                style,
                format!("{cost} of {limit}"),
            )
            .or(format!("{cost}/{limit}"))
        }
        None => StatusPart::new(6, theme.dim, amount::money(cost)),
    })
}

/// Chooses parts that fit into `lines` lines. First drops optional parts, then shortens parts, then
/// drops further ones, always the least important first.
fn choose_parts(parts: &[StatusPart], room: usize, lines: usize) -> Vec<StatusPart> {
    let mut selected = parts.to_vec();
    let mut ranks: Vec<u8> = selected.iter().map(|part| part.rank).collect();
    ranks.sort_unstable_by_key(|rank| std::cmp::Reverse(*rank));
    ranks.dedup();
    let is_fitting = |selected: &[StatusPart]| {
        let widest = selected.iter().map(|part| part.long.width()).max();
        widest.unwrap_or(0) <= room && rows(selected, room).len() <= lines
    };
    for rank in ranks.iter().filter(|rank| **rank > MAX_REQUIRED_RANK) {
        if is_fitting(&selected) {
            return selected;
        }
        selected.retain(|part| part.rank != *rank);
    }
    for rank in &ranks {
        if is_fitting(&selected) {
            return selected;
        }
        for part in selected.iter_mut().filter(|part| part.rank == *rank) {
            part.long.clone_from(&part.short);
        }
    }
    for rank in &ranks {
        if is_fitting(&selected) {
            return selected;
        }
        if selected.len() > 1 {
            selected.retain(|part| part.rank != *rank);
        }
    }
    for part in &mut selected {
        part.long = fit(&part.long, room);
    }
    selected
}

/// Assigns the parts to lines.
fn rows(parts: &[StatusPart], room: usize) -> Vec<std::ops::Range<usize>> {
    let mut rows: Vec<std::ops::Range<usize>> = Vec::new();
    let mut used = 0;
    for (index, part) in parts.iter().enumerate() {
        let width = part.long.width();
        match rows.last_mut() {
            Some(row) if used + SEPARATOR.width() + width <= room => {
                row.end = index + 1;
                used += SEPARATOR.width() + width;
            }
            _ => {
                rows.push(index..index + 1);
                used = width;
            }
        }
    }
    rows
}

fn part_lines(parts: &[StatusPart], room: usize, between: Style) -> Vec<Line<'static>> {
    let line = |row: std::ops::Range<usize>| {
        let mut spans = Vec::new();
        for part in &parts[row] {
            if !spans.is_empty() {
                spans.push(Span::styled(SEPARATOR, between));
            }
            spans.push(Span::styled(part.long.clone(), part.style));
        }
        Line::from(spans)
    };
    rows(parts, room).into_iter().map(line).collect()
}
