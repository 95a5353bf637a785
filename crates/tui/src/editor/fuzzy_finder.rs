//! Fuzzy search in a list of paths. Pure.
//!
//! Fast enough to run at every key press for any number of paths. A path that does not match a
//! query does not match an extension of it either, so each further character searches only the
//! remaining matches. A search proceeds [`PATHS_PER_STEP`] paths at a time, and the best matches so
//! far are available at any time.

use std::cmp::Reverse;

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Paths searched per step: a few milliseconds.
const PATHS_PER_STEP: usize = 4_096;
const MAX_BEST_MATCHES: usize = 64;

/// All paths, and the state of the search.
#[derive(Debug)]
pub(crate) struct FuzzyFinder {
    paths: Vec<String>,
    matcher: Matcher,
    query: String,
    /// Indices of the paths still to be searched, the next one last.
    ahead: Vec<u32>,
    /// Score and index of the paths that match.
    matches: Vec<(u16, u32)>,
}

impl Default for FuzzyFinder {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl FuzzyFinder {
    pub(crate) fn new(paths: Vec<String>) -> Self {
        let count = u32::try_from(paths.len()).unwrap_or(u32::MAX);
        Self {
            paths,
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            query: String::new(),
            ahead: Vec::new(),
            // The empty query matches all paths.
            matches: (0..count).map(|index| (0, index)).collect(),
        }
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|other| other == path)
    }

    pub(crate) fn path(&self, index: usize) -> &str {
        self.paths.get(index).map_or("", String::as_str)
    }

    /// Sets the query and runs the first step.
    pub(crate) fn search(&mut self, query: &str) {
        if query == self.query && !self.matches.is_empty() {
            return;
        }
        if query.starts_with(&self.query) {
            let matches = self.matches.drain(..);
            self.ahead.extend(matches.map(|(_, index)| index));
            // Search in the order of the list.
            self.ahead.sort_unstable_by_key(|index| Reverse(*index));
        } else {
            self.matches.clear();
            let count = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
            self.ahead = (0..count).rev().collect();
        }
        query.clone_into(&mut self.query);
        self.search_step();
    }

    /// Whether all paths have been searched.
    pub(crate) fn is_done(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Searches the next [`PATHS_PER_STEP`] paths.
    pub(crate) fn search_step(&mut self) {
        let atom = self.atom();
        let mut buffer = Vec::new();
        let start = self.ahead.len().saturating_sub(PATHS_PER_STEP);
        for index in self.ahead.drain(start..).rev() {
            let path = Utf32Str::new(&self.paths[index as usize], &mut buffer);
            if let Some(score) = atom.score(path, &mut self.matcher) {
                self.matches.push((score, index));
            }
        }
    }

    /// The best matches so far: the index of the path, and the indices of its matching characters.
    pub(crate) fn best(&mut self) -> Vec<(usize, Vec<u32>)> {
        let rank = |(score, index): &(u16, u32)| {
            // With an empty query all paths match alike: keep the order of the list.
            let length = match self.query.as_str() {
                "" => 0,
                _ => self.paths[*index as usize].len(),
            };
            (Reverse(*score), length, *index)
        };
        let count = self.matches.len().min(MAX_BEST_MATCHES);
        if count < self.matches.len() {
            self.matches.select_nth_unstable_by_key(count, rank);
        }
        self.matches[..count].sort_unstable_by_key(rank);
        let atom = self.atom();
        let mut buffer = Vec::new();
        let best = self.matches[..count].iter().map(|(_, index)| {
            let index = *index as usize;
            let path = Utf32Str::new(&self.paths[index], &mut buffer);
            let mut matched = Vec::new();
            atom.indices(path, &mut self.matcher, &mut matched);
            matched.sort_unstable();
            matched.dedup();
            (index, matched)
        });
        best.collect()
    }

    fn atom(&self) -> Atom {
        Atom::new(
            &self.query,
            CaseMatching::Smart,
            Normalization::Smart,
            AtomKind::Fuzzy,
            false,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 4] = [
        "src/main.rs",
        "src/app/mod.rs",
        "README.md",
        "src/app/keys.rs",
    ];

    #[test]
    fn paths_match_fuzzily() {
        fn check(queries: &[&str], expect: &[&str]) {
            let mut finder = FuzzyFinder::new(PATHS.map(str::to_owned).to_vec());
            for queries in queries {
                finder.search(queries);
            }
            let best = finder.best();
            let found: Vec<_> = best.iter().map(|(index, _)| finder.path(*index)).collect();
            assert_eq!(found, expect, "{queries:?}");
        }
        check(&[""], &PATHS);
        check(&["main"], &["src/main.rs"]);
        check(&["k", "ke", "key"], &["src/app/keys.rs"]);
        check(&["key", "ma"], &["src/main.rs"]);
        check(&["key", ""], &PATHS);
        check(&["r", "rE"], &[]);
        check(&["RE", "re"], &["README.md", "src/app/keys.rs"]);
        check(&["apmod"], &["src/app/mod.rs"]);
        check(&["zzz", "main"], &["src/main.rs"]);
    }

    #[test]
    fn the_matching_characters_are_returned() {
        let mut finder = FuzzyFinder::new(vec!["src/äpp.rs".to_owned()]);
        finder.search("app");
        assert_eq!(finder.best(), [(0, vec![4, 5, 6])]);
    }

    #[test]
    fn many_paths_are_searched_in_steps() {
        let paths = |needle: usize| -> Vec<String> {
            let name = |number: usize| {
                if number == needle {
                    "needle.rs".to_owned()
                } else {
                    format!("folder/{number}/file.rs")
                }
            };
            (0..3 * PATHS_PER_STEP).map(name).collect()
        };
        for needle in [0, PATHS_PER_STEP, 3 * PATHS_PER_STEP - 1] {
            let mut finder = FuzzyFinder::new(paths(needle));
            // The query grows before the first search has finished.
            finder.search("e");
            finder.search("ed");
            let mut steps = 1;
            while !finder.is_done() {
                finder.search_step();
                steps += 1;
            }
            assert!(steps > 1, "in steps");
            assert_eq!(finder.best().first().map(|(index, _)| *index), Some(needle));
        }
    }
}
