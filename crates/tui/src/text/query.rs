//! Text search. Pure.

use regex::{Regex, RegexBuilder};

/// Matches a query as it is written. Ignores case, unless the query has an uppercase letter.
/// Returns `None` for an empty query, and for one of many thousand characters.
pub(crate) fn query_regex(query: &str) -> Option<Regex> {
    let is_exact = query.chars().any(char::is_uppercase);
    let regex = RegexBuilder::new(&regex::escape(query))
        .case_insensitive(!is_exact)
        .build();
    regex.ok().filter(|_| !query.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn check(query: &str, text: &str, expect: &[&str]) {
        let regex = query_regex(query).unwrap();
        let found: Vec<_> = regex.find_iter(text).map(|found| found.as_str()).collect();
        assert_eq!(found, expect, "{query} in {text}");
    }

    #[test]
    fn queries_ignore_case_unless_they_have_an_uppercase_letter() {
        check(
            "error",
            "Error: an ERROR, errors",
            &["Error", "ERROR", "error"],
        );
        check("Error", "Error: an ERROR", &["Error"]);
        check("über", "ÜBER und über, uber", &["ÜBER", "über"]);
        check("aa", "aaaa", &["aa", "aa"]);
        check("x", "", &[]);
        check("long", "lon", &[]);
        check("é", "ééx", &["é", "é"]);
        check("世界", "hello 世界", &["世界"]);
        check(" ", "a b", &[" "]);
        check("a.b(", "aXb( a.b(", &["a.b("]);
    }

    #[test]
    fn empty_queries_match_nothing() {
        assert!(query_regex("").is_none());
    }
}
