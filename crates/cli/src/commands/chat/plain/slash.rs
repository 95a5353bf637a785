//! Slash commands in lines: each reports what it did in a line, or prints what it found to standard
//! output.

use std::path::Path;

use protocol::{Block, Command};
use tui::{SlashCommand, SlashError};

use super::awaited::Awaited;
use super::dialogue::{Dialogue, End};
use super::lists;
use crate::commands::chat::desk::Start;
use crate::commands::chat::partner::{Heard, Partner};
use crate::commands::chat::remote::Server;
use crate::commands::chat::talk::Talk;
use crate::commands::chat::{errand, picture};
use crate::complaint::{Complaint, warn};

impl Dialogue<'_> {
    /// Handles input: a prompt for the agent, or a slash command.
    pub(super) fn take(&mut self, words: &str) -> Result<(), End> {
        if words.trim().is_empty() {
            return Ok(());
        }
        let command = match SlashCommand::parse(words) {
            None => return self.prompt(words),
            Some(Ok(command)) => command,
            Some(Err(error)) => {
                self.complain(misread(&error));
                return Ok(());
            }
        };
        match command {
            SlashCommand::Quit => Err(End::Left),
            SlashCommand::Continue => self.perform(Command::Continue, Awaited::Turn),
            SlashCommand::Undo => self.perform(Command::Undo, Awaited::Undone),
            SlashCommand::Redo => self.perform(Command::Redo, Awaited::Redone),
            SlashCommand::Compact => self.perform(Command::Compact, Awaited::Compacted),
            SlashCommand::Diff => self.perform(Command::Diff, Awaited::Differences),
            SlashCommand::Files => self.perform(Command::ListFiles, Awaited::Files),
            SlashCommand::Model(Some(name)) => {
                self.perform(Command::UseModel { name }, Awaited::Model)
            }
            SlashCommand::Allow(Some(host)) => {
                self.perform(Command::AllowHost { host }, Awaited::Network)
            }
            SlashCommand::Attach(name) => match self.attach(&name) {
                Ok(()) => self.attend(Awaited::Rest),
                Err(complaint) => self.complained(complaint),
            },
            other => match self.obey(other) {
                Ok(text) => Ok(lists::print(&text)?),
                Err(complaint) => self.complained(complaint),
            },
        }
    }

    fn complained(&mut self, complaint: Complaint) -> Result<(), End> {
        self.complain(complaint);
        Ok(())
    }

    fn prompt(&mut self, words: &str) -> Result<(), End> {
        let mut content = vec![Block::text(words)];
        content.append(&mut self.pictures);
        self.perform(Command::Prompt { content }, Awaited::Turn)
    }

    /// Commands that do not involve the agent. Returns text for standard output.
    fn obey(&mut self, command: SlashCommand) -> Result<String, Complaint> {
        let runtime = self.runtime;
        match command {
            SlashCommand::Help => Ok(lists::help()),
            SlashCommand::Clear => {
                let start = runtime.block_on(self.desk.begin(None))?;
                self.switch(start)
            }
            SlashCommand::Load(name) => self.load(&name),
            SlashCommand::Fork => {
                let session = self.talk.stored()?;
                let start = runtime.block_on(self.desk.fork(&session))?;
                self.switch(start)
            }
            SlashCommand::Sessions => {
                let found = runtime.block_on(errand::sessions(&self.desk.store, ""))?;
                Ok(lists::sessions(&found))
            }
            SlashCommand::Cost => Ok(lists::cost(&self.talk)),
            SlashCommand::Model(_) => Ok(lists::lines(&errand::models(&self.desk.settings()?))),
            SlashCommand::Allow(_) => Ok(lists::network(&self.talk.network)),
            SlashCommand::Export(path) => {
                let session = self.talk.stored()?;
                let path = errand::export(&self.desk.store, &session, path.as_deref());
                Ok(format!("{}\n", runtime.block_on(path)?.display()))
            }
            SlashCommand::Jobs => {
                let jobs = runtime.block_on(self.server()?.jobs())?;
                Ok(lists::jobs(&jobs))
            }
            SlashCommand::Image(path) => self.show_picture(&path),
            _ => Err(Complaint::usage("this command requires the full screen")
                .hint("run without `--plain`".to_owned())),
        }
    }

    fn load(&mut self, name: &str) -> Result<String, Complaint> {
        let session = self.runtime.block_on(self.desk.named(name))?;
        if self.talk.session.as_ref() == Some(&session) {
            return Err(Complaint::usage(format!(
                "session {session} is already open"
            )));
        }
        let start = self
            .runtime
            .block_on(self.desk.load(Some(session.as_str())))?;
        self.switch(start)
    }

    fn switch(&mut self, start: Start) -> Result<String, Complaint> {
        self.end_talk();
        self.open(start);
        Ok(String::new())
    }

    /// Called between turns only.
    fn end_talk(&mut self) {
        if let Some(partner) = self.partner.take() {
            let ended = self.runtime.block_on(partner.end(async |_: Heard| {}));
            if let Err(complaint) = ended {
                self.complain(complaint);
            }
        }
    }

    fn server(&self) -> Result<Server, Complaint> {
        Server::of(&self.desk.settings()?)
    }

    fn attach(&mut self, name: &str) -> Result<(), Complaint> {
        let server = self.server()?;
        let job = self.runtime.block_on(server.find(name))?;
        self.end_talk();
        self.talk = Talk::default();
        warn(format!("job {} of {}", job.id, server.address()));
        let _guard = self.runtime.enter();
        self.partner = Some(Partner::follower(|ends| server.follow(job, ends)));
        Ok(())
    }

    fn show_picture(&mut self, path: &Path) -> Result<String, Complaint> {
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

fn misread(error: &SlashError) -> Complaint {
    Complaint::usage(error).hint("`/help` lists commands".to_owned())
}
