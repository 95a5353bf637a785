//! The port to models by name, with their prices. Keys and addresses stay behind it; nothing here
//! sends a request. Entry type: [`ModelCatalog`].

use std::fmt;
use std::sync::Arc;

use llm::Model;
use protocol::Usage;

/// Finds models by name.
pub trait ModelCatalog: fmt::Debug + Send + Sync {
    /// The model of that name. An error is one line for the user.
    ///
    /// `replied` is how many replies of it the session has had: a scripted model continues from there.
    fn choose(&self, name: &str, replied: usize) -> Result<ChosenModel, String>;
}

/// For a session that cannot change its model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModels;

impl ModelCatalog for NoModels {
    fn choose(&self, name: &str, _: usize) -> Result<ChosenModel, String> {
        Err(format!("there is no model `{name}` here"))
    }
}

/// A model, ready for requests.
#[derive(Debug, Clone)]
pub struct ChosenModel {
    pub model: Arc<dyn Model>,
    pub price: UsagePricing,
    /// Maximum tokens of a request and its reply together, where known.
    pub window: Option<u64>,
}

type CostFn = dyn Fn(&Usage) -> Option<f64> + Send + Sync;

/// Converts usage to US dollars, if the price is known.
#[derive(Clone)]
pub struct UsagePricing(pub Arc<CostFn>);

impl UsagePricing {
    pub fn unknown() -> Self {
        Self(Arc::new(|_| None))
    }

    pub fn of(&self, usage: &Usage) -> Option<f64> {
        (self.0)(usage)
    }

    /// Whether usage can be converted to dollars.
    pub fn is_known(&self) -> bool {
        self.of(&Usage::default()).is_some()
    }
}

impl From<llm::ModelPrice> for UsagePricing {
    fn from(price: llm::ModelPrice) -> Self {
        Self(Arc::new(move |usage| Some(price.cost(usage))))
    }
}

impl fmt::Debug for UsagePricing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Price")
    }
}
