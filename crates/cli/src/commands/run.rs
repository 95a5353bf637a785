//! `hotcell run` and `hotcell resume`: run a task with the agent to its end.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use agent::{Approvals, SessionSetup};
use jiff::Timestamp;
use protocol::{AgentCommand, Event, SessionId, Spending};
use sandbox::SandboxSpec;
use store::{Journal, SessionQuery, SessionStore};
use tokio::sync::watch;
use tools::ToolSet;

use super::run_command::run_command;
use super::runtime;
use crate::args::{AgentFlags, ResumeFlags, RunFlags, SandboxFlags, StoreFlags};
use crate::cli_error::CliError;
use crate::render::{SessionView, TextView};
use crate::settings::{
    ModelSettings, SettingOverrides, Settings, approvals, choose_model, confirm_env_file,
    data_folder, sandbox_spec, workspace,
};

/// Maximum bytes of a prompt.
const MAX_PROMPT_BYTES: u64 = 16 << 20;

pub(crate) fn run(run: &RunFlags) -> Result<u8, CliError> {
    let prompt = read_prompt(&run.prompt)?;
    confirm_env_file(&overrides(&run.agent))?;
    let settings = settings(&run.agent)?;
    let chosen = choose_model(&settings, &run.agent.budget)?;
    begin(
        &run.agent,
        &settings,
        chosen,
        AgentCommand::prompt(prompt),
        None,
    )
}

pub(crate) fn resume(resume: &ResumeFlags) -> Result<u8, CliError> {
    let command = match &resume.prompt {
        Some(prompt) => AgentCommand::prompt(read_prompt(prompt)?),
        None => AgentCommand::Continue,
    };
    let agent = &resume.agent;
    confirm_env_file(&overrides(agent))?;
    runtime()?.block_on(async {
        let found = find(
            &agent.store,
            resume.session.as_deref(),
            &agent.sandbox,
            SettingOverrides::default().model(&agent.model),
        )
        .await?;
        let chosen = choose_model(&found.settings, &agent.budget)?;
        let spec = found.spec(&agent.store)?;
        let approvals = approvals(&agent.store, &spec.workspace, false)?;
        let FoundSession { store, session, .. } = found;
        let (journal, history) = if resume.fork {
            // All stored events: another process may be writing to the session.

            let copy = new_session();
            store
                .fork(&session, u64::MAX, copy, Timestamp::now())
                .await?
        } else {
            store.claim(&session).await?
        };
        let setup = setup(store, journal, history, chosen, spec, approvals);
        run_command(setup, command, view(agent.json)).await
    })
}

/// Starts a session with a prompt.
pub(crate) fn begin(
    agent: &AgentFlags,
    settings: &Settings,
    chosen: ModelSettings,
    command: AgentCommand,
    banner: Option<&str>,
) -> Result<u8, CliError> {
    // Before anything is created.
    let workspace = workspace(&agent.sandbox, settings)?;
    let data = data_folder(&agent.store, Some(&workspace))?;
    let approvals = approvals(&agent.store, &workspace, false)?;
    let spec = sandbox_spec(&agent.sandbox, settings)?;
    let mut view = view(agent.json);
    if let (SessionView::Text(view), Some(banner)) = (&mut view, banner) {
        let _ = view.announce(banner);
    }
    runtime()?.block_on(async {
        let store = SessionStore::open(&data).await?;
        let journal = store.begin(new_session()).await?;
        let setup = setup(store, journal, Vec::new(), chosen, spec, approvals);
        run_command(setup, command, view).await
    })
}

fn overrides(agent: &AgentFlags) -> SettingOverrides {
    SettingOverrides::default()
        .sandbox(&agent.sandbox)
        .model(&agent.model)
        .store(&agent.store)
}

pub(crate) fn settings(agent: &AgentFlags) -> Result<Settings, CliError> {
    Settings::read(&overrides(agent))
}

pub(crate) fn view(json: bool) -> SessionView {
    if json {
        SessionView::Json
    } else {
        SessionView::Text(TextView::new())
    }
}

pub(crate) fn setup(
    store: SessionStore,
    journal: Journal,
    history: Vec<Event>,
    chosen: ModelSettings,
    sandbox: SandboxSpec,
    approvals: Approvals,
) -> SessionSetup {
    SessionSetup {
        store,
        journal,
        history,
        model: chosen.model,
        models: chosen.models,
        sandbox,
        tools: watch::Sender::new(ToolSet::standard()).subscribe(),
        budget: chosen.budget,
        time_limit: chosen.time_limit,
        spent: Spending::none(),
        max_tokens: chosen.max_tokens,
        approvals,
    }
}

/// An existing session, and the settings for its workspace.
pub(crate) struct FoundSession {
    pub(crate) store: SessionStore,
    pub(crate) session: SessionId,
    /// Its recorded workspace.
    pub(crate) workspace: PathBuf,
    pub(crate) settings: Settings,
    flags: SandboxFlags,
}

impl FoundSession {
    /// A sandbox for it, on the workspace that a flag names or on its own.
    pub(crate) fn spec(&self, store: &StoreFlags) -> Result<SandboxSpec, CliError> {
        let workspace = workspace(&self.flags, &self.settings)?;
        data_folder(store, Some(&workspace))?;
        sandbox_spec(&self.flags, &self.settings)
    }
}

/// The session of this name, or the last one in this workspace.
pub(crate) async fn find(
    store_flags: &StoreFlags,
    name: Option<&str>,
    flags: &SandboxFlags,
    overrides: SettingOverrides,
) -> Result<FoundSession, CliError> {
    let store = SessionStore::open(&data_folder(store_flags, None)?).await?;
    find_session_in(store, store_flags, name, flags, overrides).await
}

/// The same, in an open store.
pub(crate) async fn find_session_in(
    store: SessionStore,
    store_flags: &StoreFlags,
    name: Option<&str>,
    flags: &SandboxFlags,
    overrides: SettingOverrides,
) -> Result<FoundSession, CliError> {
    let overrides = overrides.store(store_flags);
    let in_workspace = |workspace: PathBuf| SandboxFlags {
        workspace: Some(flags.workspace.clone().unwrap_or(workspace)),
        ..flags.clone()
    };
    // The workspace comes first: it decides whether a `.env` is read.
    match name {
        Some(name) => {
            let session = store.find(name).await?;
            let workspace = PathBuf::from(store.summary(&session).await?.workspace);
            if flags.workspace.is_none() {
                refuse_moved_workspace(&session, &workspace)?;
            }
            let flags = in_workspace(workspace.clone());
            let settings = Settings::read(&overrides.sandbox(&flags))?;
            Ok(FoundSession {
                store,
                session,
                workspace,
                settings,
                flags,
            })
        }
        None => {
            let settings = Settings::read(&overrides.sandbox(flags))?;
            let workspace = workspace(flags, &settings)?;
            let session = last_session_in(&store, &workspace).await?;
            let flags = in_workspace(workspace.clone());
            Ok(FoundSession {
                store,
                session,
                workspace,
                settings,
                flags,
            })
        }
    }
}

/// A session's recorded workspace is a real path. If it is a link now, a sandbox around it may have
/// created that.
fn refuse_moved_workspace(session: &SessionId, workspace: &Path) -> Result<(), CliError> {
    match std::fs::canonicalize(workspace) {
        Ok(real) if real != workspace => {
            let text = format!(
                "the workspace of session {session}, `{}`, now leads to `{}`",
                workspace.display(),
                real.display()
            );
            Err(CliError::usage(text)
                .hint("if that is intended, name the folder with `--workspace`".to_owned()))
        }
        // A missing folder is reported where it is used.
        _ => Ok(()),
    }
}

async fn last_session_in(store: &SessionStore, workspace: &Path) -> Result<SessionId, CliError> {
    let page = SessionQuery {
        workspace: Some(workspace.display().to_string()),
        before: None,
        limit: 1,
    };
    match store.sessions(&page).await?.into_iter().next() {
        Some(summary) => Ok(summary.session),
        None => {
            let text = format!("there is no session in `{}`", workspace.display());
            Err(CliError::usage(text)
                .hint("`hotcell sessions` lists the sessions of all workspaces".to_owned()))
        }
    }
}

fn read_prompt(prompt: &str) -> Result<String, CliError> {
    let text = match prompt {
        "-" => read_prompt_from_stdin()?,
        prompt => prompt.to_owned(),
    };
    if text.trim().is_empty() {
        Err(CliError::usage("the prompt is empty")
            .hint("give a task, such as `hotcell run \"Fix the tests\"`".to_owned()))
    } else {
        Ok(text)
    }
}

fn read_prompt_from_stdin() -> Result<String, CliError> {
    let input = std::io::stdin();
    if input.is_terminal() {
        crate::cli_error::warn("type the prompt, then press Ctrl-D");
    }
    let mut bytes = Vec::new();
    let complain =
        |why: &dyn std::fmt::Display| CliError::usage(format!("cannot read the prompt: {why}"));
    input
        .take(MAX_PROMPT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| complain(&error))?;
    if bytes.len() as u64 > MAX_PROMPT_BYTES {
        return Err(complain(&"it is longer than 16 MiB")
            .hint("put it into a file in the workspace, and name the file".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| complain(&"it is not UTF-8 text"))
}

pub(crate) fn new_session() -> SessionId {
    let now = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    SessionId::new(&now.datetime(), fastrand::u32(..))
}
