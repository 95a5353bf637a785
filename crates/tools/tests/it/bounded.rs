//! Output of any length: what is shown, what is stored, and that memory stays small.

use proptest::prelude::*;
use tools::bounded::{BoundedOutput, CollectedOutput, MAX_SHOWN_BYTES, MAX_STORED_BYTES};

fn gather(pieces: &[&[u8]]) -> CollectedOutput {
    let mut bounded = BoundedOutput::default();
    for piece in pieces {
        bounded.push(piece, false);
    }
    bounded.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lines and characters of any length.
    #[test]
    fn the_ends_are_the_ends(
        lines in proptest::collection::vec("[a-zß€🦀\t]{0,40}", 0..60),
        repeat in 1..60usize,
        joined in any::<bool>(),
        size in 1..5000usize,
    ) {
        let separator = if joined { "" } else { "\n" };
        let text = lines.join(separator).repeat(repeat);
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        match gather(&pieces) {
            CollectedOutput::Whole(whole) => {
                prop_assert!(text.len() <= 2 * MAX_SHOWN_BYTES);
                prop_assert_eq!(whole, text);
            }
            CollectedOutput::Cut(cut) => {
                prop_assert!(text.len() > 2 * MAX_SHOWN_BYTES);
                prop_assert!(cut.head.len() <= MAX_SHOWN_BYTES && cut.tail.len() <= MAX_SHOWN_BYTES);
                prop_assert!(cut.head.len() >= MAX_SHOWN_BYTES / 2 - 4 && cut.tail.len() >= MAX_SHOWN_BYTES / 2 - 4);
                prop_assert!(text.starts_with(&cut.head) && text.ends_with(&cut.tail));
                let between = text.len() - cut.head.len() - cut.tail.len();
                prop_assert_eq!(cut.bytes, between as u64);
                let middle = &text[cut.head.len()..cut.head.len() + between];
                prop_assert_eq!(cut.lines, middle.matches('\n').count() as u64);
                if !joined {
                    prop_assert!(cut.head.ends_with('\n'));
                    prop_assert!(text[..text.len() - cut.tail.len()].ends_with('\n'));
                }
                prop_assert_eq!(cut.lost, 0);
                prop_assert!(cut.kept == text.as_bytes());
            }
        }
    }

    /// Any bytes become bounded, valid text.
    #[test]
    fn any_bytes_are_bounded(
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        repeat in 1..40usize,
    ) {
        let mut bounded = BoundedOutput::default();
        for at in 0..repeat {
            bounded.push(&bytes, at % 3 == 0);
        }
        match bounded.finish() {
            CollectedOutput::Whole(text) => prop_assert!(text.len() <= 2 * MAX_SHOWN_BYTES),
            CollectedOutput::Cut(cut) => {
                prop_assert!(cut.head.len() <= MAX_SHOWN_BYTES && cut.tail.len() <= MAX_SHOWN_BYTES);
                let kept = String::from_utf8(cut.kept).unwrap();
                prop_assert!(kept.starts_with(&cut.head) && kept.ends_with(&cut.tail));
            }
        }
    }
}

#[test]
fn both_ends_of_endless_output_are_stored() {
    let mut bounded = BoundedOutput::default();
    let mut number = 0u64;
    let mut total = 0;
    while total < 5 * MAX_STORED_BYTES {
        let line = format!("line {number} €\n");
        total += line.len();
        bounded.push(line.as_bytes(), false);
        number += 1;
    }
    let CollectedOutput::Cut(cut) = bounded.finish() else {
        panic!("it is too long to be shown whole");
    };
    let last = format!("line {} €\n", number - 1);
    assert!(cut.head.starts_with("line 0 €\n") && cut.tail.ends_with(&last));
    let kept = String::from_utf8(cut.kept).unwrap();
    assert!(kept.len() <= 2 * MAX_STORED_BYTES + 100, "{}", kept.len());
    assert!(kept.starts_with(&cut.head) && kept.ends_with(&cut.tail));
    let gap = format!("\n[… {} bytes were not stored …]\n", cut.lost);
    assert_eq!(kept.matches(&gap).count(), 1);
    assert_eq!(kept.len() - gap.len() + cut.lost as usize, total);
}
