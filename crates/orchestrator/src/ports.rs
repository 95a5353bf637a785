//! What a server needs of whoever starts it.

pub use agent::Chosen;

/// A way to models by name, with one that is meant where none is named.
pub trait Models: agent::Models {
    fn default_name(&self) -> &str;

    /// The model of that name, or the server's own choice.
    fn choose_or_default(&self, name: Option<&str>, replied: usize) -> Result<Chosen, String> {
        self.choose(name.unwrap_or(self.default_name()), replied)
    }
}
