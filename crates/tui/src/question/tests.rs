//! Tests which keys answer a question.

#![allow(clippy::unwrap_used)]

use crossterm::event::KeyModifiers;
use protocol::Subject;

use super::*;
use crate::question::panel::PanelContext;
use crate::theme::{ColourScheme, Theme};

/// An event of a script, with milliseconds since the start.
#[derive(Debug, Clone, Copy)]
enum ScriptEvent {
    Asked(u32),
    Decided(u32),
    /// Laid out for this many lines and drawn, with no key left unread.
    Shown,
    /// Drawn, but there are unread keys.
    Drawn,
    Key(char),
    AltKey(char),
    Enter,
    Esc,
    Paste,
    Resized,
    Hidden,
    Cut,
    Time,
}

use ScriptEvent::*;

fn question(number: u32) -> Question {
    Question {
        number,
        what: format!("connect to host{number}.example:443"),
        why: "no rule names this host".into(),
        subject: Subject::Host {
            host: format!("host{number}.example"),
        },
    }
}

/// The answers, and the text typed into the editor.
fn run_script(script: &[(u64, ScriptEvent)], mut typed: String) -> (Vec<(u32, char)>, String) {
    let mut questions = OpenQuestions::default();
    let mut fit = QuestionFit::Whole;
    let mut answers = Vec::new();
    for (millis, happens) in script {
        let now = Duration::from_millis(*millis);
        let mut answer = |command: Option<AgentCommand>| {
            if let Some(AgentCommand::Decide { question, decision }) = command {
                let choice = ANSWER_KEYS
                    .iter()
                    .find(|(_, is_allowed, scope)| {
                        *is_allowed == decision.is_allowed && *scope == decision.scope
                    })
                    .unwrap();
                answers.push((question, choice.0));
            }
        };
        let mut key = |questions: &mut OpenQuestions, key: KeyEvent| {
            let character = |key: KeyEvent| match key.code {
                KeyCode::Char(character) => character,
                _ => '·',
            };
            match questions.key(now, key, typed.is_empty()) {
                KeyOutcome::Yes => {}
                KeyOutcome::No => typed.push(character(key)),
                KeyOutcome::NorBefore(before) => typed.extend([character(before), character(key)]),
            }
        };
        match happens {
            Asked(number) => questions.ask(question(*number)),
            Decided(number) => questions.settle(*number),
            Shown => {
                questions.fits(fit);
                answer(questions.shown(now));
            }
            Drawn => questions.fits(fit),
            Key(character) => key(&mut questions, KeyEvent::from(KeyCode::Char(*character))),
            AltKey(character) => key(
                &mut questions,
                KeyEvent::new(KeyCode::Char(*character), KeyModifiers::ALT),
            ),
            Enter => key(&mut questions, KeyEvent::from(KeyCode::Enter)),
            Esc => key(&mut questions, KeyEvent::from(KeyCode::Esc)),
            Paste => {
                if let Some(before) = questions.handle_paste(now) {
                    typed.push(match before.code {
                        KeyCode::Char(character) => character,
                        _ => '·',
                    });
                }
                typed.push_str("[pasted]");
            }
            Resized => questions.resized(),
            Hidden => fit = QuestionFit::Hidden,
            Cut => fit = QuestionFit::Cut,
            Time => answer(questions.release(now)),
        }
    }
    (answers, typed)
}

#[track_caller]
fn check(script: &[(u64, ScriptEvent)], answers: &[(u32, char)], typed: &str) {
    let expect = (answers.to_vec(), typed.to_owned());
    assert_eq!(run_script(script, String::new()), expect);
}

#[test]
fn every_answer_key_gives_its_answer() {
    for (character, ..) in ANSWER_KEYS {
        let script = [
            (0, Asked(7)),
            (0, Shown),
            (500, Key(character)),
            (750, Time),
        ];
        check(&script, &[(7, character)], "");
    }
    check(
        &[(0, Asked(7)), (0, Shown), (500, Key('x')), (900, Time)],
        &[],
        "x",
    );
}

#[test]
fn a_key_from_before_the_question_is_no_answer() {
    // Typed before it was asked, in the middle of a word.
    check(
        &[(0, Key('y')), (10, Asked(1)), (20, Shown), (600, Time)],
        &[],
        "y",
    );
    // Asked, not yet drawn.
    check(&[(0, Asked(1)), (900, Key('y')), (2000, Time)], &[], "y");
    // Drawn, but the key was already in the terminal's buffer.
    check(
        &[(0, Asked(1)), (0, Drawn), (900, Key('y')), (2000, Time)],
        &[],
        "y",
    );
    // In the same read as the question, one after the other.
    check(
        &[
            (0, Asked(1)),
            (0, Key('y')),
            (0, Key('y')),
            (0, Enter),
            (1, Shown),
            (300, Time),
        ],
        &[],
        "yy·",
    );
}

#[test]
fn keys_while_typing_are_no_answers() {
    let begin = [(1000, Asked(1)), (1000, Shown)];
    let with = |rest: &[(u64, ScriptEvent)]| [&begin[..], rest].concat();
    // When it appears, just before a key may count, and when it does.
    check(&with(&[(1000, Key('y')), (2000, Time)]), &[], "y");
    check(&with(&[(1399, Key('y')), (2000, Time)]), &[], "y");
    check(&with(&[(1400, Key('y')), (1650, Time)]), &[(1, 'y')], "");
    // Each key restarts the quiet period.
    check(
        &with(&[
            (1200, Key('x')),
            (1500, AltKey('y')),
            (1899, AltKey('y')),
            (2400, Time),
        ]),
        &[],
        "xyy",
    );
    // With text in the editor a plain letter never answers, however long the wait.
    check(
        &with(&[(1200, Key('x')), (9000, Key('y')), (9900, Time)]),
        &[],
        "xy",
    );
    check(
        &with(&[(1200, Key('x')), (9000, AltKey('y')), (9250, Shown)]),
        &[(1, 'y')],
        "x",
    );
}

#[test]
fn the_first_character_of_a_sentence_is_no_answer() {
    let begin = [(0, Asked(1)), (0, Shown)];
    let with = |rest: &[(u64, ScriptEvent)]| [&begin[..], rest].concat();
    check(
        &with(&[
            (1000, Key('a')),
            (1100, Shown),
            (1200, Key('l')),
            (1300, Key('s')),
            (1400, Key('o')),
            (3000, Time),
        ]),
        &[],
        "also",
    );
    // The hold time has passed, but the next key is read before the time input.
    check(
        &with(&[(1000, Key('a')), (1300, Key('l')), (2000, Time)]),
        &[],
        "al",
    );
    // Esc to interrupt, with a word right after it: the bytes equal Alt with its first letter.
    check(
        &with(&[(1000, AltKey('y')), (1100, Key('o')), (2000, Time)]),
        &[],
        "yo",
    );
    // Not too early.
    check(&with(&[(1000, Key('y')), (1249, Time)]), &[], "");
    // With a final Enter, as some users confirm.
    check(
        &with(&[(1000, Key('y')), (1100, Enter), (1250, Time)]),
        &[(1, 'y')],
        "",
    );
    // An interrupt is not an answer.
    check(
        &with(&[(1000, Key('y')), (1100, Esc), (2000, Time)]),
        &[],
        "y·",
    );
}

#[test]
fn pasted_text_never_answers() {
    let begin = [(0, Asked(1)), (0, Shown)];
    let with = |rest: &[(u64, ScriptEvent)]| [&begin[..], rest].concat();
    check(&with(&[(1000, Paste), (2000, Time)]), &[], "[pasted]");
    check(
        &with(&[(1000, Key('y')), (1001, Paste), (2000, Time)]),
        &[],
        "y[pasted]",
    );
}

#[test]
fn an_answer_applies_to_one_question() {
    let script = [
        (0, Asked(1)),
        (0, Asked(2)),
        (0, Shown),
        (500, Key('y')),
        (750, Time),
        // The second question is not on the screen yet; then it is, but a key was just typed.
        (1000, Key('n')),
        (1001, Shown),
        (1002, Key('n')),
        (2000, Time),
    ];
    check(&script, &[(1, 'y')], "nn");
    let script = [
        (0, Asked(1)),
        (0, Asked(2)),
        (0, Shown),
        (500, Key('y')),
        (750, Time),
        (751, Shown),
        (1200, Key('n')),
        (1450, Shown),
    ];
    check(&script, &[(1, 'y'), (2, 'n')], "");
}

#[test]
fn a_question_decided_elsewhere_drops_its_keys() {
    // The letter was for a question that has been removed: it must not answer the next.
    let script = [
        (0, Asked(1)),
        (0, Asked(2)),
        (0, Shown),
        (500, Key('y')),
        (600, Decided(1)),
        (601, Shown),
        (900, Time),
    ];
    check(&script, &[], "");
    // A question behind it changes nothing.
    let script = [
        (0, Asked(1)),
        (0, Asked(2)),
        (0, Shown),
        (500, Key('y')),
        (600, Decided(2)),
        (900, Time),
    ];
    check(&script, &[(1, 'y')], "");
    // The same question sent twice is one question.
    let script = [
        (0, Asked(1)),
        (0, Asked(1)),
        (0, Shown),
        (500, Key('y')),
        (750, Time),
        (760, Shown),
        (9000, Key('y')),
        (9900, Time),
    ];
    check(&script, &[(1, 'y')], "y");
}

#[test]
fn a_question_that_does_not_fit_cannot_be_granted() {
    // The question does not fit on the screen at all.
    let script = [
        (0, Hidden),
        (0, Asked(1)),
        (0, Shown),
        (900, Key('y')),
        (1200, Time),
    ];
    check(&script, &[], "y");
    // Only a part fits: it can still be refused.
    let script = [
        (0, Cut),
        (0, Asked(1)),
        (0, Shown),
        (900, Key('y')),
        (1200, Time),
    ];
    check(&script, &[], "y");
    let script = [
        (0, Cut),
        (0, Asked(1)),
        (0, Shown),
        (900, Key('n')),
        (1200, Time),
    ];
    check(&script, &[(1, 'n')], "");
    // After a resize the question has to be drawn again.
    let script = [
        (0, Asked(1)),
        (0, Shown),
        (500, Resized),
        (501, Key('y')),
        (2000, Time),
    ];
    check(&script, &[], "y");
}

#[test]
fn it_wakes_when_keys_count_and_when_a_held_key_is_released() {
    let millis = Duration::from_millis;
    let mut questions = OpenQuestions::default();
    assert_eq!(questions.wakes_at(millis(0)), None);
    questions.ask(question(1));
    assert_eq!(questions.wakes_at(millis(0)), None, "not shown");
    questions.fits(QuestionFit::Whole);
    assert_eq!(questions.shown(millis(100)), None);
    assert_eq!(questions.wakes_at(millis(100)), Some(millis(500)));
    assert_eq!(questions.wakes_at(millis(500)), None, "it waits for ever");
    let key = KeyEvent::from(KeyCode::Char('y'));
    assert_eq!(questions.key(millis(600), key, true), KeyOutcome::Yes);
    assert_eq!(questions.wakes_at(millis(600)), Some(millis(850)));
    assert!(questions.release(millis(850)).is_some());
    assert_eq!(questions.wakes_at(millis(850)), None);
}

fn panel(
    questions: &mut OpenQuestions,
    millis: u64,
    width: u16,
    height: u16,
) -> (String, QuestionFit) {
    let theme = Theme::new(ColourScheme::Plain);
    let setting = PanelContext {
        now: Duration::from_millis(millis),
        is_free: true,
        width,
        height,
        theme: &theme,
    };
    let fit = questions.panel(setting).fit;
    questions.fits(fit);
    let panel = questions.panel(setting);
    assert!(panel.lines.len() <= usize::from(height));
    let lines: Vec<String> = panel.lines.iter().map(ToString::to_string).collect();
    (lines.join("\n"), panel.fit)
}

#[test]
fn the_panel_says_what_each_answer_covers() {
    let mut questions = OpenQuestions::default();
    questions.ask(question(1));
    questions.ask(question(2));
    let (text, fit) = panel(&mut questions, 0, 60, 20);
    assert_eq!(fit, QuestionFit::Whole);
    for words in [
        "question 1 of 2",
        "connect to host1.example:443",
        "no rule names this host",
        "y once",
        "s this session: host1.example",
        "a always: host1.example (rule)",
        "n no",
        "d never: host1.example (rule)",
        "until you pause",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    questions.settle(1);
    let (text, _) = panel(&mut questions, 0, 60, 20);
    assert!(text.contains("question 2 of 2"), "{text}");
}

#[test]
fn a_long_question_shows_both_ends() {
    let mut questions = OpenQuestions::default();
    let mut long = question(1);
    long.what = format!("run first {} last", "x".repeat(2_000));
    questions.ask(long);
    let (text, fit) = panel(&mut questions, 0, 60, 14);
    assert_eq!(fit, QuestionFit::Cut);
    for words in [
        "run first",
        "are left out",
        "no rule names",
        "make the window larger",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(panel(&mut questions, 0, 60, 3).1, QuestionFit::Hidden);
    assert_eq!(panel(&mut questions, 0, 60, 100).1, QuestionFit::Whole);
}
