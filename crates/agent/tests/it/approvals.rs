//! Calls that a rule allows, denies or asks about.

use std::path::PathBuf;
use std::sync::Arc;

use agent::{Approvals, SessionSetup};
use audit::AuditLog;
use llm::script::ScriptedReply;
use protocol::{
    AgentCommand, ApprovalRule, Decision, EventKind, Outcome, Question, RuleAction, Scope, Subject,
};
use serde_json::json;

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{bash, calls, done, scripted};

pub(crate) const ONCE: Scope = Scope::Once;

fn tool_rule(tool: &str, argument: Option<&str>, action: RuleAction) -> ApprovalRule {
    ApprovalRule {
        subject: Subject::Tool {
            tool: tool.to_owned(),
            argument: argument.map(str::to_owned),
        },
        action,
    }
}

fn with_rules(rules: &[ApprovalRule], asks: bool) -> impl FnOnce(&mut SessionSetup) {
    let approvals = Approvals::new(rules, asks).unwrap();
    move |setup| setup.approvals = approvals
}

async fn start_prompt(
    world: &SessionFixture,
    rules: &[ApprovalRule],
    replies: Vec<ScriptedReply>,
) -> TestAgent {
    let agent = world
        .start_with(scripted(replies), with_rules(rules, true))
        .await;
    agent.send(AgentCommand::prompt("Begin.")).await;
    agent
}

impl TestAgent {
    /// The next question.
    pub(crate) async fn question(&mut self) -> Question {
        match self
            .until(|kind| matches!(kind, EventKind::Asked { .. }))
            .await
        {
            EventKind::Asked { question } => question,
            _ => unreachable!(),
        }
    }

    pub(crate) async fn decide(&self, number: u32, is_allowed: bool, scope: Scope) {
        self.send(AgentCommand::Decide {
            question: number,
            decision: Decision { is_allowed, scope },
        })
        .await;
    }

    pub(crate) async fn refusal(&mut self) -> String {
        match self
            .until(|kind| matches!(kind, EventKind::CommandRefused { .. }))
            .await
        {
            EventKind::CommandRefused { reason } => reason,
            _ => unreachable!(),
        }
    }

    /// How questions were decided, by number.
    pub(crate) fn decisions(&self) -> Vec<(u32, Option<bool>)> {
        let decided = self.kinds().filter_map(|kind| match kind {
            EventKind::Decided { question, decision } => {
                Some((question.number, decision.map(|one| one.is_allowed)))
            }
            _ => None,
        });
        decided.collect()
    }

    pub(crate) fn question_count(&self) -> usize {
        self.kinds()
            .filter(|kind| matches!(kind, EventKind::Asked { .. }))
            .count()
    }
}

/// An audit log next to the workspace.
pub(crate) fn open_audit_log(world: &SessionFixture) -> (PathBuf, Arc<AuditLog>) {
    let path = world.outside("audit.jsonl");
    let log = Arc::new(AuditLog::open(&path).unwrap());
    (path, log)
}

/// The approvals in the log: what, decision, scope and by whom.
pub(crate) fn recorded(path: &PathBuf) -> Vec<[String; 4]> {
    audit::verify(path).unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let event = &line["event"];
        (event["kind"] == "approval").then(|| {
            ["what", "decision", "scope", "by"]
                .map(|name| event[name].as_str().unwrap_or_default().to_owned())
        })
    });
    lines.collect()
}

#[test]
fn a_call_waits_for_its_answer() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let rules = [tool_rule("bash", Some("touch*"), RuleAction::Ask)];
        let replies = vec![
            bash("touch one"),
            bash("touch one two"),
            bash("touch one two"),
            bash("echo free"),
            done(),
        ];
        let mut agent = world
            .start_with(scripted(replies), |setup| {
                with_rules(&rules, true)(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;

        let question = agent.question().await;
        assert_eq!(question.number, 1);
        assert_eq!(question.what, "bash: touch one");
        assert_eq!(question.why, "rule `bash touch*` says to ask");
        assert!(!world.path("one").exists());
        agent.decide(1, true, ONCE).await;

        // Another command, and the same again: an answer for once is not reused.
        let question = agent.question().await;
        assert_eq!(question.number, 2);
        assert!(world.path("one").exists());
        agent.decide(2, false, ONCE).await;
        agent.question().await;
        agent.decide(3, false, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert!(!world.path("two").exists());

        let results = agent.results();
        assert_eq!(results.len(), 4);
        assert!(!results[0].1, "{results:?}");
        for (text, is_error) in &results[1..3] {
            assert!(is_error);
            assert_contains(text, "Denied by the person. Do not try it again");
        }
        assert_contains(&results[3].0, "free");
        let expect = [(1, Some(true)), (2, Some(false)), (3, Some(false))];
        assert_eq!(agent.decisions(), expect);
        agent.end().await;
        let person =
            |what: &str, decision: &str| [what, decision, "once", "person"].map(str::to_owned);
        assert_eq!(
            recorded(&log),
            [
                person("bash: touch one", "allowed"),
                person("bash: touch one two", "denied"),
                person("bash: touch one two", "denied"),
            ]
        );
    });
}

#[test]
fn an_answer_for_the_session_covers_exactly_that_call() {
    run_with_timeout(async {
        for scope in [Scope::Session, Scope::Always] {
            let world = SessionFixture::new().await;
            let rules = [tool_rule("bash", None, RuleAction::Ask)];
            let replies = vec![
                bash("echo *"),
                bash("echo *"),
                bash("echo anything"),
                bash("echo anything"),
                done(),
            ];
            let mut agent = start_prompt(&world, &rules, replies).await;
            let question = agent.question().await;
            let subject = Subject::Tool {
                tool: "bash".to_owned(),
                argument: Some(r"echo \*".to_owned()),
            };
            assert_eq!(question.subject, subject);
            agent.decide(1, true, scope).await;
            assert_eq!(agent.question().await.what, "bash: echo anything");
            agent.decide(2, false, scope).await;
            assert_eq!(agent.ended().await, Outcome::Done);
            assert_eq!(agent.question_count(), 2);
            let results = agent.results();
            let errors: Vec<bool> = results.iter().map(|(_, is_error)| *is_error).collect();
            assert_eq!(errors, [false, false, true, true]);
            assert_contains(&results[3].0, "Denied by rule `bash echo anything`");
            agent.end().await;
        }
    });
}

#[test]
fn a_denial_names_its_rule() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let rules = [
            tool_rule("bash", Some("rm *"), RuleAction::Deny),
            tool_rule("write_file", Some("generated/*"), RuleAction::Deny),
            tool_rule("write_file", Some("generated/mine"), RuleAction::Allow),
        ];
        let write = |path: &str| ("write_file", json!({"path": path, "content": "x"}));
        let replies = vec![
            bash("rm -rf /"),
            calls(&[
                write("generated/a"),
                write("/workspace/./generated/b"),
                write("generated/mine"),
            ]),
            done(),
        ];
        // No user is required for that.
        let mut agent = world
            .start_with(scripted(replies), |setup| {
                with_rules(&rules, false)(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        let results = agent.results();
        assert_contains(&results[0].0, "Denied by rule `bash rm *`");
        assert_contains(&results[1].0, "Denied by rule `write_file generated/*`");
        assert_contains(&results[2].0, "Denied by rule `write_file generated/*`");
        assert!(!results[3].1, "{results:?}");
        assert!(world.path("generated/mine").exists());
        assert!(!world.path("generated/a").exists());
        assert!(!world.path("generated/b").exists());
        assert_eq!(agent.question_count(), 0);
        agent.end().await;
        let recorded = recorded(&log);
        let line = |line: &[String; 4]| format!("{} {} {}", line[0], line[1], line[3]);
        let lines: Vec<String> = recorded.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "bash: rm -rf / denied rule `bash rm *`",
                "write_file: generated/a denied rule `write_file generated/*`",
                "write_file: generated/b denied rule `write_file generated/*`",
                "write_file: generated/mine allowed rule `write_file generated/mine`",
            ]
        );
    });
}

#[test]
fn text_typed_into_a_job_is_checked_against_the_rules_of_bash() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let rules = [
            tool_rule("bash", Some("touch evil*"), RuleAction::Deny),
            tool_rule("bash", Some("touch asked*"), RuleAction::Ask),
        ];
        let shell = ScriptedReply::call("bash", json!({"command": "sh", "background": true}));
        let write_to = |job: serde_json::Value, text: &str| {
            ScriptedReply::call(
                "bash_job",
                json!({"job": job, "action": "write", "text": text}),
            )
        };
        let write = |text: &str| write_to(json!(1), text);
        let replies = vec![
            shell,
            write("touch evil\n"),
            write("touch fine; echo\ntouch evil2\n"),
            // In pieces.
            write("touch e"),
            // The tool accepts the same number in other forms, such as 0.5, which it rounds up.
            write_to(json!(" 1 "), "vi"),
            write_to(json!(0.5), "l3\n"),
            write("cho; touch good\n"),
            write("touch asked\n"),
            ScriptedReply::call("bash_job", json!({"job": 1, "action": "kill"})),
            done(),
        ];
        let mut agent = world
            .start_with(scripted(replies), |setup| {
                with_rules(&rules, true)(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let question = agent.question().await;
        assert_eq!(question.what, "bash_job: touch asked");
        let subject = Subject::Tool {
            tool: "bash".to_owned(),
            argument: Some("touch asked".to_owned()),
        };
        assert_eq!(question.subject, subject);
        agent.decide(question.number, false, ONCE).await;
        agent
            .until(|kind| matches!(kind, EventKind::TurnEnded { .. }))
            .await;
        let results = agent.results();
        for denied in [1, 2, 5] {
            assert_contains(&results[denied].0, "Denied by rule `bash touch evil*`");
        }
        for allowed in [3, 4, 6] {
            assert!(!results[allowed].1, "{results:?}");
        }
        assert_contains(&results[7].0, "Denied by the person.");
        for name in ["evil", "evil2", "evil3", "fine", "asked"] {
            assert!(!world.path(name).exists(), "{name}");
        }
        agent.end().await;

        let text = std::fs::read_to_string(&log).unwrap();
        let events: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].clone())
            .collect();
        let typed = events.iter().filter(|event| event["kind"] == "input");
        let typed: Vec<&str> = typed.map(|event| event["text"].as_str().unwrap()).collect();
        assert_eq!(typed, ["touch e", "vi", "cho; touch good\n"]);
        assert!(events.iter().any(|event| event["kind"] == "signal"));
        let ends = events.iter().filter(|event| event["kind"] == "exec_end");
        assert_eq!(ends.count(), 1, "{events:?}");
    });
}

#[test]
fn ask_means_deny_without_a_user() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let rules = [tool_rule("bash", None, RuleAction::Ask)];
        let model = scripted(vec![bash("touch never"), done()]);
        let mut agent = world.start_with(model, with_rules(&rules, false)).await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        let results = agent.results();
        assert_contains(
            &results[0].0,
            "Denied: rule `bash` says to ask, and nobody can be asked here.",
        );
        assert!(!world.path("never").exists());
        assert_eq!(agent.question_count(), 0);
        agent.end().await;
    });
}

#[test]
fn several_questions_can_be_open_at_once() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        for name in ["one", "two", "three"] {
            world.write(name, &format!("content of {name}"));
        }
        let rules = [tool_rule("read_file", None, RuleAction::Ask)];
        let read = |path: &str| ("read_file", json!({"path": path}));
        let replies = vec![calls(&[read("one"), read("two"), read("three")]), done()];
        let mut agent = start_prompt(&world, &rules, replies).await;
        let mut asked = Vec::new();
        for _ in 0..3 {
            let question = agent.question().await;
            asked.push((question.number, question.what));
        }
        let whats = ["read_file: one", "read_file: two", "read_file: three"];
        let expect = whats
            .iter()
            .zip(1..)
            .map(|(what, number)| (number, (*what).to_owned()));
        assert_eq!(asked, expect.collect::<Vec<_>>());
        agent.decide(3, true, ONCE).await;
        agent.decide(1, false, ONCE).await;
        // An answered question is no longer open.
        agent.decide(3, false, ONCE).await;
        assert_eq!(agent.refusal().await, "question 3 is not open");
        agent.decide(2, true, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        let results = agent.results();
        for (text, is_error) in &results {
            if *is_error {
                assert_contains(text, "Denied by the person")
            } else {
                assert_contains(text, "content of t")
            }
        }
        assert_eq!(results.iter().filter(|(_, is_error)| *is_error).count(), 1);
        agent.end().await;
    });
}

/// An answer sent ahead cannot refer to a question that is not known yet.
#[test]
fn an_answer_before_its_question_is_refused() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let rules = [tool_rule("bash", None, RuleAction::Ask)];
        let model = scripted(vec![bash("touch never"), done()]);
        let mut agent = world.start_with(model, with_rules(&rules, true)).await;
        for number in [0, 1, 2, u32::MAX] {
            agent.decide(number, true, Scope::Always).await;
            let reason = agent.refusal().await;
            assert_eq!(reason, format!("question {number} is not open"));
        }
        agent.send(AgentCommand::prompt("Begin.")).await;
        assert_eq!(agent.question().await.number, 1);
        agent.decide(2, true, ONCE).await;
        assert_eq!(agent.refusal().await, "question 2 is not open");
        assert!(agent.decisions().is_empty());
        agent.decide(1, false, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert!(!world.path("never").exists());
        agent.end().await;
    });
}

#[test]
fn an_interrupt_withdraws_questions() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let rules = [tool_rule("bash", None, RuleAction::Ask)];
        let model = scripted(vec![bash("touch never"), done()]);
        let mut agent = world
            .start_with(model, |setup| {
                with_rules(&rules, true)(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        agent.question().await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        assert_eq!(agent.decisions(), [(1, None)]);
        assert_contains(&agent.results()[0].0, "interrupted");
        // It is too late for an answer.
        agent.decide(1, true, Scope::Always).await;
        assert_eq!(agent.refusal().await, "question 1 is not open");
        assert_eq!(agent.prompt("Go another way.").await, Outcome::Done);
        assert!(!world.path("never").exists());
        agent.end().await;
        let expect = ["bash: touch never", "unanswered", "", "person"].map(str::to_owned);
        assert_eq!(recorded(&log), [expect]);
    });
}

#[test]
fn closing_the_commands_withdraws_questions() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let rules = [tool_rule("bash", None, RuleAction::Ask)];
        let replies = vec![bash("touch never"), bash("touch never"), done()];
        let mut agent = start_prompt(&world, &rules, replies).await;
        agent.question().await;
        agent.close().await.unwrap();
        assert_eq!(agent.decisions(), [(1, None)]);
        assert_eq!(agent.question_count(), 1);
        let results = agent.results();
        assert_eq!(results.len(), 2);
        for (text, _) in &results {
            assert_contains(text, "nobody can be asked here");
        }
        assert!(!world.path("never").exists());
    });
}

/// A call whose approval cannot be recorded is not run, whatever the answer.
#[test]
fn an_answer_that_cannot_be_recorded_does_not_count() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let rules = [tool_rule("read_file", None, RuleAction::Ask)];
        world.write("secret", "a-secret");
        let read = ScriptedReply::call("read_file", json!({"path": "secret"}));
        let model = scripted(vec![read, done()]);
        let mut agent = world
            .start_with(model, |setup| {
                with_rules(&rules, true)(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        agent.question().await;
        std::fs::remove_file(&log).unwrap();
        agent.decide(1, true, ONCE).await;
        assert_eq!(
            agent.refusal().await,
            "cannot record an approval in the audit log"
        );
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_eq!(agent.decisions(), [(1, None)]);
        let results = agent.results();
        assert!(
            results[0].1 && !results[0].0.contains("a-secret"),
            "{results:?}"
        );
        agent.end().await;
    });
}

#[test]
fn denied_calls_are_not_replayed() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let rules = [
            tool_rule("bash", Some("touch*"), RuleAction::Deny),
            tool_rule("bash", Some("mkdir*"), RuleAction::Ask),
        ];
        let replies = vec![bash("touch a"), bash("mkdir b"), bash("ls"), done()];
        let mut agent = start_prompt(&world, &rules, replies).await;
        let question = agent.question().await;
        agent.decide(question.number, false, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        let stored = world.store.events(&world.session).await.unwrap();
        // An older release recorded neither questions nor denials.
        let mut older = stored.clone();
        for event in &mut older {
            if let EventKind::ToolEnded { denied, .. } = &mut event.kind {
                assert!(denied.take().is_some());
            }
        }
        older.retain(|event| {
            let kind = &event.kind;
            !matches!(kind, EventKind::Asked { .. } | EventKind::Decided { .. })
        });
        assert_eq!(older.len(), stored.len() - 2);
        for events in [stored, older] {
            let folder = tempfile::tempdir().unwrap();
            let spec = sandbox::SandboxSpec::new(folder.path());
            let mut replayed = Vec::new();
            let report = |one: agent::ReplayedCall| {
                replayed.push((one.summary, one.difference.is_none()));
            };
            let tools = tools::ToolSet::standard();
            agent::replay(&world.store, &world.session, &events, &tools, spec, report)
                .await
                .unwrap();
            assert_eq!(replayed, [("$ ls".to_owned(), true)]);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    });
}

#[test]
fn questions_and_answers_are_stored() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let rules = [tool_rule("bash", Some("touch*"), RuleAction::Ask)];
        let replies = vec![bash("touch one"), bash("touch two"), bash("touch three")];
        let mut agent = start_prompt(&world, &rules, replies).await;
        for is_allowed in [true, false] {
            let question = agent.question().await;
            agent.decide(question.number, is_allowed, ONCE).await;
        }
        agent.question().await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        agent.end().await;
        // The session can be resumed at once: its lock is released.
        let (_journal, stored) = world.store.claim(&world.session).await.unwrap();
        let kept = stored.iter().filter_map(|event| match &event.kind {
            EventKind::Asked { question } => Some((question.number, "asked")),
            EventKind::Decided { question, decision } => Some((
                question.number,
                match decision.map(|one| one.is_allowed) {
                    Some(true) => "allowed",
                    Some(false) => "denied",
                    None => "taken back",
                },
            )),
            _ => None,
        });
        assert_eq!(
            kept.collect::<Vec<_>>(),
            [
                (1, "asked"),
                (1, "allowed"),
                (2, "asked"),
                (2, "denied"),
                (3, "asked"),
                (3, "taken back"),
            ]
        );
        let places: Vec<_> = stored.iter().filter_map(|event| event.seq).collect();
        assert!(places.is_sorted_by(|one, next| one < next), "{places:?}");
    });
}
