//! The welcome screen, shown until the first message.

use protocol::SandboxInfo;
use ratatui::text::{Line, Span};

use crate::app::TuiApp;
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
        match &status.sandbox {
            None => Span::styled("starting the sandbox …", theme.dim),
            Some(sandbox) if sandbox.has_walls() => {
                Span::styled(walls_summary(sandbox, status.asks), theme.text)
            }
            Some(_) => Span::styled(
                "NO SANDBOX: commands run on this machine as you, with your files and network",
                theme.bad.patch(theme.strong),
            ),
        },
    );
    if let Some(sandbox) = &status.sandbox
        && !sandbox.reason.is_empty()
        && sandbox.has_walls()
    {
        fact("chosen", Span::styled(sandbox.reason.clone(), theme.dim));
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
fn walls_summary(sandbox: &SandboxInfo, asks: bool) -> String {
    let mut parts = sandbox.walls.clone();
    parts.push(match (sandbox.network.as_slice(), asks) {
        ([], false) => "no network".to_owned(),
        ([], true) => "no network without a question".to_owned(),
        (hosts, false) => format!("network only to {}", hosts.join(", ")),
        (hosts, true) => format!(
            "network to {}, to others after a question",
            hosts.join(", ")
        ),
    });
    format!("{}: {}", sandbox.backend, parts.join("; "))
}
