//! What a server needs of whoever starts it.

use std::fmt;
use std::sync::Arc;

use agent::Price;
use llm::Model;

/// A way to models by name. Keys and addresses stay behind it.
pub trait Models: fmt::Debug + Send + Sync {
    /// What is chosen where no name is said.
    fn default_name(&self) -> &str;

    /// The model of that name, or the server's own choice; an error is one line for a person.
    ///
    /// `replied` is how many replies the job has had: a scripted model goes on from there.
    fn choose(&self, name: Option<&str>, replied: usize) -> Result<Chosen, String>;
}

/// A model, ready to be asked.
#[derive(Debug, Clone)]
pub struct Chosen {
    pub model: Arc<dyn Model>,
    pub price: Price,
    /// Whether usage can be turned into money.
    pub is_priced: bool,
}
