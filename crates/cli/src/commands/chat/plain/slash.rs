//! Slash commands in lines: each reports what it did in a line, or prints what it found to standard
//! output.

use std::path::Path;

use protocol::{AgentCommand, Block};
use tui::{SlashCommand, SlashError};

use super::awaited::AwaitedEvent;
use super::dialogue::{Dialogue, DialogueEnd};
use super::lists;
use crate::cli_error::{CliError, warn};
use crate::commands::chat::chat_peer::{ChatPeer, PeerItem};
use crate::commands::chat::chat_state::ChatState;
use crate::commands::chat::remote::ServerClient;
use crate::commands::chat::session_opener::ReadySession;
use crate::commands::chat::{lookups, picture};

impl Dialogue<'_> {
    /// Handles input: a prompt for the agent, or a slash command.
    pub(super) fn take(&mut self, words: &str) -> Result<(), DialogueEnd> {
        if words.trim().is_empty() {
            return Ok(());
        }
        let command = match SlashCommand::parse(words) {
            None => return self.prompt(words),
            Some(Ok(command)) => command,
            Some(Err(error)) => {
                self.complain(syntax_error(&error));
                return Ok(());
            }
        };
        match command {
            SlashCommand::Quit => Err(DialogueEnd::Left),
            SlashCommand::Continue => self.run_command(AgentCommand::Continue, AwaitedEvent::Turn),
            SlashCommand::Undo => self.run_command(AgentCommand::Undo, AwaitedEvent::Undone),
            SlashCommand::Redo => self.run_command(AgentCommand::Redo, AwaitedEvent::Redone),
            SlashCommand::Compact => {
                self.run_command(AgentCommand::Compact, AwaitedEvent::Compacted)
            }
            SlashCommand::Diff => self.run_command(AgentCommand::Diff, AwaitedEvent::Differences),
            SlashCommand::Files => self.run_command(AgentCommand::ListFiles, AwaitedEvent::Files),
            SlashCommand::Model(Some(name)) => {
                self.run_command(AgentCommand::UseModel { name }, AwaitedEvent::Model)
            }
            SlashCommand::Allow(Some(host)) => {
                self.run_command(AgentCommand::AllowHost { host }, AwaitedEvent::Network)
            }
            SlashCommand::Attach(name) => match self.attach(&name) {
                Ok(()) => self.show_until(AwaitedEvent::Rest),
                Err(complaint) => self.show_error_and_continue(complaint),
            },
            other => match self.run_local_command(other) {
                Ok(text) => Ok(lists::print(&text)?),
                Err(complaint) => self.show_error_and_continue(complaint),
            },
        }
    }

    fn show_error_and_continue(&mut self, complaint: CliError) -> Result<(), DialogueEnd> {
        self.complain(complaint);
        Ok(())
    }

    fn prompt(&mut self, words: &str) -> Result<(), DialogueEnd> {
        let mut content = vec![Block::text(words)];
        content.append(&mut self.pictures);
        self.run_command(AgentCommand::Prompt { content }, AwaitedEvent::Turn)
    }

    /// Commands that do not involve the agent. Returns text for standard output.
    fn run_local_command(&mut self, command: SlashCommand) -> Result<String, CliError> {
        let runtime = self.runtime;
        match command {
            SlashCommand::Help => Ok(lists::help()),
            SlashCommand::Clear => {
                let start = runtime.block_on(self.desk.begin(None))?;
                self.switch_session(start)
            }
            SlashCommand::Load(name) => self.load(&name),
            SlashCommand::Fork => {
                let session = self.talk.stored()?;
                let start = runtime.block_on(self.desk.fork(&session))?;
                self.switch_session(start)
            }
            SlashCommand::Sessions => {
                let found = runtime.block_on(lookups::sessions(&self.desk.store, ""))?;
                Ok(lists::sessions(&found))
            }
            SlashCommand::Cost => Ok(lists::cost(&self.talk)),
            SlashCommand::Model(_) => {
                Ok(lists::lines(&lookups::model_names(&self.desk.settings()?)))
            }
            SlashCommand::Allow(_) => Ok(lists::network(&self.talk.network)),
            SlashCommand::Export(path) => {
                let session = self.talk.stored()?;
                let path = lookups::export(&self.desk.store, &session, path.as_deref());
                Ok(format!("{}\n", runtime.block_on(path)?.display()))
            }
            SlashCommand::Jobs => {
                let jobs = runtime.block_on(self.server()?.jobs())?;
                Ok(lists::jobs(&jobs))
            }
            SlashCommand::Image(path) => self.show_picture(&path),
            _ => Err(CliError::usage("this command requires the full screen")
                .hint("run without `--plain`".to_owned())),
        }
    }

    fn load(&mut self, name: &str) -> Result<String, CliError> {
        let session = self.runtime.block_on(self.desk.named(name))?;
        if self.talk.session.as_ref() == Some(&session) {
            return Err(CliError::usage(format!(
                "session {session} is already open"
            )));
        }
        let start = self
            .runtime
            .block_on(self.desk.load(Some(session.as_str())))?;
        self.switch_session(start)
    }

    fn switch_session(&mut self, start: ReadySession) -> Result<String, CliError> {
        self.end_session();
        self.open(start);
        Ok(String::new())
    }

    /// Called between turns only.
    fn end_session(&mut self) {
        if let Some(partner) = self.partner.take() {
            let ended = self.runtime.block_on(partner.end(async |_: PeerItem| {}));
            if let Err(complaint) = ended {
                self.complain(complaint);
            }
        }
    }

    fn server(&self) -> Result<ServerClient, CliError> {
        ServerClient::of(&self.desk.settings()?)
    }

    fn attach(&mut self, name: &str) -> Result<(), CliError> {
        let server = self.server()?;
        let job = self.runtime.block_on(server.find(name))?;
        self.end_session();
        self.talk = ChatState::default();
        warn(format!("job {} of {}", job.id, server.address()));
        let _guard = self.runtime.enter();
        self.partner = Some(ChatPeer::follower(|ends| server.follow(job, ends)));
        Ok(())
    }

    fn show_picture(&mut self, path: &Path) -> Result<String, CliError> {
        let picture = picture::read(path, &self.talk.workspace)?;
        self.pictures.push(Block::Image {
            source: picture.image,
        });
        Ok(format!(
            "{}: {} bytes are sent with the next message\n",
            picture.path.display(),
            picture.bytes
        ))
    }
}

fn syntax_error(error: &SlashError) -> CliError {
    CliError::usage(error).hint("`/help` lists commands".to_owned())
}
