//! The models of a server or a session, by name: implements the agent's port on top of the settings.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use agent::{ChosenModel, UsagePricing};
use llm::{Model, PriceList};
use orchestrator::ServerModels;

use super::{Settings, model_named, prices, provider};
use crate::cli_error::CliError;

/// Maximum clients cached for further jobs. A client holds connections and certificates.
const MAX_CACHED_CLIENTS: usize = 64;

pub(crate) struct ConfiguredModels {
    settings: Settings,
    default: String,
    /// Whether file names are accepted as model names.
    is_local: bool,
    prices: PriceList,
    clients: Mutex<HashMap<String, Arc<dyn Model>>>,
}

/// Does not print the settings, which contain keys.
impl fmt::Debug for ConfiguredModels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ConfiguredModels")
            .field("default", &self.default)
            .finish_non_exhaustive()
    }
}

impl ConfiguredModels {
    /// For remote users: a script names a file of this machine, so only the default model may be one.
    pub(crate) fn for_server(settings: Settings) -> Result<Self, CliError> {
        Self::new(settings, false)
    }

    /// For the user who started the program.
    pub(crate) fn for_local_user(settings: Settings) -> Result<Self, CliError> {
        Self::new(settings, true)
    }

    fn new(settings: Settings, is_local: bool) -> Result<Self, CliError> {
        let default = settings.get("model").map(|setting| setting.value.clone());
        Ok(Self {
            prices: prices(&settings)?,
            default: default.unwrap_or_default(),
            settings,
            is_local,
            clients: Mutex::default(),
        })
    }

    /// The model of that name, with its price.
    pub(crate) fn named(&self, name: &str, replied: usize) -> Result<ChosenModel, CliError> {
        let model = self.client(name, replied)?;
        let price = self.prices.find(model.name());
        Ok(ChosenModel {
            window: price.and_then(|price| price.window),
            price: price.map_or_else(UsagePricing::unknown, UsagePricing::from),
            model,
        })
    }

    fn client(&self, name: &str, replied: usize) -> Result<Arc<dyn Model>, CliError> {
        let make = |place| model_named(&self.settings, name, place);
        // A scripted model keeps its position, so every job gets its own.
        if is_scripted(name) {
            return make(replied);
        }
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients().get(name) {
            return Ok(client.clone());
        }
        let client = make(0)?;
        let mut clients = clients();
        if clients.len() >= MAX_CACHED_CLIENTS {
            clients.clear();
        }
        clients.insert(name.to_owned(), client.clone());
        Ok(client)
    }
}

impl ServerModels for ConfiguredModels {
    fn default_name(&self) -> &str {
        &self.default
    }

    fn provider(&self, name: &str) -> String {
        provider(&self.settings, name)
    }
}

impl agent::ModelCatalog for ConfiguredModels {
    fn choose(&self, name: &str, replied: usize) -> Result<ChosenModel, String> {
        if is_scripted(name) && name != self.default && !self.is_local {
            return Err(format!("there is no model `{name}`"));
        }
        self.named(name, replied).map_err(CliError::into_line)
    }
}

fn is_scripted(name: &str) -> bool {
    name.starts_with("scripted/")
}
