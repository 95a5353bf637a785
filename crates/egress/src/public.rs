//! Resolves a host to its public addresses, for programs on the host that got the name from an
//! untrusted user, who must not reach the host's own network. Entry: [`public_addresses`].

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use crate::address::AddressClass;
use crate::connection::DenialReason;
use crate::host::{ConnectTarget, Host};
use crate::host_addresses::classify_on_host;
use crate::resolve::Resolver;

/// Timeout for resolving a name.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The public addresses of a target, at least one. Addresses of the host itself do not count as public.
/// The caller must connect to these addresses: resolving again may return others.
pub async fn public_addresses(
    resolver: &dyn Resolver,
    target: &ConnectTarget,
) -> Result<Vec<SocketAddr>, DenialReason> {
    let name = target.host.to_string();
    let unresolved = |error: String| DenialReason::Unresolved {
        name: name.clone(),
        error,
    };
    let answers = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => match timeout(RESOLVE_TIMEOUT, resolver.resolve(name)).await {
            Ok(answers) => answers.map_err(|error| unresolved(error.to_string()))?,
            Err(_) => return Err(unresolved("no answer in time".into())),
        },
    };
    let mut public = Vec::new();
    let mut refused = None;
    for address in answers {
        match classify_on_host(address) {
            AddressClass::Public => {
                public.push(SocketAddr::new(address.to_canonical(), target.port))
            }
            class => {
                refused.get_or_insert((address, class));
            }
        }
    }
    match (public.is_empty(), refused) {
        (false, _) => Ok(public),
        (true, Some((address, class))) => Err(DenialReason::NotPublic {
            name: name.clone(),
            class,
            address,
            port: target.port,
        }),
        (true, None) => Err(unresolved("the name has no address".into())),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::resolve::ResolveFuture;

    struct FixedResolver(Vec<IpAddr>);

    impl Resolver for FixedResolver {
        fn resolve<'a>(&'a self, _name: &'a str) -> ResolveFuture<'a> {
            Box::pin(async { Ok(self.0.clone()) })
        }
    }

    #[tokio::test]
    async fn only_public_addresses_are_given() {
        let check = async |target: &str, answers: &[&str], expect: Result<&str, &str>| {
            let answers = answers.iter().map(|text| text.parse().unwrap()).collect();
            let target = ConnectTarget::parse(target, None).unwrap();
            let found = public_addresses(&FixedResolver(answers), &target).await;
            let found = found.map(|all| {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                all.join(" ")
            });
            let found = found.map_err(|reason| reason.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expect, "{target}");
        };
        check("a.com:80", &["8.8.8.8", "10.0.0.1"], Ok("8.8.8.8:80")).await;
        check("a.com:80", &["::ffff:8.8.8.8"], Ok("8.8.8.8:80")).await;
        check("8.8.8.8:443", &[], Ok("8.8.8.8:443")).await;
        for (target, answers, expect) in [
            (
                "a.com:80",
                &["10.0.0.1"][..],
                "`a.com` resolves to the private address 10.0.0.1",
            ),
            (
                "localhost:80",
                &["127.0.0.1"],
                "`localhost` resolves to the loopback address 127.0.0.1",
            ),
            (
                "127.0.0.1:80",
                &[],
                "`127.0.0.1` resolves to the loopback address 127.0.0.1",
            ),
            (
                "2852039166:80",
                &[],
                "`169.254.169.254` resolves to the cloud metadata address 169.254.169.254",
            ),
            (
                "a.com:80",
                &["64:ff9b::7f00:1"],
                "`a.com` resolves to the loopback address 64:ff9b::7f00:1",
            ),
            (
                "a.com:80",
                &[],
                "cannot resolve `a.com`: the name has no address",
            ),
        ] {
            check(target, answers, Err(expect)).await;
        }
    }
}
