//! `hotcell undo`: undoes the last turn of a session, files and conversation together.

use std::sync::Arc;

use agent::{Approvals, NoModels, UsagePricing};
use llm::ScriptedModel;
use llm::script::Script;
use protocol::AgentCommand;

use super::run::{find, setup, view};
use super::run_command::run_command;
use super::runtime;
use crate::args::UndoFlags;
use crate::cli_error::CliError;
use crate::settings::{ModelSettings, SettingOverrides};

pub(crate) fn run(undo: &UndoFlags) -> Result<u8, CliError> {
    runtime()?.block_on(async {
        let name = undo.session.as_deref();
        let found = find(
            &undo.store,
            name,
            &undo.sandbox,
            SettingOverrides::default(),
        )
        .await?;
        let spec = found.spec(&undo.store)?;
        // Files of one workspace must not be restored into another.
        if spec.workspace != found.workspace {
            let own = found.workspace.display();
            let text = format!("session {} worked in `{own}`", found.session);
            return Err(
                CliError::usage(text).hint("omit `--workspace` to restore its files".to_owned())
            );
        }
        let (journal, history) = found.store.claim(&found.session).await?;
        // This model is never asked.
        let chosen = ModelSettings {
            model: agent::ChosenModel {
                model: Arc::new(ScriptedModel::new(Script::default())),
                price: UsagePricing::unknown(),
                window: None,
            },
            models: Arc::new(NoModels),
            budget: Default::default(),
            time_limit: None,
            max_tokens: 1,
        };
        let setup = setup(
            found.store,
            journal,
            history,
            chosen,
            spec,
            Approvals::default(),
        );
        run_command(setup, AgentCommand::Undo, view(undo.json)).await
    })
}
