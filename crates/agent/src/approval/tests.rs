//! Which rule counts.

#![allow(clippy::unwrap_used)]

use protocol::RuleAction::{Allow, Ask, Deny};

use super::*;

type RuleLine<'a> = (&'a str, Option<&'a str>, RuleAction);

#[track_caller]
fn check(
    rules: &[RuleLine<'_>],
    answers: &[RuleLine<'_>],
    call: (&str, Option<&str>),
    expect: &str,
) {
    let mut all = ToolRules::default();
    for (tool, argument, action) in rules {
        all.add(tool, *argument, *action);
    }
    for (tool, argument, action) in answers {
        all.answer(tool, *argument, *action);
    }
    let found = match all.decide(call.0, call.1) {
        ToolVerdict::Allow { rule: None } => "allow".to_owned(),
        ToolVerdict::Allow { rule: Some(rule) } => format!("allow by {rule}"),
        ToolVerdict::Ask { rule } => format!("ask by {rule}"),
        ToolVerdict::Deny { rule } => format!("deny by {rule}"),
    };
    assert_eq!(found, expect, "{rules:?} {answers:?} {call:?}");
}

const PUSH: (&str, Option<&str>) = ("bash", Some("git push origin main"));

#[test]
fn a_call_without_a_matching_rule_is_allowed() {
    check(&[], &[], PUSH, "allow");
    check(&[("write_file", None, Deny)], &[], PUSH, "allow");
    check(&[("bash", Some("git pull*"), Deny)], &[], PUSH, "allow");
    // A rule with an argument does not match calls without one.
    check(&[("bash", Some("*"), Deny)], &[], ("bash", None), "allow");
}

#[test]
fn a_rule_matches_a_tool_and_its_argument() {
    check(&[("bash", None, Deny)], &[], PUSH, "deny by bash");
    check(&[("*", None, Ask)], &[], PUSH, "ask by *");
    check(
        &[("bash", Some("git push*"), Ask)],
        &[],
        PUSH,
        "ask by bash git push*",
    );
    check(
        &[("*_file", Some("secrets/*"), Deny)],
        &[],
        ("edit_file", Some("secrets/key")),
        "deny by *_file secrets/*",
    );
}

#[test]
fn the_most_specific_rule_applies() {
    for rules in [
        [("bash", None, Deny), ("bash", Some("git push*"), Allow)],
        [("bash", Some("git push*"), Allow), ("bash", None, Deny)],
    ] {
        check(&rules, &[], PUSH, "allow by bash git push*");
        check(&rules, &[], ("bash", Some("ls")), "deny by bash");
    }
    check(
        &[
            ("bash", Some("git push*"), Allow),
            ("bash", Some("git push*main"), Deny),
        ],
        &[],
        PUSH,
        "deny by bash git push*main",
    );
    check(
        &[("*", None, Deny), ("bash", None, Allow)],
        &[],
        PUSH,
        "allow by bash",
    );
    // The argument weighs more than the tool name.
    check(
        &[("*", Some("git push*"), Deny), ("bash", None, Allow)],
        &[],
        PUSH,
        "deny by * git push*",
    );
    check(
        &[
            ("bash", Some("git push*"), Deny),
            ("bash", Some("git push"), Allow),
        ],
        &[],
        ("bash", Some("git push")),
        "allow by bash git push",
    );
}

#[test]
fn among_equally_specific_rules_the_strictest_applies() {
    for rules in [
        [
            ("bash", None, Allow),
            ("bash", None, Ask),
            ("bash", None, Deny),
        ],
        [
            ("bash", None, Deny),
            ("bash", None, Ask),
            ("bash", None, Allow),
        ],
    ] {
        check(&rules, &[], PUSH, "deny by bash");
        check(&rules[..2], &[], ("bash", None), {
            if rules[0].2 == Allow {
                "ask by bash"
            } else {
                "deny by bash"
            }
        });
    }
}

#[test]
fn answers_override_equally_specific_rules_but_not_more_specific_ones() {
    let exact = Some("git push origin main");
    check(
        &[("bash", Some("git push*"), Ask)],
        &[("bash", exact, Allow)],
        PUSH,
        "allow by bash git push origin main",
    );
    check(
        &[("bash", exact, Deny)],
        &[("bash", exact, Allow)],
        PUSH,
        "allow by bash git push origin main",
    );
    check(
        &[],
        &[("bash", exact, Allow), ("bash", exact, Deny)],
        PUSH,
        "deny by bash git push origin main",
    );
    check(
        &[("bash", exact, Deny)],
        &[("bash", Some("git *"), Allow)],
        PUSH,
        "deny by bash git push origin main",
    );
}

#[test]
fn rules_are_split_by_subject() {
    let host = |host: &str, action| ApprovalRule {
        subject: Subject::Host {
            host: host.to_owned(),
        },
        action,
    };
    let rules = [host("pypi.org", Allow), host("*.evil.com", Deny)];
    let approvals = Approvals::new(&rules, true).unwrap();
    let allowed = approvals.hosts.allowed();
    assert_eq!(allowed, ["pypi.org".parse().unwrap()]);
    let error = Approvals::new(&[host("https://pypi.org", Allow)], true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot allow `https://pypi.org`: write a host such as `example.com`, without scheme or \
         path"
    );
}
