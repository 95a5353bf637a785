//! `hotcell undo`: undoes the last turn of a session, files and conversation together.

use std::sync::Arc;

use agent::{Approvals, NoOtherModel, Price};
use llm::Scripted;
use llm::script::Script;
use protocol::Command;

use super::drive::drive;
use super::run::{find, setup, view};
use super::runtime;
use crate::args::Undo;
use crate::complaint::Complaint;
use crate::settings::{Chosen, Overrides};

pub(crate) fn run(undo: &Undo) -> Result<u8, Complaint> {
    runtime()?.block_on(async {
        let name = undo.session.as_deref();
        let found = find(&undo.store, name, &undo.sandbox, Overrides::default()).await?;
        let spec = found.spec(&undo.store)?;
        // Files of one workspace must not be restored into another.
        if spec.workspace != found.workspace {
            let own = found.workspace.display();
            let text = format!("session {} worked in `{own}`", found.session);
            return Err(Complaint::usage(text)
                .hint("omit `--workspace` to restore its files".to_owned()));
        }
        let (journal, history) = found.store.claim(&found.session).await?;
        // This model is never asked.
        let chosen = Chosen {
            model: agent::Chosen {
                model: Arc::new(Scripted::new(Script::default())),
                price: Price::unknown(),
                window: None,
            },
            models: Arc::new(NoOtherModel),
            budget: Default::default(),
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
        drive(setup, Command::Undo, view(undo.json)).await
    })
}
