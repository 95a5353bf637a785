//! Scripted models by name, whose replies a test can hold back. Also used by the unit tests of the
//! crate.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use agent::{ChosenModel, UsagePricing};
use futures_util::future::BoxFuture;
use llm::script::{Script, ScriptedReply};
use llm::{Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, ReplyEvent, ScriptedModel};
use orchestrator::ServerModels;
use protocol::Usage;
use serde_json::json;
use tokio::sync::{Semaphore, watch};

/// Models by name, each with a script. The default model always replies `Done.`.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    scripts: Mutex<HashMap<String, Role>>,
    is_broken: AtomicBool,
    /// Providers, by the part of a model name before `/`, that always respond with status 529.
    outages: Arc<Mutex<HashSet<String>>>,
}

type Role = (Script, Option<Arc<Gate>>);

/// Holds replies back until the test releases them.
#[derive(Debug)]
pub(crate) struct Gate {
    asked: watch::Sender<usize>,
    open: Semaphore,
}

impl Gate {
    /// Waits until this many replies were requested.
    pub(crate) async fn asked(&self, count: usize) {
        let mut asked = self.asked.subscribe();
        asked.wait_for(|asked| *asked >= count).await.unwrap();
    }

    pub(crate) fn count(&self) -> usize {
        *self.asked.borrow()
    }

    /// Releases up to `replies` replies.
    pub(crate) fn open(&self, replies: usize) {
        self.open.add_permits(replies);
    }
}

impl Scripts {
    pub(crate) fn add(&self, name: &str, replies: impl IntoIterator<Item = ScriptedReply>) {
        let script = (script(replies), None);
        self.scripts.lock().unwrap().insert(name.to_owned(), script);
    }

    #[allow(dead_code, reason = "only tests inside the crate have outages")]
    pub(crate) fn set_outage(&self, provider: &str, is_down: bool) {
        let mut outages = self.outages.lock().unwrap();
        if is_down {
            outages.insert(provider.to_owned())
        } else {
            outages.remove(provider)
        };
    }

    /// A script whose replies all wait at a gate.
    pub(crate) fn add_gated(
        &self,
        name: &str,
        replies: impl IntoIterator<Item = ScriptedReply>,
    ) -> Arc<Gate> {
        let gate = Arc::new(Gate {
            asked: watch::Sender::new(0),
            open: Semaphore::new(0),
        });
        let script = (script(replies), Some(gate.clone()));
        self.scripts.lock().unwrap().insert(name.to_owned(), script);
        gate
    }
}

fn script(replies: impl IntoIterator<Item = ScriptedReply>) -> Script {
    Script {
        title: String::new(),
        replies: replies.into_iter().collect(),
    }
}

/// A reply that runs a command.
pub(crate) fn bash(command: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({ "command": command }))
}

pub(crate) fn text(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

impl ServerModels for Scripts {
    fn default_name(&self) -> &str {
        "scripted"
    }
}

impl agent::ModelCatalog for Scripts {
    fn choose(&self, name: &str, replied: usize) -> Result<ChosenModel, String> {
        let (script, gate) = match name {
            // Chosen first when the job is scheduled.
            "fragile" if self.is_broken.swap(true, Ordering::Relaxed) => {
                panic!("as the test wants")
            }
            "fragile" | "explosive" | "scripted" => (script(vec![text("Done."); 100]), None),
            name => {
                let scripts = self.scripts.lock().unwrap();
                let found = scripts.get(name).cloned();
                found.ok_or_else(|| format!("there is no model `{name}`"))?
            }
        };
        let is_priced = name != "priceless";
        let price = move |_: &Usage| is_priced.then_some(0.5);
        Ok(ChosenModel {
            model: Arc::new(Gated {
                inner: ScriptedModel::starting_at(script, replied),
                gate,
                is_explosive: name == "explosive",
                provider: self.provider(name),
                outages: self.outages.clone(),
            }),
            price: UsagePricing(Arc::new(price)),
            window: None,
        })
    }
}

#[derive(Debug)]
struct Gated {
    inner: ScriptedModel,
    gate: Option<Arc<Gate>>,
    is_explosive: bool,
    provider: String,
    outages: Arc<Mutex<HashSet<String>>>,
}

impl Model for Gated {
    fn name(&self) -> &str {
        "scripted"
    }

    fn reply<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_event: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(async move {
            assert!(!self.is_explosive, "as the test wants");
            if let Some(gate) = &self.gate {
                gate.asked.send_modify(|asked| *asked += 1);
                gate.open.acquire().await.unwrap().forget();
            }
            if self.outages.lock().unwrap().contains(&self.provider) {
                return Err(ModelError::new(ModelErrorKind::Overloaded, "overloaded"));
            }
            self.inner.reply(request, on_event).await
        })
    }

    fn count<'a>(&'a self, request: ModelRequest<'a>) -> BoxFuture<'a, Result<u64, ModelError>> {
        self.inner.count(request)
    }
}
