//! A UI driven by a test, and its screen as text.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use protocol::EventKind;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use crate::app::{AppEffect, AppInput, TuiApp};
use crate::draw::draw;
use crate::port::{OpenedSession, SessionOrigin, UiNotice};
use crate::samples;
use crate::theme::ColourScheme;

#[derive(Debug)]
pub(super) struct TestScreen {
    pub(super) app: TuiApp,
    now: Duration,
    summarizer: samples::Summarizer,
    pub(super) effects: Vec<AppEffect>,
}

impl TestScreen {
    /// A new session, before its sandbox has started.
    pub(super) fn new(scheme: ColourScheme, width: u16, height: u16) -> Self {
        let mut app = TuiApp::new(scheme, width, height);
        app.start_time = Some(samples::start_time());
        let mut screen = Self {
            app,
            now: Duration::ZERO,
            effects: Vec::new(),
            summarizer: samples::Summarizer::default(),
        };
        screen.notice(UiNotice::Opened(Box::new(OpenedSession {
            origin: SessionOrigin::Here { session: None },
            history: Vec::new(),
            model: samples::MODEL.into(),
            workspace: "/home/ada/parser".into(),
        })));
        screen
    }

    pub(super) fn input(&mut self, input: AppInput) {
        self.effects.extend(self.app.update(self.now, input));
    }

    pub(super) fn notice(&mut self, notice: UiNotice) {
        self.input(AppInput::Notice(notice));
    }

    pub(super) fn receive(&mut self, kinds: impl IntoIterator<Item = EventKind>) {
        for kind in kinds {
            let kind = self.summarizer.add_summary(kind);
            let millis = i64::try_from(self.now.as_millis()).unwrap();
            self.notice(UiNotice::Event(samples::event_at(millis, kind)));
        }
    }

    pub(super) fn type_in(&mut self, text: &str) {
        for character in text.chars() {
            self.press(KeyCode::Char(character), KeyModifiers::NONE);
        }
    }

    pub(super) fn press(&mut self, code: KeyCode, held: KeyModifiers) {
        self.input(AppInput::Key(KeyEvent::new(code, held)));
    }

    pub(super) fn enter(&mut self) {
        self.press(KeyCode::Enter, KeyModifiers::NONE);
    }

    /// Lets time pass, then draws.
    pub(super) fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.input(AppInput::Time);
        self.draw();
        self.input(AppInput::Shown);
    }

    pub(super) fn draw(&mut self) -> Terminal<TestBackend> {
        self.app.arrange();
        let backend = TestBackend::new(self.app.width, self.app.height);
        let mut terminal = Terminal::new(backend).unwrap();
        terminal.draw(|frame| draw(&self.app, frame)).unwrap();
        terminal
    }

    /// The screen as text, with the position of the cursor.
    pub(super) fn snapshot(&mut self) -> String {
        let terminal = self.draw();
        let mut snapshot = text(terminal.backend().buffer());
        let cursor = terminal.backend().cursor_position();
        if terminal.backend().cursor_visible() {
            snapshot.push_str(&format!("[cursor {},{}]", cursor.x, cursor.y))
        } else {
            snapshot.push_str("[no cursor]")
        }
        snapshot.replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }
}

fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer.cell((x, y)).unwrap().symbol();
            line.push_str(symbol);
            let width = unicode_width::UnicodeWidthStr::width(symbol);
            x += u16::try_from(width).unwrap().max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
