//! Runs slash commands.

use protocol::Command;

use super::leaving::quit;
use super::{App, Effect, ask};
use crate::command::SlashCommand;
use crate::overlay::Overlay;
use crate::port::Request;

impl App {
    /// Runs a slash command. If it cannot run now, the text in the editor stays.
    pub(super) fn command(&mut self, command: SlashCommand) -> Vec<Effect> {
        if self.is_busy() && needs_rest(&command) {
            return self.refuse("interrupt the turn first");
        }
        if self.is_lost && needs_agent(&command) {
            return self.refuse("the agent has ended; `/clear` or `/load` opens another session");
        }
        self.completion = None;
        let draft = self.editor.take();
        self.editor.history.add(draft);
        match command {
            SlashCommand::Help => self.overlay = Some(Overlay::help()),
            SlashCommand::Quit => return quit(),
            SlashCommand::Clear => return vec![Effect::Ask(Request::New)],
            SlashCommand::Load(session) => return vec![Effect::Ask(Request::Load(session))],
            SlashCommand::Sessions => return self.open(Overlay::sessions()),
            SlashCommand::Fork => return vec![Effect::Ask(Request::Fork)],
            SlashCommand::Undo => return vec![ask(Command::Undo)],
            SlashCommand::Redo => return vec![ask(Command::Redo)],
            SlashCommand::Diff => {
                self.known.shows_changes = true;
                return vec![ask(Command::Diff)];
            }
            SlashCommand::Files => {
                self.known.shows_files = true;
                return vec![ask(Command::ListFiles)];
            }
            SlashCommand::Cost => self.overlay = Some(Overlay::cost(&self.status)),
            SlashCommand::Model(Some(name)) => return vec![ask(Command::UseModel { name })],
            SlashCommand::Model(None) => return self.open(Overlay::models(&self.status.model)),
            SlashCommand::Allow(Some(host)) => return vec![ask(Command::AllowHost { host })],
            SlashCommand::Allow(None) => self.tell_network(),
            SlashCommand::Compact => return vec![ask(Command::Compact)],
            SlashCommand::Export(file) => return vec![Effect::Ask(Request::Export(file))],
            SlashCommand::Jobs => return self.open(Overlay::jobs()),
            SlashCommand::Attach(job) => return vec![Effect::Ask(Request::Follow(job))],
            SlashCommand::Image(path) => return vec![self.read_picture(String::new(), path)],
            SlashCommand::Copy => return self.copy_reply(),
            SlashCommand::Search(words) => self.search_for(words),
            SlashCommand::Continue => return vec![ask(Command::Continue)],
        }
        Vec::new()
    }

    fn open(&mut self, (overlay, effects): (Overlay, Vec<Effect>)) -> Vec<Effect> {
        self.overlay = Some(overlay);
        effects
    }

    fn copy_reply(&mut self) -> Vec<Effect> {
        let Some(text) = self.transcript.last_reply().map(str::to_owned) else {
            self.say_hint("there is no reply to copy yet");
            return Vec::new();
        };
        self.say_hint("copied");
        vec![Effect::Copy(text)]
    }

    fn tell_network(&mut self) {
        let network = self
            .status
            .walls
            .as_ref()
            .map(|walls| walls.network.join(", "));
        let text = match network.as_deref() {
            None | Some("") => "no host can be reached; `/allow HOST` opens one".to_owned(),
            Some(hosts) => format!("can be reached: {hosts}; `/allow HOST` opens another"),
        };
        self.transcript.note(text, crate::transcript::Tone::Plain);
    }
}

/// Whether the command cannot run while a turn is running.
fn needs_rest(command: &SlashCommand) -> bool {
    match command {
        SlashCommand::Clear
        | SlashCommand::Load(_)
        | SlashCommand::Fork
        | SlashCommand::Undo
        | SlashCommand::Redo
        | SlashCommand::Compact
        | SlashCommand::Attach(_)
        | SlashCommand::Continue => true,
        SlashCommand::Help
        | SlashCommand::Quit
        | SlashCommand::Sessions
        | SlashCommand::Diff
        | SlashCommand::Files
        | SlashCommand::Cost
        | SlashCommand::Model(_)
        | SlashCommand::Allow(_)
        | SlashCommand::Export(_)
        | SlashCommand::Jobs
        | SlashCommand::Image(_)
        | SlashCommand::Copy
        | SlashCommand::Search(_) => false,
    }
}

/// Whether the command is sent to the agent.
fn needs_agent(command: &SlashCommand) -> bool {
    matches!(
        command,
        SlashCommand::Undo
            | SlashCommand::Redo
            | SlashCommand::Diff
            | SlashCommand::Files
            | SlashCommand::Model(Some(_))
            | SlashCommand::Allow(Some(_))
            | SlashCommand::Compact
            | SlashCommand::Continue
    )
}
