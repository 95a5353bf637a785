//! The port to models by name, with their prices. Keys and addresses stay behind it; nothing here
//! sends a request. Entry type: [`Models`].

use std::fmt;
use std::sync::Arc;

use llm::Model;
use protocol::Usage;

/// Finds models by name.
pub trait Models: fmt::Debug + Send + Sync {
    /// The model of that name. An error is one line for the user.
    ///
    /// `replied` is how many replies of it the session has had: a scripted model continues from there.
    fn choose(&self, name: &str, replied: usize) -> Result<Chosen, String>;
}

/// For a session that cannot change its model.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOtherModel;

impl Models for NoOtherModel {
    fn choose(&self, name: &str, _: usize) -> Result<Chosen, String> {
        Err(format!("there is no model `{name}` here"))
    }
}

/// A model, ready for requests.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub model: Arc<dyn Model>,
    pub price: Price,
    /// Maximum tokens of a request and its reply together, where known.
    pub window: Option<u64>,
}

type Cost = dyn Fn(&Usage) -> Option<f64> + Send + Sync;

/// Converts usage to US dollars, if the price is known.
#[derive(Clone)]
pub struct Price(pub Arc<Cost>);

impl Price {
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

impl From<llm::Price> for Price {
    fn from(price: llm::Price) -> Self {
        Self(Arc::new(move |usage| Some(price.cost(usage))))
    }
}

impl fmt::Debug for Price {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Price")
    }
}
