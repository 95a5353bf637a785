//! Editing: movement, deletion, undo, pasted blocks, and wrapping.

use super::*;

fn check(script: &str, text: &str) {
    TestApp::new().keys(script).expect(&[], text);
}

#[test]
fn text_is_edited() {
    check("helo←l", "hello");
    check("abc⌫⌫", "a");
    check("abc<home><delete>", "bc");
    check("abc<ctrl-a>x<ctrl-e>y", "xabcy");
    check("one two<ctrl-←>x", "one xtwo");
    check("one two<alt-b><alt-b>x", "xone two");
    check("one two<ctrl-a><alt-f>x", "one xtwo");
    check("one two<ctrl-w>", "one ");
    check("one two<ctrl-a><alt-d>", " two");
    check("one two<ctrl-u>", "");
    check("one two<ctrl-a><ctrl-k>", "");
    check("one two<ctrl-w><ctrl-a><ctrl-y>", "twoone ");
    check("a<ctrl-j>b<ctrl-a>⌫", "ab");
    check("a<ctrl-j>b↑<end><delete>", "ab");
    check("a<ctrl-j>b↑<end><ctrl-k>", "ab");
    check("a<ctrl-j>b←←x", "ax\nb");
    check("a<ctrl-j>b<alt-<>x", "xa\nb");
    check("<alt-ä>", "ä");
    check("\u{1f469}\u{200d}\u{1f680}x←⌫", "x");
    check("e\u{301}⌫", "");
    check("ae\u{301}←x", "axe\u{301}");
}

#[test]
fn undo_works_by_words() {
    check("one two<ctrl-/>", "one ");
    check("one two<ctrl-/><ctrl-/>", "");
    check("one two<ctrl-/><alt-_>", "one two");
    check("one two<ctrl-w><ctrl-/>", "one two");
    check("one<ctrl-u>two<ctrl-/>", "");
    check("one<ctrl-u>two<ctrl-/><ctrl-/>", "one");
    check("<ctrl-/>", "");
}

#[test]
fn long_lines_are_wrapped_between_words() {
    fn check(width: u16, script: &str, rows: &[&str], cursor: (u16, u16)) {
        let mut test = TestApp::new();
        test.keys(script);
        test.app.editor.arrange(width, 10);
        assert_eq!(test.shown(), rows, "{script}");
        assert_eq!(test.app.editor.view().cursor, cursor, "{script}");
    }
    check(9, "", &[""], (0, 0));
    check(9, "one two", &["one two"], (7, 0));
    check(9, "one two three", &["one two ", "three"], (5, 1));
    check(9, "one two  three", &["one two ", "three"], (5, 1));
    check(9, "abcdefghijk", &["abcdefgh", "ijk"], (3, 1));
    check(9, "a abcdefghijk", &["a ", "abcdefgh", "ijk"], (3, 2));
    check(9, "abcdefgh", &["abcdefgh"], (8, 0));
    check(9, "abcdefgh ", &["abcdefgh"], (8, 0));
    check(9, "漢字漢字漢", &["漢字漢字", "漢"], (2, 1));
    check(9, "a<ctrl-j><ctrl-j>b", &["a", "", "b"], (1, 2));
    check(9, "one two three<ctrl-a>", &["one two ", "three"], (0, 0));
    check(9, "one two three←←←←←", &["one two ", "three"], (0, 1));
    check(1, "ab", &["a", "b"], (1, 1));
}

#[test]
fn up_and_down_move_by_screen_rows() {
    fn check(script: &str, text: &str) {
        let mut test = TestApp::new();
        test.input(AppInput::Resized {
            width: 11,
            height: 24,
        });
        test.keys(script).expect(&[], text);
    }
    // Eight columns are for text.
    check("one two three↑x", "one txwo three");
    check("one two three←↑↓x", "one two threxe");
    check("a<ctrl-j>bcd<ctrl-j>e↑x", "a\nbxcd\ne");
    check("abc<ctrl-j>d<ctrl-j>efg↑↑x", "abcx\nd\nefg");
}

#[test]
fn a_long_text_scrolls_with_the_cursor() {
    let mut test = TestApp::new();
    let lines: Vec<String> = (0..30).map(|line| line.to_string()).collect();
    test.keys(&lines.join("<ctrl-j>"));
    test.app.editor.arrange(20, 5);
    assert_eq!(test.shown(), ["25", "26", "27", "28", "29"]);
    test.app.editor.move_row(-1);
    test.app.editor.arrange(20, 5);
    assert_eq!(test.app.editor.view().cursor.1, 3);
    assert_eq!(
        (test.app.editor.view().above, test.app.editor.view().below),
        (25, 0)
    );
    for _ in 0..10 {
        test.app.editor.move_row(-1);
    }
    test.app.editor.arrange(20, 5);
    assert_eq!(test.shown()[0], "18");
}

#[test]
fn long_pastes_are_blocks_and_sent_in_full() {
    let block = "line\n".repeat(10_000);
    let mut test = TestApp::new();
    test.keys("see ")
        .paste(&block.replace('\n', "\r\n"))
        .keys(" ok");
    assert_eq!(test.shown(), ["see [pasted 10,000 lines] ok"]);
    test.paste(&"y".repeat(600));
    assert_eq!(
        test.shown()[0],
        "see [pasted 10,000 lines] ok[pasted #2: 600 characters]"
    );
    let full = format!("see {block} ok{}", "y".repeat(600));
    test.expect(&[], &full).keys("⏎");
    test.expect(&[&format!("say {full}")], "");
}

#[test]
fn short_pastes_are_text() {
    let mut test = TestApp::new();
    test.paste("a\r\nb\rc").expect(&[], "a\nb\nc");
    test.paste("\u{1b}[31mred\u{1b}[0m\u{7}");
    let text = test.app.editor.text();
    assert!(
        text.contains("red") && !text.contains(['\u{1b}', '\u{7}']),
        "{text:?}"
    );
}

#[test]
fn a_block_is_one_character_to_the_cursor() {
    fn check(script: &str, shown: &[&str]) {
        let mut test = TestApp::new();
        test.keys("a").paste(&"x\n".repeat(9)).keys(script);
        assert_eq!(test.shown(), shown, "{script}");
    }
    check("⌫", &["a"]);
    check("⌫<ctrl-/>", &["a[pasted 9 lines]"]);
    check("←b", &["ab[pasted 9 lines]"]);
    check("b", &["a[pasted 9 lines]b"]);
    check("<ctrl-u><ctrl-y>", &["a[pasted 9 lines]"]);
    check("⎋⎋", &[""]);
}

#[test]
fn a_small_block_opens_and_closes() {
    let block: String = (0..9).map(|line| format!("{line}\n")).collect();
    let mut test = TestApp::new();
    test.keys("a").paste(&block).keys("b←<ctrl-e>");
    assert_eq!(test.shown().last().unwrap(), "b");
    test.expect(&[], &format!("a{block}b")).keys("<ctrl-e>");
    assert_eq!(test.shown(), ["a[pasted 9 lines]b"]);
    test.expect(&[], &format!("a{block}b"))
        .keys("<ctrl-e>x<ctrl-e>");
    test.expect(&[], &format!("a{block}xb"));

    let mut test = TestApp::new();
    test.paste(&"x\n".repeat(2_001)).keys("<ctrl-e>");
    assert_eq!(test.shown(), ["[pasted 2,001 lines]"]);
}

#[test]
fn blocks_and_images_survive_the_external_editor() {
    let block = "x\n".repeat(9);
    let mut test = TestApp::new();
    test.paste(&block).keys(" and ").paste("/tmp/a.png");
    test.notice(attached("/tmp/a.png")).effects.clear();
    let Some(AppEffect::Edit(text)) = test
        .app
        .update(test.now, AppInput::Key(parse_key_name("ctrl-g").unwrap()))
        .pop()
    else {
        panic!("no effect");
    };
    test.input(AppInput::Edited(format!("first {text} last\n")));
    assert_eq!(
        test.shown(),
        ["first [pasted 9 lines] and [image: a.png 120 kB] last"]
    );
    test.input(AppInput::Edited("gone".to_owned())).keys("⏎");
    test.expect(&["say gone"], "");
}

#[test]
fn blocks_survive_the_queue_and_the_history() {
    let block = "x\n".repeat(9);
    let mut test = TestApp::busy();
    test.paste(&block).keys("⏎");
    assert_eq!(test.queued(), ["[pasted 9 lines]"]);
    test.event(ended(1, Outcome::Interrupted));
    assert_eq!(test.shown(), ["[pasted 9 lines]"]);
    test.keys("⌫↑");
    assert_eq!(test.shown(), ["[pasted 9 lines]"]);
    test.expect(&[], &block);
}
