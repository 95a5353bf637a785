//! Handlers for the requests of the UI.

use std::path::PathBuf;

use protocol::{Command, SessionId};
use tui::{Notice, Opened, Origin, Preview, Request};

use super::super::errand;
use super::super::partner::Partner;
use super::super::remote::Server;
use super::super::talk::Talk;
use super::answers;
use super::host::Host;
use crate::complaint::Complaint;

impl Host<'_> {
    /// Handles a request, or reports why it failed.
    pub(super) async fn obey(&mut self, request: Request) {
        let done = match request {
            Request::Agent(command) => self.command(command),
            Request::New => self.begin().await,
            Request::Load(name) => self.load(&name).await,
            Request::Fork => self.fork().await,
            Request::Follow(name) => self.follow(&name).await,
            Request::Sessions { words } => self.sessions(words),
            Request::Preview(session) => self.preview(session),
            Request::Attach(path) => self.attach(path),
            Request::Export(path) => self.export(path),
            Request::Models => self.models(),
            Request::Jobs => self.jobs(),
            // Handled by the caller.
            Request::Quit => Ok(()),
        };
        if let Err(complaint) = done {
            self.say(answers::failed(complaint)).await;
        }
        self.pass_notes().await;
    }

    fn command(&mut self, command: Command) -> Result<(), Complaint> {
        let Some(partner) = &mut self.partner else {
            return Err(Complaint::usage("there is no session")
                .hint("`/clear` starts a new session, `/load` opens another".to_owned()));
        };
        self.talk.ask(&command);
        partner.tell(command);
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), Complaint> {
        let start = self.desk.begin(None).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn load(&mut self, name: &str) -> Result<(), Complaint> {
        let session = self.desk.named(name).await?;
        if self.talk.session.as_ref() == Some(&session) && self.partner.is_some() {
            let text = format!("session {session} is already open");
            self.say(Notice::Said(text)).await;
            return Ok(());
        }
        let start = self.desk.load(Some(session.as_str())).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn fork(&mut self) -> Result<(), Complaint> {
        let session = self.talk.stored()?;
        let start = self.desk.fork(&session).await?;
        self.switch(start).await;
        Ok(())
    }

    async fn follow(&mut self, name: &str) -> Result<(), Complaint> {
        let server = self.server()?;
        let job = server.find(name).await?;
        self.end_talk().await;
        self.talk = Talk::default();
        let opened = Opened {
            origin: Origin::Job {
                job: job.id,
                server: server.address().to_owned(),
            },
            history: Vec::new(),
            model: job.model.clone().unwrap_or_default(),
            workspace: "/workspace".to_owned(),
        };
        self.say(Notice::Opened(Box::new(opened))).await;
        self.partner = Some(Partner::follower(|ends| server.follow(job, ends)));
        Ok(())
    }

    fn sessions(&mut self, words: String) -> Result<(), Complaint> {
        let store = self.desk.store.clone();
        self.look_up(async move {
            let found = errand::sessions(&store, &words).await?;
            let rows = found.into_iter().map(answers::session_row).collect();
            Ok(Notice::Sessions { words, rows })
        });
        Ok(())
    }

    fn preview(&mut self, session: SessionId) -> Result<(), Complaint> {
        let store = self.desk.store.clone();
        self.look_up(async move {
            let text = errand::preview(&store, &session).await?;
            Ok(Notice::Preview(Preview { session, text }))
        });
        Ok(())
    }

    fn attach(&mut self, path: PathBuf) -> Result<(), Complaint> {
        self.look_up(answers::picture(path, self.talk.workspace.clone()));
        Ok(())
    }

    fn export(&mut self, path: Option<PathBuf>) -> Result<(), Complaint> {
        let session = self.talk.stored()?;
        let store = self.desk.store.clone();
        self.look_up(async move {
            let path = errand::export(&store, &session, path.as_deref()).await?;
            Ok(Notice::Said(format!("written to `{}`", path.display())))
        });
        Ok(())
    }

    fn models(&mut self) -> Result<(), Complaint> {
        let names = errand::models(&self.desk.settings()?);
        self.look_up(async move { Ok(Notice::Models(names)) });
        Ok(())
    }

    fn jobs(&mut self) -> Result<(), Complaint> {
        let server = self.server()?;
        self.call(async move {
            let jobs = server.jobs().await?;
            let rows = jobs.into_iter().map(answers::job_row).collect();
            Ok(Notice::Jobs(rows))
        });
        Ok(())
    }

    fn server(&self) -> Result<Server, Complaint> {
        Server::of(&self.desk.settings()?)
    }
}
