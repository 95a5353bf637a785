//! `hotcell demo`: a complete run without an API key. The model is scripted and announced as such; the
//! sandbox, the tools and their results are real.

use std::sync::Arc;

use agent::{NoModels, UsagePricing};
use llm::ScriptedModel;
use llm::script::Script;
use protocol::AgentCommand;

use super::run::{begin, settings};
use crate::args::AgentFlags;
use crate::cli_error::{CliError, SANDBOX_FAILED};
use crate::settings::ModelSettings;

const DEMO_SCRIPT: &str = include_str!("demo.toml");
const DEMO_TASK: &str = "Create a Python script that prints Hello, World! and run it";
const DEMO_BANNER: &str =
    "DEMO: the model is a script; the sandbox, the tools and their results are real";

pub(crate) fn run(agent: &AgentFlags) -> Result<u8, CliError> {
    let script =
        Script::parse(DEMO_SCRIPT).map_err(|error| CliError::from_error(SANDBOX_FAILED, &error))?;
    let chosen = ModelSettings {
        model: agent::ChosenModel {
            model: Arc::new(ScriptedModel::new(script)),
            price: UsagePricing(Arc::new(|_| Some(0.0))),
            window: None,
        },
        models: Arc::new(NoModels),
        budget: Default::default(),
        time_limit: None,
        max_tokens: 8096,
    };
    let settings = settings(agent)?;
    let banner = format!("{DEMO_BANNER}\ntask: {DEMO_TASK}");
    begin(
        agent,
        &settings,
        chosen,
        AgentCommand::prompt(DEMO_TASK),
        Some(&banner),
    )
}
