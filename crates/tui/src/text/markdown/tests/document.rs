//! A document with everything in it, at three widths.

use super::rendered;

const DOCUMENT: &str = include_str!("document.md");

#[test]
fn at_40_columns() {
    insta::assert_snapshot!(rendered(DOCUMENT, 40), @r"
    Moving the parser to its own crate

    The change touches three files and keeps
    the public interface as it was. See
    crates/parser/src/lib.rs and the design
    note (https://example.org/notes/parser)
    for the reasons; the old address was
    https://example.org/old.

    What was done

    1. Split lexer.rs out of parser.rs,
       because the two grew together and
       nobody could test one without the
       other.

    2. Added a test for each of the cases in
       the issue:

       • empty input
       • input that ends in the middle of a
         string, which used to panic with a
         message that helped nobody
         - and the same in a comment

    3. Ran everything:

         sh
         cargo test --workspace -- --nocaptu
         re

    Still open

    ✓ move the files
    ✓ fix the imports
    ○ rename the crate decide on a name

    │ A note from the review: the lexer must
    │ never allocate for a token that it
    │ does not keep.
    │
    │ │ Agreed.

    File      │ Lines │     What changed
    ──────────┼───────┼─────────────────────
    parser.rs │   412 │    lost its lexer
    ──────────┼───────┼─────────────────────
    lexer.rs  │ 1,208 │ new; has all of the
              │       │ tables that used to
              │       │ be built at run time
    ──────────┼───────┼─────────────────────
    lib.rs    │    17 │       exports

      rust
      /// Splits a text into tokens.
      pub fn tokens(text: &str) -> impl Iter
      ator<Item = Token<'_>> {
          Lexer::new(text).filter(|token| !m
      atches!(token.kind, Kind::Space | Kind
      ::Comment))
      }

    Numbers

    日本語の文章もここにあります。とても長い
    行は折り返されます。 Emoji too: 👩‍💻 ✅

    ────────────────────────────────────────

    <details>
    <summary>More</summary>
    </details>

    The cost is $O(n)$, or $$n_1 + n_2$$
    with both.
    ");
}

#[test]
fn at_80_columns() {
    insta::assert_snapshot!(rendered(DOCUMENT, 80), @r"
    Moving the parser to its own crate

    The change touches three files and keeps the public interface as it was. See
    crates/parser/src/lib.rs and the design note (https://example.org/notes/parser)
    for the reasons; the old address was https://example.org/old.

    What was done

    1. Split lexer.rs out of parser.rs, because the two grew together and nobody
       could test one without the other.

    2. Added a test for each of the cases in the issue:

       • empty input
       • input that ends in the middle of a string, which used to panic with a
         message that helped nobody
         - and the same in a comment

    3. Ran everything:

         sh
         cargo test --workspace -- --nocapture

    Still open

    ✓ move the files
    ✓ fix the imports
    ○ rename the crate decide on a name

    │ A note from the review: the lexer must never allocate for a token that it does
    │ not keep.
    │
    │ │ Agreed.

    File      │ Lines │                         What changed
    ──────────┼───────┼─────────────────────────────────────────────────────────────
    parser.rs │   412 │                        lost its lexer
    lexer.rs  │ 1,208 │ new; has all of the tables that used to be built at run time
    lib.rs    │    17 │                           exports

      rust
      /// Splits a text into tokens.
      pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
          Lexer::new(text).filter(|token| !matches!(token.kind, Kind::Space | Kind::
      Comment))
      }

    Numbers

    日本語の文章もここにあります。とても長い行は折り返されます。 Emoji too: 👩‍💻 ✅

    ────────────────────────────────────────────────────────────────────────────────

    <details>
    <summary>More</summary>
    </details>

    The cost is $O(n)$, or $$n_1 + n_2$$ with both.
    ");
}

#[test]
fn at_120_columns() {
    insta::assert_snapshot!(rendered(DOCUMENT, 120), @r"
    Moving the parser to its own crate

    The change touches three files and keeps the public interface as it was. See crates/parser/src/lib.rs and the design
    note (https://example.org/notes/parser) for the reasons; the old address was https://example.org/old.

    What was done

    1. Split lexer.rs out of parser.rs, because the two grew together and nobody could test one without the other.

    2. Added a test for each of the cases in the issue:

       • empty input
       • input that ends in the middle of a string, which used to panic with a message that helped nobody
         - and the same in a comment

    3. Ran everything:

         sh
         cargo test --workspace -- --nocapture

    Still open

    ✓ move the files
    ✓ fix the imports
    ○ rename the crate decide on a name

    │ A note from the review: the lexer must never allocate for a token that it does not keep.
    │
    │ │ Agreed.

    File      │ Lines │                         What changed
    ──────────┼───────┼─────────────────────────────────────────────────────────────
    parser.rs │   412 │                        lost its lexer
    lexer.rs  │ 1,208 │ new; has all of the tables that used to be built at run time
    lib.rs    │    17 │                           exports

      rust
      /// Splits a text into tokens.
      pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
          Lexer::new(text).filter(|token| !matches!(token.kind, Kind::Space | Kind::Comment))
      }

    Numbers

    日本語の文章もここにあります。とても長い行は折り返されます。 Emoji too: 👩‍💻 ✅

    ────────────────────────────────────────────────────────────────────────────────

    <details>
    <summary>More</summary>
    </details>

    The cost is $O(n)$, or $$n_1 + n_2$$ with both.
    ");
}
