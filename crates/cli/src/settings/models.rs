//! The models that a server offers, by name: the settings, behind the server's own port.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use agent::Price;
use llm::{Model, Prices};
use orchestrator::{Chosen, Models};

use super::{Settings, model_named, prices};
use crate::complaint::Complaint;

/// Clients that are kept for further jobs. A client has connections and certificates.
const MOST_CLIENTS: usize = 64;

pub(crate) struct ConfiguredModels {
    settings: Settings,
    default: String,
    prices: Prices,
    clients: Mutex<HashMap<String, Arc<dyn Model>>>,
}

/// Settings have keys in them.
impl fmt::Debug for ConfiguredModels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConfiguredModels")
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

impl ConfiguredModels {
    pub(crate) fn new(settings: Settings) -> Result<Self, Complaint> {
        let default = settings.get("model").map(|setting| setting.value.clone());
        Ok(Self {
            prices: prices(&settings)?,
            default: default.unwrap_or_default(),
            settings,
            clients: Mutex::default(),
        })
    }

    fn client(&self, name: &str, replied: usize) -> Result<Arc<dyn Model>, String> {
        let make = |place| model_named(&self.settings, name, place).map_err(Complaint::into_line);
        // A scripted model remembers its place, so that every job has one of its own.
        if is_scripted(name) {
            return make(replied);
        }
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients().get(name) {
            return Ok(client.clone());
        }
        let client = make(0)?;
        let mut clients = clients();
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        clients.insert(name.to_owned(), client.clone());
        Ok(client)
    }
}

impl Models for ConfiguredModels {
    fn default_name(&self) -> &str {
        &self.default
    }

    fn choose(&self, name: Option<&str>, replied: usize) -> Result<Chosen, String> {
        let name = name.unwrap_or(&self.default);
        // It names a file of this machine.
        if is_scripted(name) && name != self.default {
            return Err(format!("there is no model `{name}`"));
        }
        let model = self.client(name, replied)?;
        let price = self.prices.find(model.name());
        Ok(Chosen {
            is_priced: price.is_some(),
            price: Price(Arc::new(move |usage| {
                price.as_ref().map(|price| price.cost(usage))
            })),
            model,
        })
    }
}

fn is_scripted(name: &str) -> bool {
    name.starts_with("scripted/")
}
