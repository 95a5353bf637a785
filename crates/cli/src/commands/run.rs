//! `hotcell run` and `hotcell resume`: a task for the agent, from its first word to its last.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use agent::Setup;
use jiff::Timestamp;
use protocol::{Command, Event, SessionId};
use sandbox::SandboxSpec;
use store::{Journal, Page, Store};
use tools::ToolSet;

use super::drive::drive;
use super::runtime;
use crate::args::{Agent, Resume, Run, SandboxFlags};
use crate::complaint::Complaint;
use crate::render::{TextView, View};
use crate::settings::{Chosen, Overrides, Settings, choose_model, data_folder, sandbox_spec};

/// More is no prompt but a file.
const LONGEST_PROMPT: u64 = 16 << 20;

pub(crate) fn run(run: &Run) -> Result<u8, Complaint> {
    let prompt = read_prompt(&run.prompt)?;
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
    let settings = settings(agent)?;
    let chosen = choose_model(&settings, &agent.budget)?;
    runtime()?.block_on(async {
        let store = Store::open(&data_folder(&agent.store, None)?).await?;
        let taken = take_up(&store, resume.session.as_deref(), &agent.sandbox, &settings).await?;
        let (journal, history) = match resume.fork {
            false => (taken.journal, taken.history),
            true => {
                let session = taken.journal.session().clone();
                let seq = taken.history.len() as u64;
                // The copy is made of what is stored; the session itself is free again.
                drop(taken.journal);
                store
                    .fork(&session, seq, new_session(), Timestamp::now())
                    .await?
            }
        };
        let setup = setup(store, journal, history, chosen, taken.spec);
        drive(setup, command, view(agent.json)).await
    })
}

/// Begins a session with a prompt.
pub(crate) fn begin(
    agent: &Agent,
    settings: &Settings,
    chosen: Chosen,
    command: Command,
    banner: Option<&str>,
) -> Result<u8, Complaint> {
    let spec = sandbox_spec(&agent.sandbox, settings)?;
    let data = data_folder(&agent.store, Some(&spec.workspace))?;
    let mut view = view(agent.json);
    if let (View::Text(view), Some(banner)) = (&mut view, banner) {
        let _ = view.announce(banner);
    }
    runtime()?.block_on(async {
        let store = Store::open(&data).await?;
        let journal = store.begin(new_session()).await?;
        let setup = setup(store, journal, Vec::new(), chosen, spec);
        drive(setup, command, view).await
    })
}

pub(crate) fn settings(agent: &Agent) -> Result<Settings, Complaint> {
    let overrides = Overrides::default()
        .sandbox(&agent.sandbox)
        .model(&agent.model)
        .store(&agent.store);
    Settings::read(&overrides)
}

pub(crate) fn view(json: bool) -> View {
    match json {
        true => View::Json,
        false => View::Text(TextView::new()),
    }
}

pub(crate) fn setup(
    store: Store,
    journal: Journal,
    history: Vec<Event>,
    chosen: Chosen,
    sandbox: SandboxSpec,
) -> Setup {
    Setup {
        store,
        journal,
        history,
        model: chosen.model,
        price: chosen.price,
        sandbox,
        tools: ToolSet::standard(),
        budget: chosen.budget,
        max_tokens: chosen.max_tokens,
    }
}

/// A session that exists, and a sandbox on the workspace that it worked in.
pub(crate) struct TakenUp {
    pub(crate) journal: Journal,
    pub(crate) history: Vec<Event>,
    pub(crate) spec: SandboxSpec,
}

pub(crate) async fn take_up(
    store: &Store,
    name: Option<&str>,
    flags: &SandboxFlags,
    settings: &Settings,
) -> Result<TakenUp, Complaint> {
    let session = match name {
        Some(name) => store.find(name).await?,
        None => last_in(store, &sandbox_spec(flags, settings)?.workspace).await?,
    };
    let workspace = PathBuf::from(store.summary(&session).await?.workspace);
    let flags = match &flags.workspace {
        Some(_) => flags.clone(),
        None => SandboxFlags {
            workspace: Some(workspace),
            ..flags.clone()
        },
    };
    let spec = sandbox_spec(&flags, settings)?;
    let (journal, history) = store.claim(&session).await?;
    Ok(TakenUp {
        journal,
        history,
        spec,
    })
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
                .hint("`hotcell sessions` lists those of all workspaces".to_owned()))
        }
    }
}

fn read_prompt(prompt: &str) -> Result<String, Complaint> {
    let text = match prompt {
        "-" => from_input()?,
        prompt => prompt.to_owned(),
    };
    match text.trim().is_empty() {
        false => Ok(text),
        true => Err(Complaint::usage("the prompt is empty")
            .hint("say what is to be done, such as `hotcell run \"Fix the tests\"`".to_owned())),
    }
}

fn from_input() -> Result<String, Complaint> {
    let input = std::io::stdin();
    if input.is_terminal() {
        crate::complaint::warn("write the prompt, then Ctrl-D");
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
