//! Matches are found in all entries and scrolled into view.

use protocol::Block;

use super::{bash, ended, lines, reply, reply_of, text, transcript_of, visible_lines};
use crate::samples::{event, turn};
use crate::theme::{ColourScheme, Theme};
use crate::transcript::Transcript;

fn sample() -> Transcript {
    let mut events = vec![
        turn(1, "find the Needle"),
        reply_of(vec![
            Block::Thinking {
                thinking: "where is the needle".into(),
                signature: String::new(),
            },
            Block::text("Looking."),
        ]),
        bash("a", "seq"),
        ended(
            "a",
            "bash",
            &format!("{}needle\n{}exit code: 0", lines(5000), lines(5000)),
            false,
        ),
    ];
    events.extend((2..=40).map(|number| turn(number, "hay")));
    transcript_of(&events)
}

#[test]
fn matches_are_counted_and_visited() {
    let mut page = sample();
    visible_lines(&mut page, 40, 9);
    assert_eq!(page.search("n"), page.search("n"));
    assert_eq!(page.search("needle"), 3);
    assert_eq!(page.match_position(), Some((3, 3)), "the nearest above");
    let view = visible_lines(&mut page, 40, 9);
    assert_eq!(view[3], "  │ needle", "a closed call opens: {view:?}");
    assert!(!page.is_following());

    page.next_match(1);
    assert_eq!(page.match_position(), Some((1, 3)), "around");
    let view = visible_lines(&mut page, 40, 9);
    assert!(view.contains(&"> find the Needle".to_owned()));
    assert_eq!(view[7], "  │ line 4998", "closed again: {view:?}");
    page.next_match(1);
    assert!(visible_lines(&mut page, 40, 9).contains(&"  │ where is the needle".to_owned()));
    page.next_match(-1);
    assert_eq!(page.match_position(), Some((1, 3)));

    assert_eq!(page.search("Needle"), 1, "a capital letter is meant");
    assert_eq!(page.search("nowhere"), 0);
    assert_eq!(page.match_position(), None);
    assert_eq!(page.search("needle"), 3);
    page.clear_search();
    assert_eq!(page.match_position(), None);
    page.next_match(1);
}

#[test]
fn new_text_is_searched() {
    let mut page = transcript_of(&[turn(1, "needle")]);
    assert_eq!(page.search("needle"), 1);
    page.apply(&event(text("a nee")));
    visible_lines(&mut page, 40, 9);
    assert_eq!(page.match_position(), Some((1, 1)));
    page.apply(&event(text("dle and a needle")));
    visible_lines(&mut page, 40, 9);
    assert_eq!(page.match_position(), Some((1, 3)));
    page.apply(&event(reply("none")));
    page.next_match(1);
    assert_eq!(page.match_position(), Some((1, 1)));
}

#[test]
fn matches_stand_out() {
    let mut page = transcript_of(&[reply("the needle and the NEEDLE\n\nno more\n\nneedle")]);
    page.search("needle");
    let theme = Theme::new(ColourScheme::Plain);
    page.arrange(60, 10, &theme);
    let marked: Vec<Vec<String>> = page
        .visible()
        .iter()
        .map(|line| {
            let is_marked = |style: ratatui::style::Style| {
                style
                    .add_modifier
                    .contains(ratatui::style::Modifier::UNDERLINED)
                    || style
                        .add_modifier
                        .contains(ratatui::style::Modifier::REVERSED)
            };
            line.spans
                .iter()
                .filter(|span| is_marked(span.style))
                .map(|span| span.content.to_string())
                .collect()
        })
        .filter(|spans: &Vec<String>| !spans.is_empty())
        .collect();
    assert_eq!(marked, [vec!["needle", "NEEDLE"], vec!["needle"]]);
    assert_eq!(page.visible()[0].to_string(), "  the needle and the NEEDLE");
}

#[test]
fn a_match_in_long_markdown_is_brought_into_view() {
    let mut text: String = (0..500)
        .map(|number| format!("- *item* [{number}](http://example.com/{number})\n"))
        .collect();
    text.push_str("\nthe **needle**\n\n");
    text.push_str(&"more words\n\n".repeat(500));
    let mut page = transcript_of(&[reply(&text), turn(2, "hay")]);
    visible_lines(&mut page, 70, 12);
    assert_eq!(page.search("needle"), 1);
    let view = visible_lines(&mut page, 70, 12);
    assert!(view.iter().any(|line| line.contains("needle")), "{view:?}");
}
