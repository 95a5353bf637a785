//! Token prices. The built-in list is `prices.toml`; a user's own list extends and overrides it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use protocol::Usage;
use serde::Deserialize;
use thiserror::Error;

/// The price of one model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(from = "PriceEntry")]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    /// For a cache lifetime of five minutes.
    pub cache_write: f64,
    pub cache_read: f64,
    /// Maximum number of tokens of a request and its reply together, if known.
    pub window: Option<u64>,
}

/// A price as written in the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
    cache_write: Option<f64>,
    cache_read: Option<f64>,
    window: Option<u64>,
}

impl From<PriceEntry> for ModelPrice {
    fn from(entry: PriceEntry) -> Self {
        Self {
            input: entry.input,
            output: entry.output,
            cache_write: entry.cache_write.unwrap_or(entry.input * 1.25),
            cache_read: entry.cache_read.unwrap_or(entry.input * 0.1),
            window: entry.window,
        }
    }
}

impl ModelPrice {
    /// Cost in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.cache_creation_input_tokens, self.cache_write),
            (usage.cache_read_input_tokens, self.cache_read),
            (usage.output_tokens, self.output),
        ];
        parts
            .iter()
            .map(|(tokens, price)| *tokens as f64 * price / 1_000_000.0)
            .sum()
    }
}

/// Prices by model name prefix.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    #[serde(default, rename = "model")]
    models: BTreeMap<String, ModelPrice>,
}

#[derive(Debug, Error)]
#[error("cannot understand the list of prices")]
pub struct PriceListError(#[from] toml::de::Error);

static BUILTIN_PRICES: LazyLock<PriceList> = LazyLock::new(|| {
    PriceList::parse(include_str!("prices.toml")).expect("the built-in price list is valid")
});

impl PriceList {
    /// The prices built into this release.
    pub fn builtin() -> &'static Self {
        &BUILTIN_PRICES
    }

    /// Parses a list in TOML, in the form of `prices.toml`.
    pub fn parse(text: &str) -> Result<Self, PriceListError> {
        Ok(toml::from_str(text)?)
    }

    /// Adds the prices of `over`, which override existing ones.
    #[must_use]
    pub fn merge(mut self, over: Self) -> Self {
        self.models.extend(over.models);
        self
    }

    /// The model name prefixes that have a price.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.models.keys().map(String::as_str)
    }

    /// The price with the longest matching prefix of the model's name.
    pub fn find(&self, model: &str) -> Option<ModelPrice> {
        let bare = model.strip_prefix("anthropic/");
        [Some(model), bare].into_iter().flatten().find_map(|name| {
            let fitting = self.models.iter().filter(|(prefix, _)| fits(prefix, name));
            let longest = fitting.max_by_key(|(prefix, _)| prefix.len());
            longest.map(|(_, price)| *price)
        })
    }
}

/// The built-in price of a model.
pub fn price(model: &str) -> Option<ModelPrice> {
    PriceList::builtin().find(model)
}

/// Whether the name starts with the prefix and is not a later version: `claude-opus-4` matches
/// `claude-opus-4-20250514`, but not `claude-opus-4-6`, whose price may differ.
fn fits(prefix: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(prefix) else {
        return false;
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if digits(rest) > 0 {
        return false;
    }
    let Some(number) = rest.strip_prefix(['-', '.']) else {
        return true;
    };
    let length = digits(number);
    let ends = matches!(number[length..].chars().next(), None | Some('-' | '.'));
    !((1..=2).contains(&length) && ends)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn models_have_the_price_of_their_own_version() {
        fn check(model: &str, expect: Option<(f64, f64)>) {
            let found = price(model).map(|price| (price.input, price.output));
            assert_eq!(found, expect, "{model}");
        }
        check("claude-opus-4-20250514", Some((15.0, 75.0)));
        check("claude-opus-4-0", Some((15.0, 75.0)));
        check("claude-opus-4-1-20250805", Some((15.0, 75.0)));
        check("claude-opus-4-5-20251101", Some((5.0, 25.0)));
        check("claude-opus-4-9", None);
        check("claude-opus-5", Some((5.0, 25.0)));
        check("claude-opus-5-5", Some((4.0, 20.0)));
        check("claude-opus-5-9", None);
        check("claude-opus-51", None);
        check("claude-sonnet-4-20250514", Some((3.0, 15.0)));
        check("claude-sonnet-4-5-20250929", Some((3.0, 15.0)));
        check("claude-sonnet-4-5", Some((3.0, 15.0)));
        check("anthropic/claude-sonnet-4-5", Some((3.0, 15.0)));
        check("claude-haiku-4-5-20251001", Some((1.0, 5.0)));
        check("claude-3-5-haiku-latest", Some((0.8, 4.0)));
        check("scripted", Some((0.0, 0.0)));
        check("openai/qwen3", None);
        check("", None);
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        fn check(usage: Usage, expect: f64) {
            let cost = price("claude-sonnet-4-5").unwrap().cost(&usage);
            assert!((cost - expect).abs() < 1e-9, "{cost} is not {expect}");
        }
        let none = Usage::default();
        let million = 1_000_000;
        check(none, 0.0);
        check(
            Usage {
                input_tokens: million,
                ..none
            },
            3.0,
        );
        check(
            Usage {
                cache_creation_input_tokens: million,
                ..none
            },
            3.75,
        );
        check(
            Usage {
                cache_read_input_tokens: million,
                ..none
            },
            0.3,
        );
        check(
            Usage {
                output_tokens: million,
                ..none
            },
            15.0,
        );
        let all = Usage {
            input_tokens: 100,
            cache_creation_input_tokens: 200,
            cache_read_input_tokens: 1_000,
            output_tokens: 10,
        };
        check(all, 0.0003 + 0.000_75 + 0.0003 + 0.000_15);
        assert_eq!(price("claude-sonnet-4-5").unwrap().window, Some(200_000));
        assert_eq!(price("claude-opus-5-5").unwrap().cache_read, 0.20);
    }

    #[test]
    fn a_list_of_ones_own_goes_on_top() {
        let own = r#"
            [model."openai/qwen3"]
            input = 0.1
            output = 0.2
            [model.claude-opus-4-5]
            input = 1.0
            output = 1.0
        "#;
        let prices = PriceList::builtin()
            .clone()
            .merge(PriceList::parse(own).unwrap());
        assert_eq!(prices.find("openai/qwen3-8b").unwrap().output, 0.2);
        assert_eq!(prices.find("claude-opus-4-5").unwrap().input, 1.0);
        assert_eq!(prices.find("claude-opus-4-1").unwrap().input, 15.0);
        for bad in [
            "[model.x]\ninput = 1.0",
            "[model.x]\ninput = 1\noutput = 1\nouput = 2",
            "[x]",
        ] {
            assert!(PriceList::parse(bad).is_err(), "{bad}");
        }
    }
}
