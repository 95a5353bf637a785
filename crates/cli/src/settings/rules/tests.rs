//! Parsing the rules file and adding rules to it.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;

use super::*;

fn host(host: &str, action: RuleAction) -> ApprovalRule {
    ApprovalRule {
        subject: Subject::Host {
            host: host.to_owned(),
        },
        action,
    }
}

fn bash(argument: &str, action: RuleAction) -> ApprovalRule {
    ApprovalRule {
        subject: Subject::Tool {
            tool: "bash".to_owned(),
            argument: Some(argument.to_owned()),
        },
        action,
    }
}

fn rules(text: &str) -> Vec<ApprovalRule> {
    let placed = parse(text).unwrap();
    placed.into_iter().map(|placed| placed.rule).collect()
}

#[test]
fn rules_are_read_in_their_order() {
    let text = r#"
# The package index.
[[rule]]
host = "pypi.org"
action = "allow"

[[rule]]
tool = "bash"
argument = 'git push*'
action = "ask"

[[rule]]
tool = "write_file"
action = "deny"
"#;
    let tool = ApprovalRule {
        subject: Subject::Tool {
            tool: "write_file".to_owned(),
            argument: None,
        },
        action: RuleAction::Deny,
    };
    let expect = [
        host("pypi.org", RuleAction::Allow),
        bash("git push*", RuleAction::Ask),
        tool,
    ];
    assert_eq!(rules(text), expect);
    assert_eq!(rules(""), []);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let check = |text: &str, expect: &str| {
        let found = parse(text).map(|_| ()).unwrap_err();
        assert!(found.contains(expect), "{found}");
    };
    check(
        "[[rule]]\nhost = \"a.com\"\naction = \"alow\"\n",
        "line 3: unknown variant `alow`, expected one of `allow`, `ask`, `deny`",
    );
    check("[[rule]]\nhost = \"a.com\"\n", "missing field `action`");
    check(
        "\n[[rule]]\naction = \"deny\"\n",
        "line 2: it has neither a `host` nor a `tool`",
    );
    check(
        "[[rule]]\nhost = \"a.com\"\ntool = \"bash\"\naction = \"deny\"\n",
        "line 1: it has both a `host` and a `tool`",
    );
    check(
        "[[rule]]\nhost = \"a.com\"\nargument = \"x\"\naction = \"deny\"\n",
        "line 1: a host has no `argument`",
    );
    check(
        "[[rule]]\nhost = \"https://a.com\"\naction = \"deny\"\n",
        "line 1: cannot allow `https://a.com`: write a host",
    );
    check(
        "[[rule]]\nhosts = \"a.com\"\naction = \"deny\"\n",
        "line 2: unknown field `hosts`",
    );
    check("[[rules]]\n", "unknown field `rules`");
    check("[[rule\n", "line 1: ");
}

#[test]
fn a_rule_is_added_without_touching_the_rest() {
    let check = |text: &str, rule: &ApprovalRule, expect: Option<&str>| {
        assert_eq!(with_rule(text, rule).unwrap().as_deref(), expect, "{text}");
    };
    let first = "[[rule]]\nhost = \"a.com\"\naction = \"allow\"\n";
    let allow = host("a.com", RuleAction::Allow);
    check("", &allow, Some(first));
    check(first, &allow, None);
    check("# Mine.\n", &allow, Some(&format!("# Mine.\n\n{first}")));
    check("# Mine.", &allow, Some(&format!("# Mine.\n\n{first}")));
    // A rule about the same subject is changed in place: two rules would conflict.
    check(
        "[[rule]] # One.\naction = 'ask' # For now.\nhost = \"a.com\"\n# End.\n",
        &allow,
        Some("[[rule]] # One.\naction = \"allow\" # For now.\nhost = \"a.com\"\n# End.\n"),
    );
    check(
        "rule = [{ host = 'a.com', action = 'deny' }, { host = 'a.com', action = 'allow' }]",
        &allow,
        Some(
            "rule = [{ host = 'a.com', action = \"allow\" }, { host = 'a.com', action = \"allow\" }]",
        ),
    );
    // An inline array cannot be appended to, and is left unchanged.
    assert!(
        with_rule(
            "rule = [{ host = 'a.com', action = 'deny' }]",
            &host("b.com", RuleAction::Deny)
        )
        .is_err()
    );
}

/// A rule about any command reads back unchanged.
#[test]
fn any_text_is_kept_as_it_is() {
    let mut text = String::new();
    let commands = [
        "echo \"it's\" '''x''' \"\"\"y\"\"\"",
        "a\nb\r\n\tc\\d\\*",
        "\u{0}\u{1b}[31m\u{7f}\u{202e}",
        "]]\n[[rule]]\nhost = \"evil.com\"\naction = \"allow\"",
        "#",
        "",
    ];
    for command in commands {
        text = with_rule(&text, &bash(command, RuleAction::Allow))
            .unwrap()
            .unwrap();
    }
    let expect = commands.map(|command| bash(command, RuleAction::Allow));
    assert_eq!(rules(&text), expect);
}

#[test]
fn a_file_is_made_for_its_owner_alone_and_never_in_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    let path = folder.path().join("settings/hotcell/rules.toml");
    save_rule(&path, &workspace, &host("a.com", RuleAction::Allow)).unwrap();
    assert_eq!(
        read(&path, &workspace).unwrap(),
        [host("a.com", RuleAction::Allow)]
    );
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let inside = workspace.join("rules.toml");
    assert!(save_rule(&inside, &workspace, &host("a.com", RuleAction::Allow)).is_err());
    assert!(!inside.exists());
    fs::write(&inside, "").unwrap();
    assert!(read(&inside, &workspace).is_err());
    // Also when only a link leads there.
    let link = folder.path().join("link.toml");
    std::os::unix::fs::symlink(&inside, &link).unwrap();
    assert!(read(&link, &workspace).is_err());
    assert!(save_rule(&link, &workspace, &host("a.com", RuleAction::Allow)).is_err());
    assert_eq!(fs::read_to_string(&inside).unwrap(), "");
}

#[test]
fn a_broken_file_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    let path = folder.path().join("rules.toml");
    fs::write(&path, "[[rule\n").unwrap();
    assert!(save_rule(&path, &workspace, &host("a.com", RuleAction::Allow)).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "[[rule\n");
}

#[test]
fn those_who_remember_at_once_lose_nothing_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().join("workspace");
    let path = folder.path().join("rules.toml");
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (path, workspace) = (&path, &workspace);
            scope.spawn(move || {
                for number in 0..8 {
                    let name = format!("h{writer}-{number}.com");
                    save_rule(path, workspace, &host(&name, RuleAction::Allow)).unwrap();
                }
            });
        }
    });
    assert_eq!(read(&path, &workspace).unwrap().len(), 64);
    // Only the rules and the lock are left.
    let names = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["rules.toml", "rules.toml.lock"]);
}
