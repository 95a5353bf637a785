//! What a server needs of whoever starts it.

pub use agent::Chosen;

/// A way to models by name, with one that is meant where none is named.
pub trait Models: agent::Models {
    fn default_name(&self) -> &str;

    /// Where a model of that name is asked: models with the same answer fail together. Shown to
    /// admins, so it has no password in it.
    fn provider(&self, name: &str) -> String {
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        prefix.unwrap_or("anthropic").to_owned()
    }

    fn provider_or_default(&self, name: Option<&str>) -> String {
        self.provider(name.unwrap_or(self.default_name()))
    }

    /// The model of that name, or the server's own choice.
    fn choose_or_default(&self, name: Option<&str>, replied: usize) -> Result<Chosen, String> {
        self.choose(name.unwrap_or(self.default_name()), replied)
    }
}
