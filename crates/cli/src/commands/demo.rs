//! `hotcell demo`: a complete run without an API key. The model is scripted and announced as such; the
//! sandbox, the tools and their results are real.

use std::sync::Arc;

use agent::{NoOtherModel, Price};
use llm::Scripted;
use llm::script::Script;
use protocol::Command;

use super::run::{begin, settings};
use crate::args::Agent;
use crate::complaint::{Complaint, FAILED};
use crate::settings::Chosen;

const SCRIPT: &str = include_str!("demo.toml");
const TASK: &str = "Create a Python script that prints Hello, World! and run it";
const BANNER: &str =
    "DEMO: the model is a script; the sandbox, the tools and their results are real";

pub(crate) fn run(agent: &Agent) -> Result<u8, Complaint> {
    let script = Script::parse(SCRIPT).map_err(|error| Complaint::from_error(FAILED, &error))?;
    let chosen = Chosen {
        model: agent::Chosen {
            model: Arc::new(Scripted::new(script)),
            price: Price(Arc::new(|_| Some(0.0))),
            window: None,
        },
        models: Arc::new(NoOtherModel),
        budget: Default::default(),
        max_tokens: 8096,
    };
    let settings = settings(agent)?;
    let banner = format!("{BANNER}\ntask: {TASK}");
    begin(
        agent,
        &settings,
        chosen,
        Command::prompt(TASK),
        Some(&banner),
    )
}
