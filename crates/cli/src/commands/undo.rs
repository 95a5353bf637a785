//! `hotcell undo`: takes back the last turn of a session, files and conversation together.

use std::sync::Arc;

use agent::Price;
use llm::Scripted;
use llm::script::Script;
use protocol::{Command, EventKind};
use store::Store;

use super::drive::drive;
use super::run::{setup, take_up, view};
use super::runtime;
use crate::args::Undo;
use crate::complaint::Complaint;
use crate::settings::{Chosen, Overrides, Settings, data_folder};

pub(crate) fn run(undo: &Undo) -> Result<u8, Complaint> {
    let overrides = Overrides::default()
        .sandbox(&undo.sandbox)
        .store(&undo.store);
    let settings = Settings::read(&overrides)?;
    runtime()?.block_on(async {
        let store = Store::open(&data_folder(&undo.store, None)?).await?;
        let taken = take_up(&store, undo.session.as_deref(), &undo.sandbox, &settings).await?;
        // Files of one workspace must not be restored into another.
        let own = taken.history.iter().find_map(|event| match &event.kind {
            EventKind::SessionStarted { workspace, .. } => Some(workspace.clone()),
            _ => None,
        });
        if let Some(own) = own
            && taken.spec.workspace.display().to_string() != own
        {
            let text = format!("session {} worked in `{own}`", taken.journal.session());
            return Err(Complaint::usage(text)
                .hint("leave `--workspace` out to restore its files".to_owned()));
        }
        // Nobody asks this model anything.
        let chosen = Chosen {
            model: Arc::new(Scripted::new(Script::default())),
            price: Price(Arc::new(|_| None)),
            budget: Default::default(),
            max_tokens: 1,
        };
        let setup = setup(store, taken.journal, taken.history, chosen, taken.spec);
        drive(setup, Command::Undo, view(undo.json)).await
    })
}
