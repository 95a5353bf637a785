//! Looks for a path by some of its letters. Pure.
//!
//! Quick enough to be asked at every key: what does not fit the letters so far does not fit more
//! of them, so that each letter looks only at what the one before has left.

use nucleo_matcher::pattern::{Atom, AtomKind, CaseMatching, Normalization};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// All paths, and what fitted last.
#[derive(Debug)]
pub(crate) struct Finder {
    paths: Vec<String>,
    matcher: Matcher,
    letters: String,
    /// Places of the paths that fit the letters.
    left: Vec<u32>,
}

/// A path that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: String,
    /// Letters of it that were asked for, by their place.
    pub(crate) matched: Vec<u32>,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            matcher: Matcher::new(Config::DEFAULT.match_paths()),
            letters: String::new(),
            left: Vec::new(),
        }
    }
}

impl Finder {
    pub(crate) fn new(paths: Vec<String>) -> Self {
        let mut finder = Self {
            paths,
            ..Self::default()
        };
        finder.forget();
        finder
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|other| other == path)
    }

    /// The best ones first. With no letters, the first ones.
    pub(crate) fn find(&mut self, letters: &str, most: usize) -> Vec<Found> {
        let places = self.places(letters, most);
        let found = places.into_iter().map(|(place, matched)| Found {
            path: self.paths[place].clone(),
            matched,
        });
        found.collect()
    }

    /// The same by their places among all.
    pub(super) fn places(&mut self, letters: &str, most: usize) -> Vec<(usize, Vec<u32>)> {
        if !letters.starts_with(&self.letters) {
            self.forget();
        }
        letters.clone_into(&mut self.letters);
        let atom = Atom::new(
            letters,
            CaseMatching::Smart,
            Normalization::Smart,
            AtomKind::Fuzzy,
            false,
        );
        let mut buffer = Vec::new();
        let mut scored: Vec<(u16, u32)> = Vec::new();
        let (paths, matcher) = (&self.paths, &mut self.matcher);
        self.left.retain(|place| {
            let path = Utf32Str::new(&paths[*place as usize], &mut buffer);
            let Some(score) = atom.score(path, matcher) else {
                return false;
            };
            scored.push((score, *place));
            true
        });
        let order = |(score, place): &(u16, u32)| {
            let length = paths[*place as usize].len();
            (std::cmp::Reverse(*score), length, *place)
        };
        if letters.is_empty() {
            scored.truncate(most);
        } else if scored.len() > most {
            scored.select_nth_unstable_by_key(most, order);
            scored.truncate(most);
        }
        if !letters.is_empty() {
            scored.sort_unstable_by_key(order);
        }
        let mut found = Vec::with_capacity(scored.len());
        for (_, place) in scored {
            let place = place as usize;
            let path = &paths[place];
            let mut matched = Vec::new();
            atom.indices(Utf32Str::new(path, &mut buffer), matcher, &mut matched);
            matched.sort_unstable();
            matched.dedup();
            found.push((place, matched));
        }
        found
    }

    fn forget(&mut self) {
        self.letters.clear();
        self.left = (0..u32::try_from(self.paths.len()).unwrap_or(u32::MAX)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_some_of_their_letters() {
        fn check(letters: &[&str], expect: &[&str]) {
            let paths = [
                "src/main.rs",
                "src/app/mod.rs",
                "README.md",
                "src/app/keys.rs",
            ];
            let mut finder = Finder::new(paths.map(str::to_owned).to_vec());
            let mut found = Vec::new();
            for letters in letters {
                found = finder.find(letters, 3);
            }
            let found: Vec<_> = found.iter().map(|found| found.path.as_str()).collect();
            assert_eq!(found, expect, "{letters:?}");
        }
        check(&[""], &["src/main.rs", "src/app/mod.rs", "README.md"]);
        check(&["main"], &["src/main.rs"]);
        check(&["k", "ke", "key"], &["src/app/keys.rs"]);
        check(&["key", "ma"], &["src/main.rs"]);
        check(
            &["key", ""],
            &["src/main.rs", "src/app/mod.rs", "README.md"],
        );
        check(&["r", "rE"], &[]);
        check(&["RE", "re"], &["README.md"]);
        check(&["apmod"], &["src/app/mod.rs"]);
        check(&["zzz", "main"], &["src/main.rs"]);
    }

    #[test]
    fn the_letters_that_fit_are_told() {
        let mut finder = Finder::new(vec!["src/äpp.rs".to_owned()]);
        assert_eq!(finder.find("app", 1)[0].matched, [4, 5, 6]);
    }
}
