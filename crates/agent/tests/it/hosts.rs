//! Connections to hosts that no rule names: the user is asked.

use std::net::IpAddr;
use std::sync::Arc;

use agent::{Approvals, SessionSetup};
use egress::{AllowList, EgressGate, ResolveFuture, Resolver};
use llm::script::ScriptedReply;
use protocol::{AgentCommand, ApprovalRule, EventKind, Outcome, RuleAction, Scope, Subject};
use sandbox::Network;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::approvals::{ONCE, open_audit_log, recorded};
use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{bash, done, scripted};

/// A web server that answers every request with the same text.
struct TextServer {
    port: u16,
    _tasks: JoinSet<()>,
}

async fn serve_text() -> TextServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                match client.read_u8().await {
                    Ok(byte) => request.push(byte),
                    Err(_) => break,
                }
            }
            let answer =
                "HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\nfrom the host\n";
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    TextServer {
        port,
        _tasks: tasks,
    }
}

/// Resolves every name to this machine.
struct LoopbackResolver;

impl Resolver for LoopbackResolver {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

impl TextServer {
    fn target(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }

    /// A network in which every public name resolves to this server. The rule for its address is
    /// required, because loopback is otherwise denied under any name.
    fn network(&self) -> Network {
        let allow = AllowList::parse([format!("127.0.0.1:{}", self.port)]).unwrap();
        Network::Gated(EgressGate::from(allow).with_resolver(Arc::new(LoopbackResolver)))
    }

    fn asking(&self, rules: &[ApprovalRule]) -> impl FnOnce(&mut SessionSetup) + use<> {
        let approvals = Approvals::new(rules, true).unwrap();
        let network = self.network();
        move |setup| {
            setup.approvals = approvals;
            setup.sandbox.network = network;
        }
    }

    /// A call that fetches a page through the proxy.
    fn fetch(&self, name: &str) -> ScriptedReply {
        bash(&self.script(name))
    }

    fn script(&self, name: &str) -> String {
        let target = self.target(name);
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; \
             printf 'GET http://{target}/ HTTP/1.1\\r\\nHost: {target}\\r\\nConnection: \
             close\\r\\n\\r\\n' >&3; cat <&3"
        )
    }
}

fn host_rule(host: &str, action: RuleAction) -> ApprovalRule {
    ApprovalRule {
        subject: Subject::Host {
            host: host.to_owned(),
        },
        action,
    }
}

fn networks(agent: &TestAgent) -> Vec<Vec<String>> {
    let changed = agent.kinds().filter_map(|kind| match kind {
        EventKind::NetworkChanged { network } => Some(network.clone()),
        _ => None,
    });
    changed.collect()
}

#[test]
fn a_connection_waits_for_its_answer() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let (log, audit) = open_audit_log(&world);
        let replies = vec![
            server.fetch("a.test"),
            server.fetch("a.test"),
            server.fetch("a.test"),
            done(),
            server.fetch("a.test"),
            done(),
        ];
        let asking = server.asking(&[]);
        let mut agent = world
            .start_with(scripted(replies), |setup| {
                asking(setup);
                setup.sandbox.audit = Some(audit);
            })
            .await;
        let ready = agent
            .until(|kind| matches!(kind, EventKind::Ready { .. }))
            .await;
        assert!(matches!(ready, EventKind::Ready { asks: true, .. }));
        agent.send(AgentCommand::prompt("Begin.")).await;

        let question = agent.question().await;
        let target = server.target("a.test");
        assert_eq!(question.what, format!("connect to {target}"));
        assert_eq!(question.why, "no rule names this host");
        let host = target.clone();
        assert_eq!(question.subject, Subject::Host { host });
        agent.decide(question.number, true, ONCE).await;

        // An answer for once holds once, but a denial holds for the turn, because programs retry at once.
        let question = agent.question().await;
        assert_contains(&agent.results()[0].0, "from the host");
        agent.decide(question.number, false, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_eq!(agent.question_count(), 2);
        for (text, _) in &agent.results()[1..] {
            assert_contains(
                text,
                &format!("`{target}` is not opened: the person said no"),
            );
        }
        assert!(networks(&agent).is_empty());

        agent.send(AgentCommand::prompt("Again.")).await;
        let question = agent.question().await;
        agent.decide(question.number, true, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_contains(&agent.results()[3].0, "from the host");
        agent.end().await;

        let what = format!("connect to {target}");
        let line = |decision: &str| [&what, decision, "once", "person"].map(str::to_owned);
        assert_eq!(
            recorded(&log),
            [line("allowed"), line("denied"), line("allowed")]
        );
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text.matches(r#""because":"the person, once""#).count(), 2);
        assert_eq!(text.matches("the person said no").count(), 2);
    });
}

#[test]
fn an_answer_for_the_session_becomes_a_rule() {
    run_with_timeout(async {
        let server = serve_text().await;
        for scope in [Scope::Session, Scope::Always] {
            let world = SessionFixture::new().await;
            let replies = vec![
                server.fetch("a.test"),
                server.fetch("a.test"),
                server.fetch("b.test"),
                server.fetch("b.test"),
                done(),
            ];
            let mut agent = world
                .start_with(scripted(replies), server.asking(&[]))
                .await;
            agent.send(AgentCommand::prompt("Begin.")).await;
            let question = agent.question().await;
            agent.decide(question.number, true, scope).await;
            let question = agent.question().await;
            assert_eq!(
                question.what,
                format!("connect to {}", server.target("b.test"))
            );
            agent.decide(question.number, false, scope).await;
            assert_eq!(agent.ended().await, Outcome::Done);
            assert_eq!(agent.question_count(), 2);
            let results = agent.results();
            for (text, _) in &results[..2] {
                assert_contains(text, "from the host");
            }
            assert_contains(&results[2].0, "the person said no");
            let denied = server.target("b.test");
            assert_contains(&results[3].0, &format!("rule `{denied}` denies `{denied}`"));
            let open = vec![server.target("127.0.0.1"), server.target("a.test")];
            assert_eq!(networks(&agent), [open]);
            agent.end().await;
        }
    });
}

#[test]
fn rules_apply_before_the_user_is_asked() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let rules = [
            host_rule(&format!("*.test:{}", server.port), RuleAction::Allow),
            host_rule(&server.target("no.test"), RuleAction::Deny),
            host_rule(&server.target("ask.test"), RuleAction::Ask),
        ];
        let replies = vec![
            server.fetch("any.test"),
            server.fetch("no.test"),
            server.fetch("ask.test"),
            done(),
        ];
        let mut agent = world
            .start_with(scripted(replies), server.asking(&rules))
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let question = agent.question().await;
        let asked = server.target("ask.test");
        assert_eq!(question.why, format!("rule `{asked}` says to ask"));
        agent.decide(question.number, true, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        let results = agent.results();
        assert_contains(&results[0].0, "from the host");
        assert_contains(&results[1].0, "denies");
        assert_contains(&results[2].0, "from the host");
        agent.end().await;
    });
}

#[test]
fn a_host_can_be_allowed_at_any_time() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let replies = vec![
            server.fetch("a.test"),
            done(),
            server.fetch("b.test"),
            done(),
        ];
        let mut agent = world
            .start_with(scripted(replies), server.asking(&[]))
            .await;
        let allow = |host: String| AgentCommand::AllowHost { host };
        for (host, expect) in [
            (
                "https://a.test/",
                "cannot allow `https://a.test/`: write a host such as `example.com`, without \
                 scheme or path",
            ),
            ("", "cannot allow ``: the host is empty"),
            (
                "a.*",
                "cannot allow `a.*`: a `*` can only stand for subdomains, as in `*.example.com`",
            ),
        ] {
            agent.send(allow(host.to_owned())).await;
            assert_eq!(agent.refusal().await, expect);
        }
        agent.send(allow(server.target("a.test"))).await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        assert_contains(&agent.results()[0].0, "from the host");
        assert_eq!(agent.question_count(), 0);

        // Questions about an allowed host need no answer.
        agent.send(AgentCommand::prompt("Next.")).await;
        let question = agent.question().await;
        agent.send(allow(server.target("b.test"))).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_contains(&agent.results()[1].0, "from the host");
        assert_eq!(agent.decisions(), [(question.number, Some(true))]);
        assert_eq!(networks(&agent).last().unwrap().len(), 3);
        agent.end().await;
    });
}

#[test]
fn a_sandbox_without_a_proxy_allows_no_host() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let mut agent = world.start(scripted(vec![done()])).await;
        let ready = agent
            .until(|kind| matches!(kind, EventKind::Ready { .. }))
            .await;
        assert!(matches!(ready, EventKind::Ready { asks: false, .. }));
        let host = "a.test".to_owned();
        agent.send(AgentCommand::AllowHost { host }).await;
        assert_contains(&agent.refusal().await, "no proxy");
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        agent.end().await;
    });
}

/// Configured rules apply also where nobody can be asked.
#[test]
fn allowed_hosts_work_without_a_user() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let rules = [
            host_rule(&server.target("localhost"), RuleAction::Allow),
            host_rule("ask.test", RuleAction::Ask),
        ];
        let fetch = |url: &str| {
            bash(&format!(
                "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://{url}/ HTTP/1.1\\r\\nHost: \
                 {url}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
            ))
        };
        let replies = vec![
            fetch(&server.target("localhost")),
            fetch("ask.test"),
            fetch("other.test"),
            done(),
        ];
        let approvals = Approvals::new(&rules, false).unwrap();
        let mut agent = world
            .start_with(scripted(replies), |setup| setup.approvals = approvals)
            .await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        let results = agent.results();
        assert_contains(&results[0].0, "from the host");
        assert_contains(&results[1].0, "nobody can be asked here");
        assert_contains(&results[2].0, "no rule allows `other.test:80`");
        assert_eq!(agent.question_count(), 0);
        let started = agent.kinds().find_map(|kind| match kind {
            EventKind::SandboxStarted { sandbox, .. } => Some(sandbox.network.clone()),
            _ => None,
        });
        assert_eq!(started.unwrap(), [server.target("localhost")]);
        agent.end().await;
    });
}

#[test]
fn an_interrupt_withdraws_questions_about_hosts() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let replies = vec![server.fetch("a.test"), server.fetch("a.test"), done()];
        let mut agent = world
            .start_with(scripted(replies), server.asking(&[]))
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let question = agent.question().await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        assert_eq!(agent.decisions(), [(question.number, None)]);
        agent.decide(question.number, true, Scope::Always).await;
        assert_contains(&agent.refusal().await, "is not open");
        // A withdrawn question is no answer: the next attempt asks again.
        agent.send(AgentCommand::prompt("Again.")).await;
        let question = agent.question().await;
        agent.decide(question.number, true, ONCE).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_contains(&agent.results().last().unwrap().0, "from the host");
        agent.end().await;
    });
}

#[test]
fn background_commands_can_ask_between_turns() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let script = format!(
            "until [ -e go ]; do sleep 0.02; done; ({}) > out; mv out answer",
            server.script("a.test")
        );
        let background =
            ScriptedReply::call("bash", json!({"command": script, "background": true}));
        let replies = vec![
            background,
            done(),
            bash("until [ -e answer ]; do sleep 0.02; done"),
            done(),
        ];
        let mut agent = world
            .start_with(scripted(replies), server.asking(&[]))
            .await;
        assert_eq!(agent.prompt("Begin.").await, Outcome::Done);
        world.write("go", "");
        let question = agent.question().await;
        agent.decide(question.number, true, ONCE).await;
        assert_eq!(agent.prompt("Wait for it.").await, Outcome::Done);
        assert_contains(&world.read("answer"), "from the host");
        agent.end().await;
    });
}

#[test]
fn a_session_can_end_with_open_questions() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        let script = format!("({}) > answer", server.script("a.test"));
        let background =
            ScriptedReply::call("bash", json!({"command": script, "background": true}));
        let mut agent = world
            .start_with(scripted(vec![background, done()]), server.asking(&[]))
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let question = agent.question().await;
        agent.close().await.unwrap();
        assert_eq!(agent.decisions(), [(question.number, None)]);
    });
}

#[test]
fn parallel_connections_to_a_host_share_a_question() {
    run_with_timeout(async {
        let server = serve_text().await;
        let world = SessionFixture::new().await;
        // Connections beyond the waiting limit are refused at once.
        let script = format!(
            "for number in $(seq 100); do ({}) > out.$number & done; wait; \
             grep -lE 'from the host|too many connections wait' out.* | wc -l; \
             grep -q 'from the host' out.* && echo reached",
            server.script("a.test")
        );
        let mut agent = world
            .start_with(scripted(vec![bash(&script), done()]), server.asking(&[]))
            .await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        let question = agent.question().await;
        agent.decide(question.number, true, Scope::Session).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_eq!(agent.question_count(), 1);
        assert_contains(&agent.results()[0].0, "100\nreached\n");
        agent.end().await;
    });
}
