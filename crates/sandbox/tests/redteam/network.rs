//! Lines 55 to 68: first with the network off, then with one port of the host allowed.

use std::fs;
use std::net::IpAddr;

use egress::AllowList;
use sandbox::{Network, Sandbox, SandboxSpec};

use crate::attack::{Attack, AttackOutcome, CheckResult, DriverFuture, ExpectedEnd};
use crate::scene::{AttackFixture, HostSurroundings, finish, within};
use crate::suite::describe;

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::new(55, "dns"),
    Attack::new(56, "metadata"),
    Attack::new(60, "raw-sockets"),
    Attack::new(61, "icmp"),
    Attack::new(61, "protocols"),
    Attack::new(62, "host-abstract"),
    Attack::new(63, "service-sockets"),
    Attack::new(64, "vsock"),
    Attack::new(64, "families"),
    Attack::new(64, "netlink"),
    Attack::new(65, "host-tcp"),
    Attack::new(65, "host-udp"),
    Attack::new(65, "host-addresses"),
    Attack::new(60, "interfaces"),
    Attack::new(68, "sibling").drive(beside_a_sibling),
    Attack::new(66, "proxy-allowed")
        .tune(one_port)
        .expect(ExpectedEnd::Driven)
        .outside(it_got_through),
    Attack::new(56, "proxy-metadata")
        .tune(one_port)
        .outside(every_attempt_is_on_record),
    Attack::new(65, "proxy-others")
        .tune(one_port)
        .outside(every_attempt_is_on_record),
    Attack::new(57, "proxy-rebinding")
        .tune(one_name)
        .drive(rebinding)
        .outside(every_attempt_is_on_record),
    Attack::new(58, "proxy-mismatch")
        .tune(one_port)
        .outside(nothing_evil_was_asked),
    Attack::new(59, "proxy-injection")
        .tune(one_port)
        .outside(nothing_evil_was_asked),
    Attack::new(104, "proxy-flood")
        .tune(one_port)
        .outside(the_log_stays_small),
    Attack::new(67, "proxy-unset").tune(one_port),
    Attack::new(67, "proxy-idle").tune(one_port),
    Attack::new(68, "proxy-others")
        .tune(one_port)
        .drive(beside_a_sibling),
    Attack::new(65, "host-addresses").tune(one_port),
    Attack::new(55, "dns").tune(one_port),
];

fn one_port(spec: &mut SandboxSpec, props: &HostSurroundings) {
    let rule = format!("127.0.0.1:{}", props.allowed.port);
    spec.network = Network::Allow(AllowList::parse([rule]).expect("a plain rule"));
}

fn one_name(spec: &mut SandboxSpec, props: &HostSurroundings) {
    let rule = format!("{}:{}", local_name(), props.tcp_port());
    spec.network = Network::Allow(AllowList::parse([rule]).expect("a plain rule"));
}

/// A name that resolves to this machine without a name server: one from the hosts file, other than
/// `localhost`, which a rule may allow.
fn local_name() -> String {
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let mut names = hosts.lines().flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
        let is_local = address.is_some_and(|address| address.is_loopback());
        words.filter(move |_| is_local)
    });
    let usable = names.find(|name| *name != "localhost");
    // Without one the proxy finds nothing, which is a valid answer too.
    usable.unwrap_or("no-such-name.invalid").to_owned()
}

fn rebinding(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        Ok(scene
            .run("proxy-rebinding", &[("name", local_name())])
            .await)
    })
}

/// The victim listens in another sandbox, and must receive nothing.
fn beside_a_sibling(scene: &AttackFixture) -> DriverFuture<'_> {
    Box::pin(async move {
        let victim = AttackFixture::set(scene.backend, Attack::new(68, "listen")).await?;
        let outcome = attack_sibling(scene, &victim).await;
        let mut victim = victim;
        victim.strike().await?;
        outcome
    })
}

async fn attack_sibling(
    scene: &AttackFixture,
    victim: &AttackFixture,
) -> CheckResult<AttackOutcome> {
    let sandbox: &Sandbox = victim.sandbox();
    let (listening, said) = victim.start("listen", &[], "\n").await?;
    let port = said
        .lines("PORT ")
        .pop()
        .ok_or("the victim does not listen")?;
    let more = [
        ("sibling-tcp", port.clone()),
        ("sibling-abstract", victim.props.marker.clone()),
    ];
    let outcome = scene.run(scene.attack.name, &more).await;
    // The victim can be reached through its own handle.
    let number = port.parse().map_err(|_| format!("the port {port}"))?;
    within("connect to the victim", sandbox.connect(number)).await?;
    let heard = finish(listening, said).await?;
    if heard.lines("HIT").len() == 1 {
        Ok(outcome)
    } else {
        Err(format!(
            "the victim heard somebody else: {}",
            describe(&heard)
        ))
    }
}

fn it_got_through(scene: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    if outcome.lines("ALLOWED ") != ["200", "200", "200"] {
        return Err(format!("the allowed way is closed: {}", describe(outcome)));
    }
    let asked = scene.props.allowed.asked();
    if !asked.contains("/plain") || !asked.contains("/tunnelled") {
        return Err(format!("the allowed server heard {asked:?}"));
    }
    // The second repeats the first, which is only counted for a while.
    match scene.props.log().matches("\"verdict\":\"allowed\"").count() {
        1 => Ok(()),
        count => Err(format!(
            "{count} lines for the allowed connections instead of 1"
        )),
    }
}

/// Refusals are recorded, repeats folded, and there is no success.
fn every_attempt_is_on_record(scene: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    let log = scene.props.log();
    let denied = log.matches("\"verdict\":\"denied\"").count();
    let refused = outcome.lines("HELD 403").len();
    if log.contains("\"verdict\":\"allowed\"") {
        return Err("a connection was allowed".into());
    }
    if denied > 0 {
        Ok(())
    } else {
        Err(format!("none of {refused} refusals is on record"))
    }
}

/// Whatever a program inside tries, and however often, the host's log stays small.
fn the_log_stays_small(scene: &AttackFixture, outcome: &AttackOutcome) -> CheckResult {
    if outcome.lines("HELD flood").len() != 1 {
        return Err(format!("the flood did not end: {}", describe(outcome)));
    }
    let log = scene.props.log();
    let lines = log.matches("\"kind\":\"connection\"").count();
    // At most this many lines are written per folding window; there may be a few windows.
    if (1..1000).contains(&lines) && log.len() < 2 << 20 {
        Ok(())
    } else {
        Err(format!("{lines} lines, {} bytes in the log", log.len()))
    }
}

fn nothing_evil_was_asked(scene: &AttackFixture, _: &AttackOutcome) -> CheckResult {
    let asked = scene.props.allowed.asked();
    if asked.contains("evil") {
        Err(format!("the allowed server heard {asked:?}"))
    } else {
        Ok(())
    }
}
