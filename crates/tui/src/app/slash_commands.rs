//! Runs slash commands.

use protocol::AgentCommand;

use super::double_press::quit_effects;
use super::{AppEffect, TuiApp, agent_command};
use crate::command::SlashCommand;
use crate::overlay::Overlay;
use crate::port::UiRequest;

impl TuiApp {
    /// Runs a slash command. If it cannot run now, the text in the editor stays.
    pub(super) fn command(&mut self, command: SlashCommand) -> Vec<AppEffect> {
        if self.is_busy() && needs_idle_agent(&command) {
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
            SlashCommand::Quit => return quit_effects(),
            SlashCommand::Clear => return vec![AppEffect::Ask(UiRequest::New)],
            SlashCommand::Load(session) => return vec![AppEffect::Ask(UiRequest::Load(session))],
            SlashCommand::Sessions => return self.open(Overlay::sessions()),
            SlashCommand::Fork => return vec![AppEffect::Ask(UiRequest::Fork)],
            SlashCommand::Undo => return vec![agent_command(AgentCommand::Undo)],
            SlashCommand::Redo => return vec![agent_command(AgentCommand::Redo)],
            SlashCommand::Diff => {
                self.sources.shows_changes = true;
                return vec![agent_command(AgentCommand::Diff)];
            }
            SlashCommand::Files => {
                self.sources.shows_files = true;
                return vec![agent_command(AgentCommand::ListFiles)];
            }
            SlashCommand::Cost => self.overlay = Some(Overlay::cost(&self.status)),
            SlashCommand::Model(Some(name)) => {
                return vec![agent_command(AgentCommand::UseModel { name })];
            }
            SlashCommand::Model(None) => return self.open(Overlay::models(&self.status.model)),
            SlashCommand::Allow(Some(host)) => {
                return vec![agent_command(AgentCommand::AllowHost { host })];
            }
            SlashCommand::Allow(None) => self.show_network(),
            SlashCommand::Compact => return vec![agent_command(AgentCommand::Compact)],
            SlashCommand::Export(file) => return vec![AppEffect::Ask(UiRequest::Export(file))],
            SlashCommand::Jobs => return self.open(Overlay::jobs()),
            SlashCommand::Attach(job) => return vec![AppEffect::Ask(UiRequest::Follow(job))],
            SlashCommand::Image(path) => return vec![self.read_image(String::new(), path)],
            SlashCommand::Copy => return self.copy_reply(),
            SlashCommand::Search(query) => self.search_for(query),
            SlashCommand::Continue => return vec![agent_command(AgentCommand::Continue)],
        }
        Vec::new()
    }

    fn open(&mut self, (overlay, effects): (Overlay, Vec<AppEffect>)) -> Vec<AppEffect> {
        self.overlay = Some(overlay);
        effects
    }

    fn copy_reply(&mut self) -> Vec<AppEffect> {
        let Some(text) = self.transcript.last_reply().map(str::to_owned) else {
            self.show_hint("there is no reply to copy yet");
            return Vec::new();
        };
        self.show_hint("copied");
        vec![AppEffect::Copy(text)]
    }

    fn show_network(&mut self) {
        let network = self
            .status
            .sandbox
            .as_ref()
            .map(|sandbox| sandbox.network.join(", "));
        let text = match network.as_deref() {
            None | Some("") => "no host can be reached; `/allow HOST` opens one".to_owned(),
            Some(hosts) => format!("can be reached: {hosts}; `/allow HOST` opens another"),
        };
        self.transcript
            .note(text, crate::transcript::NoteTone::Plain);
    }
}

/// Whether the command cannot run while a turn is running.
fn needs_idle_agent(command: &SlashCommand) -> bool {
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
