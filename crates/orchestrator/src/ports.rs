//! Interfaces that the program which starts a server implements.

pub use agent::ChosenModel;

/// Access to models by name, with a default.
pub trait ServerModels: agent::ModelCatalog {
    fn default_name(&self) -> &str;

    /// The provider of a model. Models of the same provider fail together. Shown to admins, so it
    /// must not contain a password.
    fn provider(&self, name: &str) -> String {
        let prefix = name.split_once('/').map(|(prefix, _)| prefix);
        prefix.unwrap_or("anthropic").to_owned()
    }

    fn provider_or_default(&self, name: Option<&str>) -> String {
        self.provider(name.unwrap_or(self.default_name()))
    }

    /// The model of that name, or the default.
    fn choose_or_default(&self, name: Option<&str>, replied: usize) -> Result<ChosenModel, String> {
        self.choose(name.unwrap_or(self.default_name()), replied)
    }
}
