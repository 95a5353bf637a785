//! Relays the traffic of a `CONNECT` tunnel.
//!
//! The server's bytes are relayed at once. The client's bytes are held back until the protocol is
//! known: TLS for the target's name, HTTP (then served request by request, see [`pinned`]), or another
//! protocol if the rule has a port. The attempt is reported when this is decided, so that it is
//! reported once. Entry: [`run`].

mod pinned;
mod relay;

use std::io;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::attempt::EgressAttempt;
use crate::connection::DenialReason;
use crate::egress::Upstream;
use crate::host::{ConnectTarget, Host};
use crate::policy::EgressPolicy;
use crate::sniff::{SniffedProtocol, sniff};
use relay::RelayDirection;

pub(crate) use relay::bridge;

type ClientStream = TokioIo<Upgraded>;

/// The fatal alert `access_denied`, so that a TLS client reports a denial and not a lost connection.
const ACCESS_DENIED_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// What to do with a tunnel once its first bytes are known.
#[derive(Debug, PartialEq, Eq)]
enum TunnelPlan {
    Pass,
    Http,
    Refuse(DenialReason),
}

/// Serves a tunnel until it ends.
pub(crate) async fn run(mut client: ClientStream, upstream: Upstream, policy: &EgressPolicy) {
    let Upstream {
        mut stream,
        attempt,
        permit,
    } = upstream;
    let (mut client_read, mut client_write) = tokio::io::split(&mut client);
    let (mut server_read, mut server_write) = stream.split();
    let mut down = RelayDirection::default();
    let mut first = Vec::new();

    let plan = {
        let mut open = true;
        let inspecting = inspect(&mut client_read, &mut first, &attempt, policy);
        tokio::pin!(inspecting);
        loop {
            tokio::select! {
                plan = &mut inspecting => break plan,
                moved = down.run(&mut server_read, &mut client_write), if open => match moved {
                    // The server has ended its side; the client may still send.
                    Ok(()) => open = false,
                    Err(error) => break Err(error),
                },
            }
        }
    };

    match plan {
        Err(error) => tracing::debug!(%error, "tunnel ended before its first bytes"),
        Ok(TunnelPlan::Pass) => {
            attempt.allowed();
            let up = async {
                server_write.write_all(&first).await?;
                RelayDirection::default()
                    .run(&mut client_read, &mut server_write)
                    .await
            };
            let down = down.run(&mut server_read, &mut client_write);
            if let Err(error) = tokio::try_join!(up, down) {
                tracing::debug!(%error, "tunnel ended");
            }
        }
        Ok(TunnelPlan::Http) => {
            if down.flush(&mut client_write).await.is_ok() {
                pinned::serve(client, first, stream, attempt).await;
            }
        }
        Ok(TunnelPlan::Refuse(reason)) => {
            // Report first: the client may never read the alert.
            attempt.denied(reason);
            let tls = first.first() == Some(&22);
            if tls && down.is_unused() && client_write.write_all(&ACCESS_DENIED_ALERT).await.is_ok()
            {
                let _ = client_write.shutdown().await;
            }
        }
    }
    drop(permit);
}

/// Reads and collects bytes until the protocol of the client is known.
async fn inspect(
    client: &mut (impl AsyncReadExt + Unpin),
    first: &mut Vec<u8>,
    attempt: &EgressAttempt,
    policy: &EgressPolicy,
) -> io::Result<TunnelPlan> {
    let mut ended = false;
    loop {
        match sniff(first, ended) {
            SniffedProtocol::NeedMore => ended = client.read_buf(first).await? == 0,
            // A client that sends nothing is harmless.
            SniffedProtocol::Other if first.is_empty() => return Ok(TunnelPlan::Pass),
            sniffed => return Ok(plan(sniffed, &attempt.target, attempt.names_port(), policy)),
        }
    }
}

/// Decides on the tunnel. The third argument says whether the rule that allows the target has a port.
fn plan(
    sniffed: SniffedProtocol,
    target: &ConnectTarget,
    names_port: bool,
    policy: &EgressPolicy,
) -> TunnelPlan {
    let target = target.clone();
    match sniffed {
        SniffedProtocol::Tls(name) => match check_server_name(name, &target, policy) {
            Ok(()) => TunnelPlan::Pass,
            Err(reason) => TunnelPlan::Refuse(reason),
        },
        SniffedProtocol::Http => TunnelPlan::Http,
        SniffedProtocol::Other if names_port => TunnelPlan::Pass,
        SniffedProtocol::NeedMore | SniffedProtocol::Other => {
            TunnelPlan::Refuse(DenialReason::Protocol { target })
        }
        SniffedProtocol::BadTls => TunnelPlan::Refuse(DenialReason::BadHello { target }),
        SniffedProtocol::Http2 => TunnelPlan::Refuse(DenialReason::Http2 { target }),
    }
}

/// The server name must be the target. If the target is an address, the name is optional, but must be
/// a host that the rules allow as well.
fn check_server_name(
    name: Option<String>,
    target: &ConnectTarget,
    policy: &EgressPolicy,
) -> Result<(), DenialReason> {
    let Some(name) = name else {
        return match target.host {
            Host::Address(_) => Ok(()),
            Host::Name(_) => Err(DenialReason::NoServerName {
                target: target.clone(),
            }),
        };
    };
    let allowed = match (Host::parse(&name), &target.host) {
        (Ok(host), expected) if host == *expected => true,
        (Ok(host @ Host::Name(_)), Host::Address(_)) => policy
            .find_allow_rule(&ConnectTarget {
                host,
                port: target.port,
            })
            .is_some(),
        _ => false,
    };
    if allowed {
        Ok(())
    } else {
        Err(DenialReason::ServerName {
            name,
            target: target.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::AllowList;

    #[test]
    fn a_plan_follows_from_the_first_bytes() {
        let check =
            |rules: &[&str], target: &str, sniffed: SniffedProtocol, expect: Result<(), &str>| {
                let policy = EgressPolicy::from(AllowList::parse(rules).unwrap());
                let target = ConnectTarget::parse(target, None).unwrap();
                let names_port = policy.find_allow_rule(&target).unwrap().names_port();
                let found = match plan(sniffed, &target, names_port, &policy) {
                    TunnelPlan::Refuse(reason) => Err(reason.to_string()),
                    TunnelPlan::Pass | TunnelPlan::Http => Ok(()),
                };
                assert_eq!(found, expect.map_err(ToOwned::to_owned));
            };
        let tls = |name: &str| SniffedProtocol::Tls(Some(name.into()));
        let (name, address) = (&["a.com", "10.0.0.1"], &["10.0.0.1", "a.com"]);
        check(name, "a.com:443", tls("a.com"), Ok(()));
        check(name, "a.com:443", tls("A.COM."), Ok(()));
        let differs = "TLS server name `b.com` differs from the CONNECT target `a.com:443`";
        check(name, "a.com:443", tls("b.com"), Err(differs));
        let differs = "TLS server name `10.0.0.1` differs from the CONNECT target `a.com:443`";
        check(name, "a.com:443", tls("10.0.0.1"), Err(differs));
        let none = "TLS without a server name, to the CONNECT target `a.com:443`";
        check(name, "a.com:443", SniffedProtocol::Tls(None), Err(none));
        check(address, "10.0.0.1:443", SniffedProtocol::Tls(None), Ok(()));
        check(address, "10.0.0.1:443", tls("10.0.0.1"), Ok(()));
        check(address, "10.0.0.1:443", tls("a.com"), Ok(()));
        let differs = "TLS server name `b.com` differs from the CONNECT target `10.0.0.1:443`";
        check(address, "10.0.0.1:443", tls("b.com"), Err(differs));
        let differs = "TLS server name `10.0.0.2` differs from the CONNECT target `10.0.0.1:443`";
        check(address, "10.0.0.1:443", tls("10.0.0.2"), Err(differs));
        check(name, "a.com:443", SniffedProtocol::Http, Ok(()));
        let other =
            "neither TLS nor HTTP, to `a.com:443`, which is allowed without naming the port";
        check(name, "a.com:443", SniffedProtocol::Other, Err(other));
        check(&["a.com:443"], "a.com:443", SniffedProtocol::Other, Ok(()));
        check(
            &["a.com", "a.com:443"],
            "a.com:443",
            SniffedProtocol::Other,
            Ok(()),
        );
        check(
            &["a.com:443"],
            "a.com:443",
            SniffedProtocol::Http2,
            Err("HTTP/2 without TLS, to `a.com:443`"),
        );
    }
}
