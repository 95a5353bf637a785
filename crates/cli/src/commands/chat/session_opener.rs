//! Prepares sessions from flags, settings and the store. Shows nothing.
//!
//! A [`SessionPlan`] is checked before anything is opened; a [`ReadySession`] has everything that an agent needs. Entry
//! type: [`SessionOpener`].

use std::path::{Path, PathBuf};

use agent::{Approvals, SessionSetup};
use jiff::Timestamp;
use protocol::{Event, SessionId};
use sandbox::SandboxSpec;
use store::{Journal, SessionStore, StoreError};

use super::super::run::{FoundSession, find_session_in, new_session, setup};
use super::overrides;
use super::remote::ServerClient;
use crate::args::ChatFlags;
use crate::cli_error::CliError;
use crate::settings::{
    ModelSettings, Settings, approvals, choose_model, data_folder, sandbox_spec, workspace,
};

#[derive(Debug)]
pub(super) struct SessionOpener<'a> {
    pub(super) chat: &'a ChatFlags,
    pub(super) store: SessionStore,
    /// Whether there is a user to ask.
    pub(super) asks: bool,
    /// Chosen since the start.
    model: Option<String>,
}

/// A session that can be started.
#[derive(Debug)]
pub(super) struct SessionPlan {
    chosen: ModelSettings,
    spec: SandboxSpec,
    approvals: Approvals,
    /// The data folder.
    pub(super) data: PathBuf,
}

impl SessionPlan {
    /// For a new session. Reports every mistake in flags and settings.
    pub(super) fn new(chat: &ChatFlags, model: Option<&str>, asks: bool) -> Result<Self, CliError> {
        let settings = Settings::read(&overrides(chat, model))?;
        check_server(chat, &settings)?;
        let chosen = choose_model(&settings, &chat.budget)?;
        let flags = &chat.sandbox.flags;
        let workspace = workspace(flags, &settings)?;
        let data = data_folder(&chat.store, Some(&workspace))?;
        let approvals = approvals(&chat.store, &workspace, asks && !chat.no_ask)?;
        Ok(Self {
            chosen,
            spec: sandbox_spec(flags, &settings)?,
            approvals,
            data,
        })
    }
}

/// A session opened for writing.
#[derive(Debug)]
pub(super) struct ReadySession {
    pub(super) setup: SessionSetup,
    pub(super) session: SessionId,
    /// The events so far.
    pub(super) history: Vec<Event>,
    pub(super) model: String,
    pub(super) workspace: PathBuf,
}

impl ReadySession {
    fn new(store: SessionStore, journal: Journal, history: Vec<Event>, plan: SessionPlan) -> Self {
        Self {
            session: journal.session().clone(),
            model: plan.chosen.model.model.name().to_owned(),
            workspace: plan.spec.workspace.clone(),
            history: history.clone(),
            setup: setup(
                store,
                journal,
                history,
                plan.chosen,
                plan.spec,
                plan.approvals,
            ),
        }
    }
}

impl<'a> SessionOpener<'a> {
    pub(super) async fn open(
        chat: &'a ChatFlags,
        data: &Path,
        asks: bool,
    ) -> Result<Self, CliError> {
        Ok(Self {
            chat,
            store: SessionStore::open(data).await?,
            asks,
            model: None,
        })
    }

    /// The data folder that the flags name.
    pub(super) fn data(chat: &ChatFlags) -> Result<PathBuf, CliError> {
        data_folder(&chat.store, None)
    }

    /// The current settings, with the model that was chosen.
    pub(super) fn settings(&self) -> Result<Settings, CliError> {
        Settings::read(&overrides(self.chat, self.model.as_deref()))
    }

    /// Starts later sessions with this model, if one was chosen.
    pub(super) fn use_model(&mut self, chosen: Option<&str>) {
        if chosen.is_some() {
            self.model = chosen.map(str::to_owned);
        }
    }

    /// Starts a new session, from a checked plan or a new one.
    pub(super) async fn begin(&self, plan: Option<SessionPlan>) -> Result<ReadySession, CliError> {
        let plan = match plan {
            Some(plan) => plan,
            None => SessionPlan::new(self.chat, self.model.as_deref(), self.asks)?,
        };
        let journal = self.store.begin(new_session()).await?;
        Ok(ReadySession::new(
            self.store.clone(),
            journal,
            Vec::new(),
            plan,
        ))
    }

    /// The session of that name or name prefix.
    pub(super) async fn named(&self, name: &str) -> Result<SessionId, CliError> {
        self.store.find(name).await.map_err(|error| {
            let is_unknown = matches!(error, StoreError::Unknown(_));
            let complaint = CliError::from(error);
            if is_unknown {
                complaint.hint("`/sessions` lists sessions".to_owned())
            } else {
                complaint
            }
        })
    }

    /// Opens the session of that name, or the last one in the workspace.
    pub(super) async fn load(&self, name: Option<&str>) -> Result<ReadySession, CliError> {
        let found = self.find(name).await?;
        let plan = self.plan_for(&found)?;
        let claimed = self.store.claim(&found.session).await;
        let (journal, history) = claimed.map_err(|error| {
            let is_in_use = matches!(error, StoreError::InUse(_));
            let complaint = CliError::from(error);
            if is_in_use {
                complaint.hint("end the other one, or continue in a copy with `/fork`".to_owned())
            } else {
                complaint
            }
        })?;
        Ok(ReadySession::new(
            self.store.clone(),
            journal,
            history,
            plan,
        ))
    }

    /// Opens a copy of a session.
    pub(super) async fn fork(&self, session: &SessionId) -> Result<ReadySession, CliError> {
        let found = self.find(Some(session.as_str())).await?;
        let plan = self.plan_for(&found)?;
        let forked = self
            .store
            .fork(session, u64::MAX, new_session(), Timestamp::now());
        let (journal, history) = forked.await?;
        Ok(ReadySession::new(
            self.store.clone(),
            journal,
            history,
            plan,
        ))
    }

    async fn find(&self, name: Option<&str>) -> Result<FoundSession, CliError> {
        find_session_in(
            self.store.clone(),
            &self.chat.store,
            name,
            &self.chat.sandbox.flags,
            overrides(self.chat, self.model.as_deref()),
        )
        .await
    }

    fn plan_for(&self, found: &FoundSession) -> Result<SessionPlan, CliError> {
        check_server(self.chat, &found.settings)?;
        let chosen = choose_model(&found.settings, &self.chat.budget)?;
        let spec = found.spec(&self.chat.store)?;
        let asks = self.asks && !self.chat.no_ask;
        Ok(SessionPlan {
            chosen,
            approvals: approvals(&self.chat.store, &spec.workspace, asks)?,
            spec,
            data: PathBuf::new(),
        })
    }
}

/// A server named by a flag must have a valid address. One from the settings is checked when it is used.
fn check_server(chat: &ChatFlags, settings: &Settings) -> Result<(), CliError> {
    match chat.server {
        Some(_) => ServerClient::of(settings).map(drop),
        None => Ok(()),
    }
}
