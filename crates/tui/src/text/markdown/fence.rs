//! Fenced code, parsed line by line, so that growing code is not parsed again.

use std::borrow::Cow;

/// The parsed opening line of a fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeFence {
    mark: char,
    length: usize,
    /// Indent of the fence in columns, removed from every line.
    indent: usize,
    /// The info string.
    pub(super) language: String,
    /// Where the code begins, after the opening line.
    pub(super) begins: usize,
}

impl CodeFence {
    /// Parses the fence at the start of a text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let line = text.lines().next()?;
        let begins = (line.len() + 1).min(text.len());
        let indent = line.len() - line.trim_start_matches(' ').len();
        let line = &line[indent..];
        let mark = line
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line.len() - line.trim_start_matches(mark).len();
        let language = line[length..].trim();
        let is_fence = indent < 4 && length > 2 && !(mark == '`' && language.contains('`'));
        is_fence.then(|| Self {
            mark,
            length,
            indent,
            language: language.to_owned(),
            begins,
        })
    }

    /// Whether a line closes the fence.
    pub(super) fn is_end(&self, line: &str) -> bool {
        let inner = line.trim_start_matches(' ');
        let after = inner.trim_start_matches(self.mark);
        line.len() - inner.len() < 4
            && inner.len() - after.len() >= self.length
            && after.trim_matches([' ', '\n']).is_empty()
    }

    /// Whether an unfinished line may become the closing one.
    pub(super) fn may_be_closed_by(&self, line: &str) -> bool {
        !line.is_empty() && line.trim_matches([' ', self.mark]).is_empty()
    }

    /// Lines without the indent of the fence.
    pub(super) fn code<'a>(&self, lines: &'a str) -> Cow<'a, str> {
        if self.indent == 0 {
            return Cow::Borrowed(lines);
        }
        let mut code = String::with_capacity(lines.len());
        for line in lines.split_inclusive('\n') {
            let spaces = line.len() - line.trim_start_matches(' ').len();
            code.push_str(&line[spaces.min(self.indent)..]);
        }
        Cow::Owned(code)
    }

    /// Where the code ends in a text that begins with this fence: at the closing line, or at the
    /// end of the text.
    pub(super) fn ends(&self, text: &str) -> usize {
        let mut at = self.begins;
        for line in text[self.begins..].split_inclusive('\n') {
            if self.is_end(line) {
                break;
            }
            at += line.len();
        }
        at
    }
}
