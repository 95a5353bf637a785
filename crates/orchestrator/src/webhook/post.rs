//! One request to a webhook: address checks, contents and signature.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use egress::address::AddressClass;
use egress::{
    ConnectTarget, DenialReason, Host, Resolver, SystemResolver, classify_on_host, public_addresses,
};
use hmac::{Hmac, KeyInit, Mac};
use protocol::job::Webhook;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use sha2::Sha256;
use store::jobs::Delivery;
use tokio::sync::OnceCell;

use crate::parts::chain;

/// Timeout of a whole request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryFailure {
    pub(super) reason: String,
    /// Retrying is useless.
    pub(super) is_final: bool,
}

impl DeliveryFailure {
    pub(super) fn for_now(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: false,
        }
    }

    pub(super) fn permanent(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: true,
        }
    }
}

/// Sends requests. The client is created at the first one: loading certificates takes time and
/// memory.
#[derive(Debug)]
pub(super) struct WebhookClient {
    allows_private: bool,
    client: OnceCell<Client>,
}

impl WebhookClient {
    pub(super) fn new(allows_private: bool) -> Self {
        Self {
            allows_private,
            client: OnceCell::new(),
        }
    }

    pub(super) async fn post(
        &self,
        webhook: &Webhook,
        delivery: &Delivery,
    ) -> Result<(), DeliveryFailure> {
        let url = self.check(&webhook.url)?;
        let mut request = self
            .client()
            .await?
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("Hotcell-Delivery", delivery.number)
            .header("Hotcell-Event", "job.ended");
        if let Some(secret) = &webhook.secret {
            let signature = sign(secret.as_bytes(), delivery.body.as_bytes());
            request = request.header("Hotcell-Signature", format!("sha256={signature}"));
        }
        match request.body(delivery.body.clone()).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(DeliveryFailure::for_now(format!(
                "it answers {}",
                answer.status()
            ))),
            Err(error) => Err(DeliveryFailure {
                is_final: is_not_public(&error),
                // Without the URL, which may contain a secret.
                reason: chain(&error.without_url()),
            }),
        }
    }

    /// Checks literal addresses in the URL. Names are resolved by the client through [`PublicResolver`].
    fn check(&self, url: &str) -> Result<Url, DeliveryFailure> {
        let url =
            Url::parse(url).map_err(|_| DeliveryFailure::permanent("its address is no URL"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(DeliveryFailure::permanent(
                "its address is not one of the web",
            ));
        }
        let host = Host::parse(url.host_str().unwrap_or_default());
        let host = host.map_err(|error| DeliveryFailure::permanent(error.to_string()))?;
        match host {
            Host::Address(address)
                if !self.allows_private && classify_on_host(address) != AddressClass::Public =>
            {
                Err(DeliveryFailure::permanent(format!(
                    "{address} is not a public address"
                )))
            }
            _ => Ok(url),
        }
    }

    async fn client(&self) -> Result<&Client, DeliveryFailure> {
        let allows_private = self.allows_private;
        let make = || async move {
            let built = tokio::task::spawn_blocking(move || build(allows_private)).await;
            let built = built.map_err(|error| DeliveryFailure::for_now(error.to_string()))?;
            built.map_err(|error| DeliveryFailure::for_now(chain(&error)))
        };
        self.client.get_or_try_init(make).await
    }
}

fn build(allows_private: bool) -> Result<Client, reqwest::Error> {
    // Reqwest panics if the process has no default crypto provider. All Hotcell programs use this
    // one.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have installed it meanwhile.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let builder = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(REQUEST_TIMEOUT)
        // Every request resolves its host again.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
    if allows_private {
        builder.build()
    } else {
        builder.dns_resolver(PublicResolver).build()
    }
}

/// Resolves to public addresses only. The client connects to the addresses that were checked.
#[derive(Debug, Clone, Copy)]
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = lookup(&SystemResolver, name.as_str()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

async fn lookup(
    resolver: &dyn Resolver,
    name: &str,
) -> Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>> {
    let host = Host::parse(name)?;
    // The client sets the port of the URL.
    Ok(public_addresses(resolver, &ConnectTarget { host, port: 0 }).await?)
}

/// Whether the request was refused because its address is not public.
fn is_not_public(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(reason) = cause.downcast_ref::<DenialReason>() {
            return matches!(reason, DenialReason::NotPublic { .. });
        }
        source = cause.source();
    }
    false
}

/// HMAC-SHA256 in hexadecimal.
pub(super) fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key can have any length");
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}
