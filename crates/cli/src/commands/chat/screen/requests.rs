//! Handlers for the requests of the UI.

use std::path::PathBuf;

use protocol::{AgentCommand, SessionId};
use tui::{OpenedSession, SessionOrigin, SessionPreview, UiNotice, UiRequest};

use super::super::chat_peer::ChatPeer;
use super::super::chat_state::ChatState;
use super::super::lookups;
use super::super::remote::ServerClient;
use super::answers;
use super::host::UiHost;
use crate::cli_error::CliError;

impl UiHost<'_> {
    /// Handles a request, or reports why it failed.
    pub(super) async fn obey(&mut self, request: UiRequest) {
        let done = match request {
            UiRequest::Agent(command) => self.command(command),
            UiRequest::New => self.begin().await,
            UiRequest::Load(name) => self.load(&name).await,
            UiRequest::Fork => self.fork().await,
            UiRequest::Follow(name) => self.follow(&name).await,
            UiRequest::Sessions { words } => self.sessions(words),
            UiRequest::Preview(session) => self.preview(session),
            UiRequest::Attach(path) => self.attach(path),
            UiRequest::Export(path) => self.export(path),
            UiRequest::Models => self.models(),
            UiRequest::Jobs => self.jobs(),
            // Handled by the caller.
            UiRequest::Quit => Ok(()),
        };
        if let Err(complaint) = done {
            self.say(answers::error_notice(complaint)).await;
        }
        self.forward_notes().await;
    }

    fn command(&mut self, command: AgentCommand) -> Result<(), CliError> {
        let Some(partner) = &mut self.partner else {
            return Err(CliError::usage("there is no session")
                .hint("`/clear` starts a new session, `/load` opens another".to_owned()));
        };
        self.talk.ask(&command);
        partner.tell(command);
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), CliError> {
        let start = self.desk.begin(None).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn load(&mut self, name: &str) -> Result<(), CliError> {
        let session = self.desk.named(name).await?;
        if self.talk.session.as_ref() == Some(&session) && self.partner.is_some() {
            let text = format!("session {session} is already open");
            self.say(UiNotice::Said(text)).await;
            return Ok(());
        }
        let start = self.desk.load(Some(session.as_str())).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn fork(&mut self) -> Result<(), CliError> {
        let session = self.talk.stored()?;
        let start = self.desk.fork(&session).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn follow(&mut self, name: &str) -> Result<(), CliError> {
        let server = self.server()?;
        let job = server.find(name).await?;
        self.end_talk().await;
        self.talk = ChatState::default();
        let opened = OpenedSession {
            origin: SessionOrigin::Job {
                job: job.id,
                server: server.address().to_owned(),
            },
            history: Vec::new(),
            model: job.model.clone().unwrap_or_default(),
            workspace: "/workspace".to_owned(),
        };
        self.say(UiNotice::Opened(Box::new(opened))).await;
        self.partner = Some(ChatPeer::follower(|ends| server.follow(job, ends)));
        Ok(())
    }

    fn sessions(&mut self, words: String) -> Result<(), CliError> {
        let store = self.desk.store.clone();
        self.spawn_lookup(async move {
            let found = lookups::sessions(&store, &words).await?;
            let rows = found.into_iter().map(answers::session_row).collect();
            Ok(UiNotice::Sessions { words, rows })
        });
        Ok(())
    }

    fn preview(&mut self, session: SessionId) -> Result<(), CliError> {
        let store = self.desk.store.clone();
        self.spawn_lookup(async move {
            let text = lookups::preview(&store, &session).await?;
            Ok(UiNotice::Preview(SessionPreview { session, text }))
        });
        Ok(())
    }

    fn attach(&mut self, path: PathBuf) -> Result<(), CliError> {
        self.spawn_lookup(answers::picture(path, self.talk.workspace.clone()));
        Ok(())
    }

    fn export(&mut self, path: Option<PathBuf>) -> Result<(), CliError> {
        let session = self.talk.stored()?;
        let store = self.desk.store.clone();
        self.spawn_lookup(async move {
            let path = lookups::export(&store, &session, path.as_deref()).await?;
            Ok(UiNotice::Said(format!("written to `{}`", path.display())))
        });
        Ok(())
    }

    fn models(&mut self) -> Result<(), CliError> {
        let names = lookups::model_names(&self.desk.settings()?);
        self.spawn_lookup(async move { Ok(UiNotice::Models(names)) });
        Ok(())
    }

    fn jobs(&mut self) -> Result<(), CliError> {
        let server = self.server()?;
        self.call(async move {
            let jobs = server.jobs().await?;
            let rows = jobs.into_iter().map(answers::job_row).collect();
            Ok(UiNotice::Jobs(rows))
        });
        Ok(())
    }

    fn server(&self) -> Result<ServerClient, CliError> {
        ServerClient::of(&self.desk.settings()?)
    }
}
