//! What a session or a job may spend. Never says what was spent: see [`Spending`](crate::Spending).
//! Entry type: [`Budget`].

use serde::{Deserialize, Serialize};

/// Limits for all attempts together. No limit where absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobBudget))]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// US dollars. Requires a model with known prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Input and output tokens, cached or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Requests to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(value_type = Option<u64>, maximum = 4_294_967_295_i64)
    )]
    pub turns: Option<u32>,
}

impl Budget {
    /// The lower of both limits, for each of them.
    pub fn at_most(self, ceiling: Self) -> Self {
        Self {
            cost: lower(self.cost, ceiling.cost),
            tokens: lower(self.tokens, ceiling.tokens),
            turns: lower(self.turns, ceiling.turns),
        }
    }
}

fn lower<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one < other { one } else { other }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_applies_and_a_missing_one_is_no_limit() {
        let budget = |cost, tokens, turns| Budget {
            cost,
            tokens,
            turns,
        };
        let none = Budget::default();
        let wanted = budget(Some(2.0), Some(10), None);
        let ceiling = budget(Some(1.5), None, Some(3));
        let both = budget(Some(1.5), Some(10), Some(3));
        assert_eq!(wanted.at_most(ceiling), both);
        assert_eq!(ceiling.at_most(wanted), both);
        assert_eq!(wanted.at_most(none), wanted);
        assert_eq!(none.at_most(ceiling), ceiling);
    }
}
