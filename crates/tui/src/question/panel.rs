//! Lays out the first question: what, why, and what each answer covers. Pure.

use std::time::Duration;

use protocol::{Question, Scope, Subject};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{ANSWER_KEYS, OpenQuestions, QuestionFit};
use crate::text::{clean, wrap_line, wrap_words};
use crate::theme::Theme;

/// A question laid out for drawing.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuestionPanel {
    pub(crate) lines: Vec<Line<'static>>,
    pub(crate) fit: QuestionFit,
}

/// Parameters of the layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PanelContext<'a> {
    pub(crate) now: Duration,
    /// The editor is empty and nothing else takes letters.
    pub(crate) is_free: bool,
    pub(crate) width: u16,
    /// Maximum number of lines.
    pub(crate) height: u16,
    pub(crate) theme: &'a Theme,
}

impl OpenQuestions {
    /// Lays out the first question; empty if there is none, or not enough room.
    pub(crate) fn panel(&self, setting: PanelContext<'_>) -> QuestionPanel {
        let Some(question) = self.first() else {
            return QuestionPanel::default();
        };
        let theme = setting.theme;
        let question_lines = question_lines(question, setting.width, theme);
        let answers = self.answers(question, setting);
        let needed = question_lines.len() + answers.len();
        let title = vec![self.title(setting)];
        let hint = |fit| vec![self.hint(fit, setting)];
        let (lines, fit) = match usize::from(setting.height) {
            room if room >= needed + 2 => (
                [title, question_lines, answers, hint(QuestionFit::Whole)].concat(),
                QuestionFit::Whole,
            ),
            room if room > needed => (
                [title, question_lines, answers].concat(),
                QuestionFit::Whole,
            ),
            room if room == needed => ([question_lines, answers].concat(), QuestionFit::Whole),
            // The beginning and the end of the question, all answers, and why some are disabled.
            room if room >= answers.len() + 4 => {
                let left = room - answers.len() - 1;
                let question_lines = cut_middle(question_lines, left, theme);
                (
                    [question_lines, answers, hint(QuestionFit::Cut)].concat(),
                    QuestionFit::Cut,
                )
            }
            _ => return QuestionPanel::default(),
        };
        QuestionPanel { lines, fit }
    }

    fn title(&self, setting: PanelContext<'_>) -> Line<'static> {
        let all = self.answered + self.len();
        let name = match all {
            1 => " question ".to_owned(),
            _ => format!(" question {} of {all} ", self.answered + 1),
        };
        let rule = usize::from(setting.width).saturating_sub(name.len() + 2);
        Line::from(vec![
            Span::styled("──", setting.theme.warn),
            Span::styled(name, setting.theme.warn.patch(setting.theme.strong)),
            Span::styled("─".repeat(rule), setting.theme.warn),
        ])
    }

    /// When the keys take effect.
    fn hint(&self, fit: QuestionFit, setting: PanelContext<'_>) -> Line<'static> {
        let hint = match () {
            () if self.held.is_some() => "answering …",
            () if fit == QuestionFit::Cut => {
                "not all of it fits: make the window larger to allow it"
            }
            () if !self.is_armed(setting.now) => {
                "what you type goes to your message, until you pause"
            }
            () if setting.is_free => {
                "or write a message: a letter answers only on its own · esc interrupts"
            }
            () => "while you write or browse, answers need alt",
        };
        Line::from(Span::styled(format!("  {hint}"), setting.theme.dim))
    }

    /// All answers with their keys: those that allow, then those that refuse.
    fn answers(&self, question: &Question, setting: PanelContext<'_>) -> Vec<Line<'static>> {
        let theme = setting.theme;
        let is_armed = self.is_armed(setting.now);
        let held = self.held.map(|held| held.decision);
        let subject = subject(&question.subject);
        let mut choices = Vec::new();
        for (character, is_allowed, scope) in ANSWER_KEYS {
            let key = if setting.is_free {
                character.to_string()
            } else {
                format!("alt-{character}")
            };
            let is_open = is_armed && (!is_allowed || self.fit != QuestionFit::Cut);
            let is_held = held == Some(protocol::Decision { is_allowed, scope });
            let (keyed, worded) = match () {
                () if is_held => (theme.selected, theme.selected),
                () if is_open && held.is_none() => (theme.accent, theme.text),
                () => (theme.dim, theme.dim),
            };
            choices.push((key, keyed, answer_text(is_allowed, scope, &subject), worded));
        }
        let all = wrap_answers(&choices, setting.width, theme.dim);
        if all.len() <= 1 {
            return all;
        }
        let (allowing, refusing) = choices.split_at(3);
        let mut lines = wrap_answers(allowing, setting.width, theme.dim);
        lines.extend(wrap_answers(refusing, setting.width, theme.dim));
        lines
    }
}

/// What is asked, and why.
fn question_lines(question: &Question, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let what = one_line(&question.what);
    let what = Line::from(vec![
        Span::styled("● ", theme.warn),
        Span::styled(what, theme.strong),
    ]);
    lines.extend(wrap_words(&what, width, "  "));
    let why = one_line(&question.why);
    if !why.is_empty() {
        let why = Line::from(vec![Span::raw("  "), Span::styled(why, theme.dim)]);
        lines.extend(wrap_words(&why, width, "  "));
    }
    lines
}

/// Makes line ends visible, so that no part of a question can be hidden on another line.
fn one_line(text: &str) -> String {
    clean(text).trim().replace('\n', " ⏎ ").replace('\t', " ")
}

fn subject(subject: &Subject) -> String {
    match subject {
        Subject::Host { host } => one_line(host),
        Subject::Tool {
            tool,
            argument: None,
        } => format!("every {}", one_line(tool)),
        Subject::Tool {
            tool,
            argument: Some(argument),
        } => format!("{} {}", one_line(tool), one_line(argument)),
    }
}

/// The text of an answer, with what it covers.
fn answer_text(is_allowed: bool, scope: Scope, subject: &str) -> String {
    match (is_allowed, scope) {
        (true, Scope::Once) => "once".to_owned(),
        (true, Scope::Session) => format!("this session: {subject}"),
        (true, Scope::Always) => format!("always: {subject} (rule)"),
        (false, Scope::Always) => format!("never: {subject} (rule)"),
        (false, Scope::Once | Scope::Session) => "no".to_owned(),
    }
}

/// Places the answers side by side, and wraps to the next line where needed.
fn wrap_answers(
    choices: &[(String, Style, String, Style)],
    width: u16,
    separator: Style,
) -> Vec<Line<'static>> {
    let room = usize::from(width);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (key, keyed, words, worded) in choices {
        let spans = [
            Span::styled(key.clone(), *keyed),
            Span::styled(format!(" {words}"), *worded),
        ];
        let needed_width: usize = spans.iter().map(Span::width).sum();
        match lines.last_mut() {
            Some(line) if line.width() + 3 + needed_width <= room => {
                line.spans.push(Span::styled(" · ", separator));
                line.spans.extend(spans);
            }
            _ => {
                let mut line = Line::from("  ");
                line.spans.extend(spans);
                lines.push(line);
            }
        }
    }
    lines
        .iter()
        .flat_map(|line| wrap_line(line, width, "    "))
        .collect()
}

/// Cuts the middle of the question, and marks the gap.
fn cut_middle(
    question_lines: Vec<Line<'static>>,
    room: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let gone = question_lines.len() + 1 - room;
    let head = room.saturating_sub(1).div_ceil(2);
    let mark = Line::styled(format!("  … {gone} lines are left out …"), theme.warn);
    let mut lines: Vec<Line<'static>> = question_lines[..head].to_vec();
    lines.push(mark);
    lines.extend_from_slice(&question_lines[head + gone..]);
    lines
}
