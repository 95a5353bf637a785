//! The view keeps its position while the page changes.

use protocol::Outcome;

use super::{
    bash, ended, lines, printed, reply, started, text, transcript_of, turn_ended, visible_lines,
};
use crate::samples::{event, turn};
use crate::transcript::Transcript;

/// A page of numbered prompts, each of one line with an empty line between.
fn numbered(count: usize) -> Transcript {
    let events: Vec<_> = (1..=count)
        .map(|number| turn(number as u32, &format!("prompt {number}")))
        .collect();
    transcript_of(&events)
}

#[test]
fn the_end_is_followed_until_scrolled_up() {
    let mut page = numbered(100);
    assert_eq!(
        visible_lines(&mut page, 40, 3),
        ["> prompt 99", "", "> prompt 100"]
    );
    assert!(page.is_following());
    page.apply(&event(reply("New.")));
    assert_eq!(
        visible_lines(&mut page, 40, 3),
        ["> prompt 100", "", "  New."]
    );

    page.scroll(-2);
    assert_eq!(
        visible_lines(&mut page, 40, 3),
        ["> prompt 99", "", "> prompt 100"]
    );
    assert!(!page.is_following() && !page.has_new_below());
    page.apply(&event(reply("Newer.")));
    assert_eq!(
        visible_lines(&mut page, 40, 3),
        ["> prompt 99", "", "> prompt 100"]
    );
    assert!(page.has_new_below());

    page.scroll(1);
    visible_lines(&mut page, 40, 3);
    assert!(page.has_new_below());
    page.scroll(100);
    assert_eq!(visible_lines(&mut page, 40, 3), ["  New.", "", "  Newer."]);
    assert!(page.is_following() && !page.has_new_below());
}

#[test]
fn paging_and_jumping() {
    let mut page = numbered(100);
    visible_lines(&mut page, 40, 10);
    page.go_to_top();
    assert_eq!(
        visible_lines(&mut page, 40, 3),
        ["> prompt 1", "", "> prompt 2"]
    );
    assert_eq!(page.position().above, 0);
    visible_lines(&mut page, 40, 10);
    page.page(1);
    assert_eq!(visible_lines(&mut page, 40, 10)[0], "> prompt 5");
    page.page(-1);
    assert_eq!(visible_lines(&mut page, 40, 10)[0], "> prompt 1");
    page.page(-3);
    assert_eq!(visible_lines(&mut page, 40, 10)[0], "> prompt 1");
    page.go_to_end();
    assert_eq!(visible_lines(&mut page, 40, 10)[9], "> prompt 100");
    let position = page.position();
    assert_eq!(position.above + position.height, position.total);
}

#[test]
fn one_long_entry_is_scrolled_through_line_by_line() {
    let mut page = transcript_of(&[
        bash("a", "seq"),
        ended("a", "bash", &(lines(100_000) + "exit code: 0"), false),
    ]);
    page.toggle_all_calls();
    page.go_to_top();
    assert_eq!(
        visible_lines(&mut page, 40, 2),
        ["✓ $ seq · 2.3 s", "  │ line 1"]
    );
    page.scroll(50_000);
    assert_eq!(
        visible_lines(&mut page, 40, 2),
        ["  │ line 50000", "  │ line 50001"]
    );
    let position = page.position();
    assert!(
        (40..60).contains(&(position.above * 100 / position.total)),
        "{position:?}"
    );
    page.scroll(-49_999);
    assert_eq!(
        visible_lines(&mut page, 40, 2),
        ["  │ line 1", "  │ line 2"]
    );
    page.go_to_end();
    assert_eq!(
        visible_lines(&mut page, 40, 2),
        ["  │ line 100000", "  │ exit code: 0"]
    );
    // Every line is shown once.
    page.go_to_top();
    page.scroll(1);
    let mut next = 1;
    loop {
        for line in visible_lines(&mut page, 40, 1000) {
            let expect = match next {
                100_001 => "  │ exit code: 0".to_owned(),
                next => format!("  │ line {next}"),
            };
            // The last screen is a full one.
            if line == expect {
                next += 1;
            }
        }
        if page.is_following() {
            break;
        }
        page.scroll(1000);
    }
    assert_eq!(next, 100_002);
}

#[test]
fn a_line_without_end_is_cut_into_pieces() {
    let mut page = transcript_of(&[
        bash("a", "x"),
        ended("a", "bash", &"0123456789".repeat(10_000), false),
    ]);
    page.toggle_all_calls();
    page.go_to_top();
    let mut characters = 0;
    loop {
        characters += visible_lines(&mut page, 44, 10)
            .iter()
            .filter_map(|line| line.strip_prefix("  │ "))
            .map(str::len)
            .sum::<usize>();
        if page.is_following() {
            break;
        }
        page.scroll(10);
    }
    assert!(characters >= 100_000, "{characters}");
}

#[test]
fn a_resize_keeps_the_line() {
    let text: String = (0..2000).map(|number| format!("word{number} ")).collect();
    let mut page = transcript_of(&[turn(1, &text), turn(2, "after")]);
    page.go_to_top();
    visible_lines(&mut page, 80, 10);
    page.click(0);
    page.scroll(100);
    for width in [80, 40, 133, 20, 300, 80] {
        let before = visible_lines(&mut page, width, 10)[0].clone();
        let first = before.split_whitespace().next().unwrap().to_owned();
        for other in [31, 200] {
            let view = visible_lines(&mut page, other, 10).join(" ");
            let view = view.split_whitespace().collect::<Vec<_>>();
            assert!(
                view.contains(&first.as_str()),
                "{first} of {width} at {other}: {view:?}"
            );
            page.scroll(0);
        }
    }
}

#[test]
fn changes_above_do_not_move_the_view() {
    let mut events = vec![bash("a", "make"), started("a", "make")];
    events.extend((1..=50).map(|number| turn(number, &format!("prompt {number}"))));
    // The next turn cuts the call off, so this change is that of the background job.
    let mut page = transcript_of(&events);
    visible_lines(&mut page, 40, 10);
    page.scroll(-20);
    let before = visible_lines(&mut page, 40, 10);
    page.apply(&event(ended("a", "bash", &lines(50), false)));
    page.toggle_all_calls();
    page.toggle_thinking();
    assert_eq!(visible_lines(&mut page, 40, 10), before);
    page.toggle_all_calls();
    assert_eq!(visible_lines(&mut page, 40, 10), before);
    page.apply(&event(turn_ended(50, Outcome::Done)));
    page.apply(&event(printed("a", "more")));
    page.apply(&event(text("below")));
    assert_eq!(visible_lines(&mut page, 40, 10), before);
}

#[test]
fn every_size_is_drawn() {
    let mut page = transcript_of(&[
        turn(1, "héllo wörld 世界"),
        reply("# Hi\n\n- a\n- b"),
        bash("a", "x"),
    ]);
    page.select(-1);
    for width in [0, 1, 2, 3, 7, 8, 23, 24, 300] {
        for height in [0, 1, 2, 5, 100] {
            page.arrange(
                width,
                height,
                &crate::theme::Theme::new(crate::theme::ColourScheme::Dark),
            );
            assert!(page.visible().len() <= usize::from(height));
            for line in page.visible() {
                assert!(line.width() <= usize::from(width), "{width}: {line}");
            }
        }
    }
}
