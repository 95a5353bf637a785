//! What a person is writing: a multi-line editor, pasted blocks that are shown in one line, the
//! history of what was said, and completion.

use crossterm::event::KeyEvent;
use protocol::Block;
use ratatui_textarea::TextArea;

#[derive(Debug, Default)]
pub(crate) struct Editor {
    area: TextArea<'static>,
}

impl Editor {
    /// A key that nobody else wanted. True when it did anything.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        self.area.input(key)
    }

    pub(crate) fn paste(&mut self, text: &str) {
        self.area.insert_str(text);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// What is written, with pasted blocks in full.
    pub(crate) fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Takes the message, which goes into the history.
    pub(crate) fn take(&mut self) -> Vec<Block> {
        let text = self.text();
        self.area = TextArea::default();
        vec![Block::text(text)]
    }

    /// Lines that it wants on the screen.
    pub(crate) fn height(&self, _width: u16) -> u16 {
        u16::try_from(self.area.lines().len()).unwrap_or(u16::MAX)
    }

    pub(crate) fn area(&self) -> &TextArea<'static> {
        &self.area
    }
}
