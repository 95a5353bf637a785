//! Fuzzy search in a list of paths. Pure.
//!
//! Fast enough to run at every key press for any number of paths. A path that does not match a
//! query does not match an extension of it either, so each further letter searches only the
//! remaining matches. A search proceeds [`PATHS_PER_STEP`] paths at a time, and the best matches so far are
//! available at any time.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// Paths searched per step: a few milliseconds.
const PATHS_PER_STEP: usize = 4_096;
/// Number of best matches that are kept sorted.
const MAX_BEST_MATCHES: usize = 64;

/// All paths, and the state of the search.
#[derive(Debug)]
pub(crate) struct FuzzyFinder {
    paths: Vec<String>,
    matcher: Matcher,
    letters: String,
    /// Indices of the paths still to be searched, the next one last.
    ahead: Vec<u32>,
    /// Indices of the paths that match.
    fitting: Vec<u32>,
    /// Score and index of the best matches.
    best: Vec<(u16, u32)>,
}

impl Default for FuzzyFinder {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            letters: String::new(),
            ahead: Vec::new(),
            fitting: Vec::new(),
            best: Vec::new(),
        }
    }
}

impl FuzzyFinder {
    pub(crate) fn new(paths: Vec<String>) -> Self {
        let mut finder = Self {
            paths,
            ..Self::default()
        };
        finder.fitting = finder.all();
        finder
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|other| other == path)
    }

    pub(crate) fn path(&self, place: usize) -> &str {
        self.paths.get(place).map_or("", String::as_str)
    }

    /// Sets the query and runs the first step.
    pub(crate) fn look_for(&mut self, letters: &str) {
        if letters == self.letters && !self.best.is_empty() {
            return;
        }
        let mut ahead = if letters.starts_with(&self.letters) {
            let mut ahead = std::mem::take(&mut self.ahead);
            ahead.append(&mut self.fitting);
            ahead
        } else {
            self.all()
        };
        // Search in the order of the list.
        ahead.sort_unstable_by(|one, other| other.cmp(one));
        self.ahead = ahead;
        self.fitting.clear();
        self.best.clear();
        letters.clone_into(&mut self.letters);
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
        for _ in 0..PATHS_PER_STEP {
            let Some(place) = self.ahead.pop() else {
                break;
            };
            let path = Utf32Str::new(&self.paths[place as usize], &mut buffer);
            if let Some(score) = atom.score(path, &mut self.matcher) {
                self.fitting.push(place);
                self.best.push((score, place));
            }
            if self.best.len() >= 16 * MAX_BEST_MATCHES {
                self.keep_best();
            }
        }
        self.keep_best();
    }

    /// The best matches so far: the index of the path, and the indices of its matching characters.
    pub(crate) fn best(&mut self) -> Vec<(usize, Vec<u32>)> {
        let atom = self.atom();
        let mut buffer = Vec::new();
        let mut best = Vec::with_capacity(self.best.len());
        for (_, place) in &self.best {
            let place = *place as usize;
            let path = Utf32Str::new(&self.paths[place], &mut buffer);
            let mut matched = Vec::new();
            atom.indices(path, &mut self.matcher, &mut matched);
            matched.sort_unstable();
            matched.dedup();
            best.push((place, matched));
        }
        best
    }

    fn keep_best(&mut self) {
        let paths = &self.paths;
        // With an empty query all paths match alike: keep the order of the list.
        let has_letters = !self.letters.is_empty();
        let order = |(score, place): &(u16, u32)| {
            let length = paths[*place as usize].len();
            (
                std::cmp::Reverse(*score),
                if has_letters { length } else { 0 },
                *place,
            )
        };
        if self.best.len() > MAX_BEST_MATCHES {
            self.best
                .select_nth_unstable_by_key(MAX_BEST_MATCHES, order);
            self.best.truncate(MAX_BEST_MATCHES);
        }
        self.best.sort_unstable_by_key(order);
    }

    fn atom(&self) -> Atom {
        Atom::new(
            &self.letters,
            CaseMatching::Smart,
            Normalization::Smart,
            AtomKind::Fuzzy,
            false,
        )
    }

    fn all(&self) -> Vec<u32> {
        (0..u32::try_from(self.paths.len()).unwrap_or(u32::MAX)).collect()
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
    fn paths_are_found_by_some_of_their_letters() {
        fn check(letters: &[&str], expect: &[&str]) {
            let mut finder = FuzzyFinder::new(PATHS.map(str::to_owned).to_vec());
            for letters in letters {
                finder.look_for(letters);
            }
            let places = finder.best();
            let found: Vec<_> = places
                .iter()
                .map(|(place, _)| finder.path(*place))
                .collect();
            assert_eq!(found, expect, "{letters:?}");
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
    fn the_letters_that_fit_are_told() {
        let mut finder = FuzzyFinder::new(vec!["src/äpp.rs".to_owned()]);
        finder.look_for("app");
        assert_eq!(finder.best(), [(0, vec![4, 5, 6])]);
    }

    #[test]
    fn many_paths_are_looked_at_in_steps_and_none_is_left_out() {
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
            finder.look_for("e");
            finder.look_for("ed");
            let mut steps = 1;
            while !finder.is_done() {
                finder.search_step();
                steps += 1;
            }
            assert!(steps > 1, "in steps");
            assert_eq!(finder.best().first().map(|(place, _)| *place), Some(needle));
        }
    }
}
