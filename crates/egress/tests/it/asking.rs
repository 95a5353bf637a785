//! Hosts that no rule allows or denies, when approval can be requested.

use std::sync::Arc;

use egress::{
    ConnectTarget, EgressAction, EgressPolicy, EgressRule, HostApproval, HostApprovalFuture,
    HostApprover, SharedPolicy,
};
use tokio::sync::{mpsc, oneshot};

use crate::fixture::{ProxyClient, ProxyFixture, start_recording_server};

/// Forwards every question to the test.
struct ForwardingApprover(mpsc::UnboundedSender<ForwardedQuestion>);

struct ForwardedQuestion {
    target: String,
    rule: Option<String>,
    answer: oneshot::Sender<HostApproval>,
}

impl HostApprover for ForwardingApprover {
    fn ask(&self, target: &ConnectTarget, rule: Option<&EgressRule>) -> HostApprovalFuture {
        let (answer, answered) = oneshot::channel();
        let question = ForwardedQuestion {
            target: target.to_string(),
            rule: rule.map(ToString::to_string),
            answer,
        };
        self.0
            .send(question)
            .unwrap_or_else(|_| panic!("the test has ended"));
        Box::pin(async move { answered.await.unwrap() })
    }
}

type QuestionReceiver = mpsc::UnboundedReceiver<ForwardedQuestion>;

fn fixture_with_approver(rules: &[&str]) -> (ProxyFixture, QuestionReceiver) {
    let (world, questions, _) = fixture_with_policy(rules);
    (world, questions)
}

fn fixture_with_policy(rules: &[&str]) -> (ProxyFixture, QuestionReceiver, SharedPolicy) {
    let (sender, questions) = mpsc::unbounded_channel();
    let mut hosts = SharedPolicy::default();
    let world = ProxyFixture::with_gate(rules, |gate| {
        hosts = gate.hosts().clone();
        gate.with_approver(Arc::new(ForwardingApprover(sender)))
    });
    (world, questions, hosts)
}

/// `a.test` is the server at `port` and needs approval.
fn fixture_asking_about(port: u16) -> (ProxyFixture, QuestionReceiver) {
    // Without this rule no name could reach the loopback.
    let (world, questions) = fixture_with_approver(&[&format!("127.0.0.1:{port}")]);
    world.resolve("a.test", &[&["127.0.0.1"]]);
    (world, questions)
}

fn allowed() -> HostApproval {
    HostApproval::Allowed {
        because: "somebody".into(),
    }
}

fn denied() -> HostApproval {
    HostApproval::Denied {
        because: "somebody said no".into(),
    }
}

async fn connect(world: &ProxyFixture, target: &str) -> ProxyClient {
    let mut client = world.client();
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    client.send(head).await;
    client
}

#[tokio::test]
async fn an_answer_counts_for_those_who_wait_and_nobody_else() {
    let (port, _) = start_recording_server().await;
    let (world, mut questions) = fixture_asking_about(port);
    let target = format!("a.test:{port}");
    let get = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");

    for round in 1..=2 {
        let mut client = world.client();
        client.send(&get).await;
        let question = questions.recv().await.unwrap();
        assert_eq!(question.target, target);
        assert_eq!(question.rule, None);
        // The name must not be resolved before the answer.
        assert_eq!(world.asked().len(), round - 1);
        question.answer.send(allowed()).unwrap();
        assert_eq!(client.response().await.status, 200);
        client.finish().await;
    }
    assert_eq!(
        world.told(),
        vec![format!("{target} allowed by somebody"); 2]
    );

    world.forget();
    let mut client = world.client();
    client.send(&get).await;
    questions
        .recv()
        .await
        .unwrap()
        .answer
        .send(denied())
        .unwrap();
    let response = client.response().await;
    let reason = format!("`{target}` is not opened: somebody said no");
    assert_eq!(response.status, 403);
    assert_eq!(response.body, format!("hotcell: denied: {reason}\n"));
    client.finish().await;
    assert_eq!(world.told(), [format!("{target} denied: {reason}")]);
    assert_eq!(world.asked().len(), 2);
}

#[tokio::test]
async fn connections_to_one_target_share_a_question() {
    let (port, _) = start_recording_server().await;
    let (world, mut questions) = fixture_asking_about(port);
    let target = format!("a.test:{port}");
    let mut first = connect(&world, &target).await;
    let question = questions.recv().await.unwrap();
    let mut second = connect(&world, &target).await;
    let other = connect(&world, "b.test:443").await;
    // The second has joined by now, because the question about the other target came after it.
    assert_eq!(questions.recv().await.unwrap().target, "b.test:443");
    question.answer.send(allowed()).unwrap();
    assert_eq!(first.response().await.status, 200);
    assert_eq!(second.response().await.status, 200);
    assert!(questions.try_recv().is_err());
    for client in [first, second, other] {
        client.abandon().await;
    }
}

#[tokio::test]
async fn of_a_hundred_connections_no_more_than_a_bounded_number_wait() {
    let (world, mut questions) = fixture_with_approver(&[]);
    let mut clients = Vec::new();
    for _ in 0..32 {
        clients.push(connect(&world, "a.test:443").await);
    }
    let question = questions.recv().await.unwrap();
    // All slots are taken once the surplus connections are refused.
    let mut turned_away = 0;
    for _ in 0..68 {
        let mut client = connect(&world, "a.test:443").await;
        let response = client.response().await;
        assert_eq!(response.status, 403);
        assert!(
            response.body.contains("too many connections wait"),
            "{}",
            response.body
        );
        turned_away += 1;
        client.finish().await;
    }
    assert_eq!(turned_away, 68);
    question.answer.send(denied()).unwrap();
    for mut client in clients {
        let response = client.response().await;
        assert!(
            response.body.contains("somebody said no"),
            "{}",
            response.body
        );
        client.finish().await;
    }
    assert!(questions.try_recv().is_err(), "one question for all");
    assert_eq!(world.told().len(), 100);
    assert!(world.asked().is_empty());

    // The slots are free again.
    let mut client = connect(&world, "a.test:443").await;
    questions
        .recv()
        .await
        .unwrap()
        .answer
        .send(denied())
        .unwrap();
    assert_eq!(client.response().await.status, 403);
    client.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_is_a_no() {
    let (world, mut questions) = fixture_with_approver(&[]);
    let mut client = connect(&world, "a.test:443").await;
    let question = questions.recv().await.unwrap();
    let response = client.response().await;
    assert_eq!(response.status, 403);
    let reason = "`a.test:443` is not opened: nobody answered in time";
    assert_eq!(response.body, format!("hotcell: denied: {reason}\n"));
    // A later answer has no effect.
    assert!(question.answer.send(allowed()).is_err());
    client.finish().await;
    assert_eq!(world.told(), [format!("a.test:443 denied: {reason}")]);

    let mut client = connect(&world, "a.test:443").await;
    questions
        .recv()
        .await
        .unwrap()
        .answer
        .send(denied())
        .unwrap();
    assert_eq!(client.response().await.status, 403);
    client.finish().await;
}

#[tokio::test]
async fn when_all_who_wait_are_gone_nobody_is_asked_any_more() {
    let (world, mut questions) = fixture_with_approver(&[]);
    let first = connect(&world, "a.test:443").await;
    let mut question = questions.recv().await.unwrap();
    let second = connect(&world, "a.test:443").await;
    let other = connect(&world, "b.test:443").await;
    drop(questions.recv().await.unwrap());
    first.abandon().await;
    assert!(!question.answer.is_closed(), "one still waits");
    second.abandon().await;
    question.answer.closed().await;
    let given_up = "a.test:443 denied: the attempt to reach `a.test:443` was abandoned";
    let told = world.told();
    assert_eq!(told.iter().filter(|line| *line == given_up).count(), 2);

    // Later connections ask again.
    let mut client = connect(&world, "a.test:443").await;
    questions
        .recv()
        .await
        .unwrap()
        .answer
        .send(denied())
        .unwrap();
    assert_eq!(client.response().await.status, 403);
    client.finish().await;
    other.abandon().await;
}

#[tokio::test]
async fn what_is_not_public_is_refused_without_a_question() {
    let (world, mut questions) = fixture_with_approver(&[]);
    for target in [
        "127.0.0.1:80",
        "127.1:80",
        "2130706433:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
        "169.254.169.254:80",
        "0xa9fea9fe:80",
        "[fd00:ec2::254]:80",
        "10.0.0.1:443",
        "[64:ff9b::a00:1]:443",
        "0.0.0.0:80",
        "localhost:80",
        "db.localhost:80",
        "metadata.google.internal:80",
        "router.lan:80",
        "intranet:80",
    ] {
        let mut client = connect(&world, target).await;
        assert_eq!(client.response().await.status, 403, "{target}");
        client.finish().await;
    }
    // Ambiguous spellings are refused too.
    for target in ["a.com\0.b.com:80", "exa\u{301}mple.com:443", "a com:80"] {
        let mut client = connect(&world, target).await;
        assert_eq!(client.response().await.status, 400, "{target}");
        client.finish().await;
    }
    assert!(questions.try_recv().is_err());
    assert!(world.asked().is_empty());
}

#[tokio::test]
async fn what_is_asked_is_the_one_spelling_of_a_host() {
    let (world, mut questions) = fixture_with_approver(&[]);
    for (target, expect) in [
        ("PyPI.org.:443", "pypi.org:443"),
        ("xn--pyp-fma.org:443", "xn--pyp-fma.org:443"),
        ("134744072:443", "8.8.8.8:443"),
    ] {
        let mut client = connect(&world, target).await;
        let question = questions.recv().await.unwrap();
        assert_eq!(question.target, expect);
        question.answer.send(denied()).unwrap();
        assert_eq!(client.response().await.status, 403);
        client.finish().await;
    }
}

/// Approval of a name does not allow the private networks that it may resolve to.
#[tokio::test]
async fn an_answer_opens_no_private_address() {
    let (world, mut questions) = fixture_with_approver(&[]);
    for address in ["10.0.0.1", "127.0.0.1", "169.254.169.254"] {
        world.resolve("a.test", &[&[address]]);
        let mut client = connect(&world, "a.test:443").await;
        questions
            .recv()
            .await
            .unwrap()
            .answer
            .send(allowed())
            .unwrap();
        let response = client.response().await;
        assert_eq!(response.status, 403);
        assert!(response.body.contains(address), "{}", response.body);
        client.finish().await;
    }
}

#[tokio::test]
async fn rules_that_grow_count_from_the_next_connection_on() {
    let (port, _) = start_recording_server().await;
    let (world, mut questions, hosts) = fixture_with_policy(&[&format!("127.0.0.1:{port}")]);
    world.resolve("a.test", &[&["127.0.0.1"]]);
    let target = format!("a.test:{port}");
    hosts.answer(target.parse().unwrap(), EgressAction::Allow);
    let mut client = connect(&world, &target).await;
    assert_eq!(client.response().await.status, 200);
    client.abandon().await;
    assert_eq!(hosts.open(), [format!("127.0.0.1:{port}"), target.clone()]);

    hosts.answer(target.parse().unwrap(), EgressAction::Deny);
    let mut client = connect(&world, &target).await;
    let response = client.response().await;
    let reason = format!("hotcell: denied: rule `{target}` denies `{target}`\n");
    assert_eq!((response.status, response.body), (403, reason));
    client.finish().await;
    assert!(questions.try_recv().is_err());

    let mut rules = EgressPolicy::default();
    rules.add("*.b.test".parse().unwrap(), EgressAction::Ask);
    hosts.extend(&rules);
    let mut client = connect(&world, "x.b.test:443").await;
    let question = questions.recv().await.unwrap();
    assert_eq!(question.rule.as_deref(), Some("*.b.test"));
    question.answer.send(denied()).unwrap();
    assert_eq!(client.response().await.status, 403);
    client.finish().await;
}

#[tokio::test]
async fn where_nobody_can_be_asked_to_ask_is_to_deny() {
    let mut rules = EgressPolicy::default();
    rules.add("a.test".parse().unwrap(), EgressAction::Ask);
    let world = ProxyFixture::with_gate([""; 0], |_| SharedPolicy::from(rules).into());
    for (target, expect) in [
        (
            "a.test:443",
            "denied: `a.test:443` is not opened: rule `a.test` says to ask, and nobody can be \
             asked here",
        ),
        ("b.test:443", "denied: no rule allows `b.test:443`"),
    ] {
        let mut client = connect(&world, target).await;
        let response = client.response().await;
        assert_eq!(response.status, 403);
        assert!(response.body.contains(expect), "{}", response.body);
        client.finish().await;
    }
}
