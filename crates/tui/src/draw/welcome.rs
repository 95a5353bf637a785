//! The welcome screen, shown until the first message.

use ratatui::text::{Line, Span};

use crate::app::TuiApp;
use crate::status::WallsStatus;
use crate::text::{fit, wrap_words};

const VALUE_INDENT: &str = "          ";
const TIPS: [(&str, &str); 4] = [
    ("say", "what you want done, and press enter"),
    ("@ /", "@ names a file, / lists the commands"),
    ("tab", "goes to the page: open a call, copy, look for words"),
    ("esc", "interrupts; /undo takes a turn back, files too"),
];

pub(super) fn lines(app: &TuiApp, width: u16) -> Vec<Line<'static>> {
    let theme = &app.theme;
    let status = &app.status;
    let mut lines = vec![Line::from(vec![
        Span::styled("hotcell", theme.accent),
        Span::styled(concat!(" ", env!("CARGO_PKG_VERSION")), theme.dim),
    ])];
    lines.push(Line::default());
    let mut fact = |name: &str, value: Span<'static>| {
        let line = Line::from(vec![Span::styled(format!("  {name:<8}"), theme.dim), value]);
        lines.extend(wrap_words(&line, width, VALUE_INDENT));
    };
    let room = usize::from(width).saturating_sub(VALUE_INDENT.len());
    if !status.workspace.is_empty() {
        let folder = fit(&status.workspace, room.max(8));
        fact("folder", Span::styled(folder, theme.text));
    }
    if !status.model.is_empty() {
        fact("model", Span::styled(status.model.clone(), theme.text));
    }
    if let Some((job, server)) = &status.job {
        fact(
            "job",
            Span::styled(format!("{job} on {server}"), theme.text),
        );
    }
    fact(
        "walls",
        match &status.walls {
            None => Span::styled("starting the sandbox …", theme.dim),
            Some(walls) if walls.is_none() => Span::styled(
                "NO SANDBOX: commands run on this machine as you, with your files and network",
                theme.bad.patch(theme.strong),
            ),
            Some(walls) => Span::styled(walls_summary(walls), theme.text),
        },
    );
    if let Some(walls) = &status.walls
        && !walls.reason.is_empty()
        && !walls.is_none()
    {
        fact("chosen", Span::styled(walls.reason.clone(), theme.dim));
    }
    lines.push(Line::default());
    for (key, text) in TIPS {
        let line = Line::from(vec![
            Span::styled(format!("  {key:<8}"), theme.accent),
            Span::styled(text, theme.text),
        ]);
        lines.extend(wrap_words(&line, width, VALUE_INDENT));
    }
    lines
}

/// How commands are isolated from the machine, in one sentence.
fn walls_summary(walls: &WallsStatus) -> String {
    let mut parts = walls.names.clone();
    parts.push(match (walls.network.as_slice(), walls.asks) {
        ([], false) => "no network".to_owned(),
        ([], true) => "no network without a question".to_owned(),
        (hosts, false) => format!("network only to {}", hosts.join(", ")),
        (hosts, true) => format!(
            "network to {}, to others after a question",
            hosts.join(", ")
        ),
    });
    format!("{}: {}", walls.backend, parts.join("; "))
}
