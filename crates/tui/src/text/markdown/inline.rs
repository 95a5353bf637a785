//! Turns inline markup into spans: emphasis, code, links with their addresses.
//!
//! Entry type: [`InlineBuilder`].

use pulldown_cmark::{Event, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;

use super::super::clean;
use crate::theme::{ColourScheme, Theme};

/// The inline content of one paragraph, heading or cell.
#[derive(Debug)]
pub(super) struct InlineBuilder<'a> {
    theme: &'a Theme,
    lines: Vec<Vec<Span<'static>>>,
    /// The innermost style is the last.
    styles: Vec<Style>,
    links: Vec<OpenLink>,
}

/// A link whose end has not been reached.
#[derive(Debug)]
struct OpenLink {
    address: String,
    /// The text of the link.
    text: String,
}

impl<'a> InlineBuilder<'a> {
    pub(super) fn new(theme: &'a Theme) -> Self {
        Self {
            theme,
            lines: vec![Vec::new()],
            styles: Vec::new(),
            links: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.iter().all(Vec::is_empty)
    }

    /// Takes the lines so far.
    pub(super) fn take(&mut self) -> Vec<Vec<Span<'static>>> {
        std::mem::replace(&mut self.lines, vec![Vec::new()])
    }

    pub(super) fn push_style(&mut self, style: Style) {
        self.styles.push(self.style().patch(style));
    }

    pub(super) fn pop_style(&mut self) {
        self.styles.pop();
    }

    /// Handles inline events; ignores others.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        let theme = self.theme;
        match event {
            Event::Text(text) => self.text(text, Style::new()),
            Event::Code(code) if theme.scheme == ColourScheme::Plain => {
                self.text(&format!("`{code}`"), theme.code);
            }
            Event::Code(code) => self.text(code, theme.code),
            Event::InlineMath(math) => self.text(&format!("${math}$"), Style::new()),
            Event::DisplayMath(math) => self.math(math),
            Event::InlineHtml(tag) if is_br_tag(tag) => self.break_line(),
            Event::InlineHtml(tag) => self.text(tag, theme.dim),
            Event::SoftBreak | Event::HardBreak => self.break_line(),
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(*tag),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let theme = self.theme;
        match tag {
            Tag::Strong => self.push_style(theme.strong),
            Tag::Emphasis => self.push_style(theme.emphasis),
            Tag::Strikethrough => {
                self.push_style(Style::new().add_modifier(Modifier::CROSSED_OUT));
            }
            Tag::Link { dest_url, .. } => {
                self.push_style(theme.link);
                self.begin_link(dest_url);
            }
            Tag::Image { dest_url, .. } => {
                self.text("image: ", theme.dim);
                self.push_style(theme.emphasis);
                self.begin_link(dest_url);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Strong | TagEnd::Emphasis | TagEnd::Strikethrough => self.pop_style(),
            TagEnd::Link | TagEnd::Image => {
                self.pop_style();
                if let Some(link) = self.links.pop()
                    && link.needs_address()
                {
                    self.text(&format!(" ({})", link.address), self.theme.dim);
                }
            }
            _ => {}
        }
    }

    fn begin_link(&mut self, address: &str) {
        let address = clean(address).replace('\n', " ");
        self.links.push(OpenLink {
            address,
            text: String::new(),
        });
    }

    /// Cleans again: a character entity may have become a control character.
    fn text(&mut self, text: &str, style: Style) {
        let text = clean(text);
        for link in &mut self.links {
            link.text.push_str(&text);
        }
        let style = self.style().patch(style);
        let text = text.replace('\n', " ");
        if !text.is_empty() {
            self.line().push(Span::styled(text, style));
        }
    }

    fn math(&mut self, math: &str) {
        for (index, line) in format!("$${math}$$").split('\n').enumerate() {
            if index > 0 {
                self.break_line();
            }
            self.text(line, Style::new());
        }
    }

    fn break_line(&mut self) {
        self.lines.push(Vec::new());
    }

    fn line(&mut self) -> &mut Vec<Span<'static>> {
        if self.lines.is_empty() {
            self.lines.push(Vec::new());
        }
        self.lines.last_mut().expect("lines is not empty")
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.text)
    }
}

impl OpenLink {
    fn needs_address(&self) -> bool {
        let bare = |address: &str| {
            let scheme = ["https://", "http://", "mailto:"];
            let bare = scheme
                .iter()
                .find_map(|scheme| address.strip_prefix(scheme))
                .unwrap_or(address);
            bare.trim_end_matches('/').to_owned()
        };
        !self.address.is_empty() && bare(&self.address) != bare(&self.text)
    }
}

fn is_br_tag(tag: &str) -> bool {
    let name = tag.trim_matches(['<', '>', '/', ' ']);
    name.eq_ignore_ascii_case("br")
}
