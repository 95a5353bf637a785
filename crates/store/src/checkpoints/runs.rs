//! Reference counts of contents. Pure.
//!
//! A content's count is the number of *runs* that hold it. A run is a series of consecutive checkpoints of
//! one session that all have the content. Between two checkpoints few files change, so few counts change; a
//! count of checkpoints would change for every file at every checkpoint. Either way, a content that no
//! checkpoint holds has a count of 0.

use std::collections::HashSet;

use super::ContentHash;

/// The contents whose count increases by one when a checkpoint is inserted between its neighbours.
pub(crate) fn runs_added(
    before: Option<&HashSet<ContentHash>>,
    held: &HashSet<ContentHash>,
    after: Option<&HashSet<ContentHash>>,
) -> Vec<ContentHash> {
    let has = |set: Option<&HashSet<ContentHash>>, hash| set.is_some_and(|set| set.contains(hash));
    // A new run.
    let own = held
        .iter()
        .filter(|hash| !has(before, hash) && !has(after, hash));
    // A run that is split in two.
    let cut = before
        .into_iter()
        .flatten()
        .filter(|hash| has(after, hash) && !held.contains(*hash));
    own.chain(cut).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// The definition: counts series of consecutive checkpoints that have the content.
    fn count(checkpoints: &[HashSet<ContentHash>], hash: &ContentHash) -> i64 {
        let mut runs = 0;
        let mut inside = false;
        for held in checkpoints {
            let has = held.contains(hash);
            runs += i64::from(has && !inside);
            inside = has;
        }
        runs
    }

    fn hash(number: u8) -> ContentHash {
        ContentHash([number; 32])
    }

    proptest! {
        #[test]
        fn counts_follow_what_is_put_in_and_taken_out(
            steps in prop::collection::vec(
                (any::<bool>(), any::<prop::sample::Index>(), prop::collection::hash_set(0_u8..6, 0..6)),
                1..40,
            )
        ) {
            let mut checkpoints: Vec<HashSet<ContentHash>> = Vec::new();
            let mut counts: HashMap<ContentHash, i64> = HashMap::new();
            for (put, place, held) in steps {
                let (change, added) = if put || checkpoints.is_empty() {
                    let held: HashSet<ContentHash> = held.into_iter().map(hash).collect();
                    let place = place.index(checkpoints.len() + 1);
                    let before = place.checked_sub(1).map(|place| &checkpoints[place]);
                    let added = runs_added(before, &held, checkpoints.get(place));
                    checkpoints.insert(place, held);
                    (1, added)
                } else {
                    let place = place.index(checkpoints.len());
                    let held = checkpoints.remove(place);
                    let before = place.checked_sub(1).map(|place| &checkpoints[place]);
                    (-1, runs_added(before, &held, checkpoints.get(place)))
                };
                for hash in added {
                    *counts.entry(hash).or_default() += change;
                }
                for number in 0..6 {
                    let hash = hash(number);
                    prop_assert_eq!(
                        counts.get(&hash).copied().unwrap_or(0),
                        count(&checkpoints, &hash)
                    );
                }
            }
        }
    }
}
