//! Full-text search.

use crate::{StoreFixture, id, prompt, reply};

async fn world() -> StoreFixture {
    let world = StoreFixture::new().await;
    let one = [
        prompt(1, "Please fix the tests of the parser"),
        reply("The parser dropped a café's \"quoted\" name-part", 1, None),
    ];
    world.session(1, &one).await;
    world
        .session(2, &[prompt(1, "write a parser AND a printer")])
        .await;
    world
        .session(3, &[prompt(1, "say NEAR(a b) or x OR y")])
        .await;
    world
}

async fn check(world: &StoreFixture, words: &str, expect: &[u32]) {
    let found = world.store.search(words, 0).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| found.summary.session)
        .collect();
    let expect: Vec<_> = expect.iter().map(|number| id(*number)).collect();
    assert_eq!(found, expect, "{words:?}");
}

#[tokio::test]
async fn all_words_must_occur_and_the_newest_comes_first() {
    let world = world().await;
    for (words, expect) in [
        ("parser", &[2, 1][..]),
        ("PARSER printer", &[2]),
        ("parser tests", &[1]),
        ("café", &[1]),
        ("cafe", &[1]),
        ("print", &[2]),
        ("fix dropped", &[1]),
        ("dropped printer", &[]),
        ("nothing", &[]),
        ("", &[]),
        ("  \n", &[]),
    ] {
        check(&world, words, expect).await;
    }
}

#[tokio::test]
async fn what_a_person_types_is_no_language() {
    let world = world().await;
    for (words, expect) in [
        ("parser AND printer", &[2][..]),
        ("x OR nothing", &[]),
        ("parser NOT printer", &[]),
        ("parser - printer", &[2]),
        ("-parser", &[2, 1]),
        ("\"quoted\"", &[1]),
        ("\"quoted", &[1]),
        ("quo\"ted", &[]),
        ("name-part", &[1]),
        ("NEAR(a b)", &[3]),
        ("NEAR(parser printer, 2)", &[]),
        ("text:parser", &[]),
        ("{text}:parser", &[]),
        ("^parser", &[2, 1]),
        ("pars*", &[2, 1]),
        ("*", &[]),
        ("\"", &[]),
        ("' ) --", &[]),
        ("(", &[]),
        ("+", &[]),
        ("parser\0printer", &[2]),
        ("\\", &[]),
        ("🙂", &[]),
        ("parser 🙂", &[2, 1]),
    ] {
        check(&world, words, expect).await;
    }
    let many = "parser ".repeat(10_000);
    check(&world, &many, &[2, 1]).await;
    let long = "parser".repeat(100_000);
    check(&world, &long, &[]).await;
}

#[tokio::test]
async fn the_excerpt_shows_the_words_in_place() {
    let world = StoreFixture::new().await;
    let text = format!(
        "{} the needle\n\tin hay {}",
        "a ".repeat(500),
        "b ".repeat(500)
    );
    world
        .session(1, &[prompt(1, "other"), reply(&text, 1, None)])
        .await;
    let found = world.store.search("needle hay", 5).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].excerpt.contains("the needle in hay"),
        "{:?}",
        found[0]
    );
    assert!(found[0].excerpt.len() < 200);
    assert_eq!(found[0].summary.title, "other");
}

#[tokio::test]
async fn no_more_are_found_than_asked_for() {
    let world = StoreFixture::new().await;
    for number in 1..=5 {
        world.session(number, &[prompt(1, "same words")]).await;
    }
    check(&world, "words", &[5, 4, 3, 2, 1]).await;
    let found = world.store.search("words", 2).await.unwrap();
    let found: Vec<_> = found
        .into_iter()
        .map(|found| found.summary.session)
        .collect();
    assert_eq!(found, [id(5), id(4)]);
}
