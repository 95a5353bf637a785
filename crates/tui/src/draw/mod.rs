//! Paints the state. Changes nothing, decides nothing: the same state is the same picture.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders};

use crate::app::App;

pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let editor = app.editor.height(frame.area().width) + 2;
    let [page, writing, status] = Layout::vertical([
        Constraint::Fill(1),
        Constraint::Length(editor),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Text::from(app.transcript.visible().to_vec()), page);
    let block = Block::new()
        .borders(Borders::TOP | Borders::BOTTOM)
        .border_style(app.theme.border);
    frame.render_widget(app.editor.area(), block.inner(writing));
    frame.render_widget(block, writing);
    frame.render_widget(
        Line::styled(app.status.model.clone(), app.theme.dim),
        status,
    );
}
