//! `hotcell run` and `hotcell resume`: run a task with the agent to its end.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use agent::{Approvals, Setup};
use jiff::Timestamp;
use protocol::{Command, Event, SessionId, Spending};
use sandbox::SandboxSpec;
use store::{Journal, Page, Store};
use tools::ToolSet;

use super::drive::drive;
use super::runtime;
use crate::args::{Agent, Resume, Run, SandboxFlags, StoreFlags};
use crate::complaint::Complaint;
use crate::render::{TextView, View};
use crate::settings::{
    Chosen, Overrides, Settings, approvals, choose_model, confirm_env_file, data_folder,
    sandbox_spec, workspace,
};

/// Maximum bytes of a prompt.
const LONGEST_PROMPT: u64 = 16 << 20;

pub(crate) fn run(run: &Run) -> Result<u8, Complaint> {
    let prompt = read_prompt(&run.prompt)?;
    confirm_env_file(&overrides(&run.agent))?;
    let settings = settings(&run.agent)?;
    let chosen = choose_model(&settings, &run.agent.budget)?;
    begin(&run.agent, &settings, chosen, Command::prompt(prompt), None)
}

pub(crate) fn resume(resume: &Resume) -> Result<u8, Complaint> {
    let command = match &resume.prompt {
        Some(prompt) => Command::prompt(read_prompt(prompt)?),
        None => Command::Continue,
    };
    let agent = &resume.agent;
    confirm_env_file(&overrides(agent))?;
    runtime()?.block_on(async {
        let found = find(
            &agent.store,
            resume.session.as_deref(),
            &agent.sandbox,
            Overrides::default().model(&agent.model),
        )
        .await?;
        let chosen = choose_model(&found.settings, &agent.budget)?;
        let spec = found.spec(&agent.store)?;
        let approvals = approvals(&agent.store, &spec.workspace, false)?;
        let Found { store, session, .. } = found;
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
        drive(setup, command, view(agent.json)).await
    })
}

/// Starts a session with a prompt.
pub(crate) fn begin(
    agent: &Agent,
    settings: &Settings,
    chosen: Chosen,
    command: Command,
    banner: Option<&str>,
) -> Result<u8, Complaint> {
    // Before anything is created.
    let workspace = workspace(&agent.sandbox, settings)?;
    let data = data_folder(&agent.store, Some(&workspace))?;
    let approvals = approvals(&agent.store, &workspace, false)?;
    let spec = sandbox_spec(&agent.sandbox, settings)?;
    let mut view = view(agent.json);
    if let (View::Text(view), Some(banner)) = (&mut view, banner) {
        let _ = view.announce(banner);
    }
    runtime()?.block_on(async {
        let store = Store::open(&data).await?;
        let journal = store.begin(new_session()).await?;
        let setup = setup(store, journal, Vec::new(), chosen, spec, approvals);
        drive(setup, command, view).await
    })
}

fn overrides(agent: &Agent) -> Overrides {
    Overrides::default()
        .sandbox(&agent.sandbox)
        .model(&agent.model)
        .store(&agent.store)
}

pub(crate) fn settings(agent: &Agent) -> Result<Settings, Complaint> {
    Settings::read(&overrides(agent))
}

pub(crate) fn view(json: bool) -> View {
    if json {
        View::Json
    } else {
        View::Text(TextView::new())
    }
}

pub(crate) fn setup(
    store: Store,
    journal: Journal,
    history: Vec<Event>,
    chosen: Chosen,
    sandbox: SandboxSpec,
    approvals: Approvals,
) -> Setup {
    Setup {
        store,
        journal,
        history,
        model: chosen.model,
        models: chosen.models,
        sandbox,
        tools: ToolSet::standard(),
        budget: chosen.budget,
        spent: Spending::none(),
        max_tokens: chosen.max_tokens,
        approvals,
    }
}

/// An existing session, and the settings for its workspace.
pub(crate) struct Found {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
    /// Its recorded workspace.
    pub(crate) workspace: PathBuf,
    pub(crate) settings: Settings,
    flags: SandboxFlags,
}

impl Found {
    /// A sandbox for it, on the workspace that a flag names or on its own.
    pub(crate) fn spec(&self, store: &StoreFlags) -> Result<SandboxSpec, Complaint> {
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
    overrides: Overrides,
) -> Result<Found, Complaint> {
    let store = Store::open(&data_folder(store_flags, None)?).await?;
    find_in(store, store_flags, name, flags, overrides).await
}

/// The same, in an open store.
pub(crate) async fn find_in(
    store: Store,
    store_flags: &StoreFlags,
    name: Option<&str>,
    flags: &SandboxFlags,
    overrides: Overrides,
) -> Result<Found, Complaint> {
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
                refuse_moved(&session, &workspace)?;
            }
            let flags = in_workspace(workspace.clone());
            let settings = Settings::read(&overrides.sandbox(&flags))?;
            Ok(Found {
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
            let session = last_in(&store, &workspace).await?;
            let flags = in_workspace(workspace.clone());
            Ok(Found {
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
fn refuse_moved(session: &SessionId, workspace: &Path) -> Result<(), Complaint> {
    match std::fs::canonicalize(workspace) {
        Ok(real) if real != workspace => {
            let text = format!(
                "the workspace of session {session}, `{}`, now leads to `{}`",
                workspace.display(),
                real.display()
            );
            Err(Complaint::usage(text)
                .hint("if that is intended, name the folder with `--workspace`".to_owned()))
        }
        // A missing folder is reported where it is used.
        _ => Ok(()),
    }
}

async fn last_in(store: &Store, workspace: &Path) -> Result<SessionId, Complaint> {
    let page = Page {
        workspace: Some(workspace.display().to_string()),
        before: None,
        limit: 1,
    };
    match store.sessions(&page).await?.into_iter().next() {
        Some(summary) => Ok(summary.session),
        None => {
            let text = format!("there is no session in `{}`", workspace.display());
            Err(Complaint::usage(text)
                .hint("`hotcell sessions` lists the sessions of all workspaces".to_owned()))
        }
    }
}

fn read_prompt(prompt: &str) -> Result<String, Complaint> {
    let text = match prompt {
        "-" => from_input()?,
        prompt => prompt.to_owned(),
    };
    if text.trim().is_empty() {
        Err(Complaint::usage("the prompt is empty")
            .hint("give a task, such as `hotcell run \"Fix the tests\"`".to_owned()))
    } else {
        Ok(text)
    }
}

fn from_input() -> Result<String, Complaint> {
    let input = std::io::stdin();
    if input.is_terminal() {
        crate::complaint::warn("type the prompt, then press Ctrl-D");
    }
    let mut bytes = Vec::new();
    let complain =
        |why: &dyn std::fmt::Display| Complaint::usage(format!("cannot read the prompt: {why}"));
    input
        .take(LONGEST_PROMPT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| complain(&error))?;
    if bytes.len() as u64 > LONGEST_PROMPT {
        return Err(complain(&"it is longer than 16 MiB")
            .hint("put it into a file in the workspace, and name the file".to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| complain(&"it is not UTF-8 text"))
}

pub(crate) fn new_session() -> SessionId {
    let now = Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    SessionId::new(&now.datetime(), fastrand::u32(..))
}
