//! Events become entries. Pure.

use protocol::{Block, Event, EventKind};

use super::entry::{Call, CallState, Entry};
use crate::text::Markdown;

pub(super) fn apply(entries: &mut Vec<Entry>, event: &Event) {
    match &event.kind {
        EventKind::TurnStarted { prompt, .. } => entries.push(prompt_entry(prompt)),
        EventKind::TextDelta { text } => match entries.last_mut() {
            Some(Entry::Words { markdown }) => markdown.push(text),
            _ => entries.push(Entry::Words {
                markdown: Markdown::new(text),
            }),
        },
        EventKind::ToolStarted {
            call,
            name,
            input,
            summary,
        } => entries.push(Entry::Call(Box::new(Call {
            id: call.clone(),
            name: name.clone(),
            summary: summary.clone(),
            input: input.clone(),
            state: CallState::Running,
            output: String::new(),
            changes: Vec::new(),
            kept: None,
            background: None,
        }))),
        _ => {}
    }
}

fn prompt_entry(prompt: &[Block]) -> Entry {
    let texts: Vec<&str> = prompt.iter().filter_map(Block::as_text).collect();
    Entry::Prompt {
        text: texts.join("\n"),
        images: prompt.len() - texts.len(),
    }
}
