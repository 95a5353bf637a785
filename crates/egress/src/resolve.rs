//! Resolves a target to addresses that may be connected to.
//!
//! A name is resolved once, on the host, and only after a rule allowed it. Addresses that are not
//! permitted are dropped. The proxy connects to the returned addresses without resolving again, so a
//! later change of the DNS answer (DNS rebinding) has no effect.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use crate::address::AddressClass;
use crate::connection::DenialReason;
use crate::host::{ConnectTarget, Host};
use crate::host_addresses::is_own;
use crate::policy::EgressPolicy;
use crate::rules::EgressRule;

/// The future addresses of a name.
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names to addresses.
pub trait Resolver: Send + Sync {
    /// The addresses of `name`, best first.
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a>;
}

/// Uses the host's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Timeout for resolving a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The addresses at which `target`, which `rule` allows, may be reached; at least one.
pub(crate) async fn resolve(
    resolver: &dyn Resolver,
    policy: &EgressPolicy,
    rule: &EgressRule,
    target: &ConnectTarget,
) -> Result<Vec<SocketAddr>, DenialReason> {
    let name = match &target.host {
        // The rule or the approval is for this address.
        Host::Address(address) => return Ok(vec![SocketAddr::new(*address, target.port)]),
        Host::Name(name) => name,
    };
    let unresolved = |error: String| DenialReason::Unresolved {
        name: name.clone(),
        error,
    };
    let answers = match timeout(RESOLVE_TIMEOUT, resolver.resolve(name)).await {
        Ok(answers) => answers.map_err(|error| unresolved(error.to_string()))?,
        Err(_) => return Err(unresolved("no answer in time".into())),
    };
    filter_addresses(policy, rule, target.port, &answers, is_own).map_err(|refused| match refused {
        Some((address, class)) => DenialReason::NotPublic {
            name: name.clone(),
            class,
            address,
            port: target.port,
        },
        None => unresolved("the name has no address".into()),
    })
}

/// Filters the permitted addresses. If there are none, returns why the first was refused.
fn filter_addresses(
    policy: &EgressPolicy,
    rule: &EgressRule,
    port: u16,
    answers: &[IpAddr],
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<Vec<SocketAddr>, Option<(IpAddr, AddressClass)>> {
    let mut chosen = Vec::new();
    let mut refused = None;
    for &address in answers {
        let verdict = match policy.permit(rule, address, port) {
            // A public address may belong to the host, whose services are not part of the internet.
            Ok(AddressClass::Public) if is_own(address) && !policy.names(address, port) => {
                Err(AddressClass::Own)
            }
            verdict => verdict,
        };
        match verdict {
            Ok(_) => chosen.push(SocketAddr::new(address.to_canonical(), port)),
            Err(class) => {
                refused.get_or_insert((address, class));
            }
        }
    }
    if chosen.is_empty() {
        Err(refused)
    } else {
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::AllowList;

    #[test]
    fn only_permitted_answers_are_kept() {
        let check = |rules: &[&str], answers: &[&str], expect: Result<&[&str], &str>| {
            let policy = EgressPolicy::from(AllowList::parse(rules).unwrap());
            let rule = policy
                .find_allow_rule(&ConnectTarget::parse("a.com:443", None).unwrap())
                .unwrap();
            let answers: Vec<IpAddr> = answers.iter().map(|text| text.parse().unwrap()).collect();
            let own = |address: IpAddr| address.to_string() == "9.9.9.9";
            let chosen = filter_addresses(&policy, rule, 443, &answers, own);
            let chosen = chosen
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(|why| why.map_or("none".into(), |(ip, class)| format!("{class} {ip}")));
            let expect = expect
                .map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(ToOwned::to_owned);
            assert_eq!(chosen, expect);
        };
        let rule = &["a.com"];
        check(
            rule,
            &["8.8.8.8", "2606:4700::1"],
            Ok(&["8.8.8.8:443", "[2606:4700::1]:443"]),
        );
        check(rule, &["10.0.0.1", "8.8.8.8", "::1"], Ok(&["8.8.8.8:443"]));
        check(rule, &["::ffff:8.8.8.8"], Ok(&["8.8.8.8:443"]));
        check(rule, &["127.0.0.1", "10.0.0.1"], Err("loopback 127.0.0.1"));
        check(
            rule,
            &["::ffff:169.254.169.254"],
            Err("cloud metadata ::ffff:169.254.169.254"),
        );
        check(rule, &["9.9.9.9"], Err("host's own 9.9.9.9"));
        check(rule, &["9.9.9.9", "8.8.8.8"], Ok(&["8.8.8.8:443"]));
        check(&["a.com", "9.9.9.9"], &["9.9.9.9"], Ok(&["9.9.9.9:443"]));
        check(&["a.com", "10.0.0.1"], &["10.0.0.1"], Ok(&["10.0.0.1:443"]));
        check(rule, &[], Err("none"));
    }
}
