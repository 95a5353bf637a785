//! The port to models by name: who can be asked, and what that costs. Keys and addresses stay
//! behind it; nothing here asks a model. Entry type: [`Models`].

use std::fmt;
use std::sync::Arc;

use llm::Model;
use protocol::Usage;

/// A way to models by name.
pub trait Models: fmt::Debug + Send + Sync {
    /// The model of that name; an error is one line for a person.
    ///
    /// `replied` is how many replies the session has had of it: a scripted model goes on from
    /// there.
    fn choose(&self, name: &str, replied: usize) -> Result<Chosen, String>;
}

/// For a session that stays with the model that it has.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOtherModel;

impl Models for NoOtherModel {
    fn choose(&self, name: &str, _: usize) -> Result<Chosen, String> {
        Err(format!("there is no model `{name}` here"))
    }
}

/// A model, ready to be asked.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub model: Arc<dyn Model>,
    pub price: Price,
    /// Tokens of a request and its reply together that it can take, where known.
    pub window: Option<u64>,
}

type Cost = dyn Fn(&Usage) -> Option<f64> + Send + Sync;

/// From usage to US dollars, if that is known.
#[derive(Clone)]
pub struct Price(pub Arc<Cost>);

impl Price {
    pub fn unknown() -> Self {
        Self(Arc::new(|_| None))
    }

    pub fn of(&self, usage: &Usage) -> Option<f64> {
        (self.0)(usage)
    }

    /// Whether usage can be turned into money.
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
