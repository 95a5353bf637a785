//! The HTTP client of a provider, with its address and key. Does not know the content of requests.
//!
//! Does not follow redirects, which would send the key along, and reads no proxy variables.
//! Building a TLS client reads the system's certificates, which takes 5 to 60 ms. That happens on a
//! separate thread while the program continues, and not at all for a plain `http` address.

use std::error::Error;
use std::fmt::Display;
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use protocol::root_cause;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::{ModelError, ModelErrorKind};
use crate::failure;

/// Maximum number of bytes read of an error response.
const MAX_ERROR_BODY_BYTES: usize = 64 << 10;

/// Shorter keys are placeholders for servers that need none.
const MIN_KEY_BYTES: usize = 6;

/// The address of a provider, and how to reach it.
#[derive(Debug)]
pub(crate) struct ProviderRoute<'a> {
    pub(crate) base_url: &'a str,
    pub(crate) proxy: Option<&'a SecretString>,
    pub(crate) connect_limit: Duration,
    /// Maximum time without receiving a byte.
    pub(crate) silence_limit: Duration,
}

type ClientSlot = Option<Result<Client, String>>;

#[derive(Debug)]
pub(crate) struct HttpClient {
    /// `None` until the client is built.
    client: watch::Receiver<ClientSlot>,
    /// Sent with each request. The key's header is marked as sensitive.
    headers: HeaderMap,
    key: Option<SecretString>,
    silence_limit: Duration,
}

/// The header that carries the key. Its name and prefix are not secret.
pub(crate) struct KeyHeader {
    pub(crate) name: HeaderName,
    pub(crate) prefix: &'static str,
}

impl HttpClient {
    pub(crate) fn new(
        route: &ProviderRoute<'_>,
        key: Option<&SecretString>,
        key_header: KeyHeader,
        mut headers: HeaderMap,
    ) -> Result<Self, ModelError> {
        // A file or a paste may have left a newline.
        let key = key.map(|key| SecretString::from(key.expose_secret().trim()));
        let key = key.filter(|key| !key.expose_secret().is_empty());
        if let Some(key) = &key {
            let fits = key
                .expose_secret()
                .bytes()
                .all(|byte| byte.is_ascii_graphic());
            let value = format!("{}{}", key_header.prefix, key.expose_secret());
            let value = HeaderValue::try_from(value).ok().filter(|_| fits);
            let mut value = value.ok_or_else(|| {
                let message = "cannot use the key: it has characters that are not allowed in a key";
                ModelError::new(ModelErrorKind::Key, message)
            })?;
            value.set_sensitive(true);
            headers.insert(key_header.name, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self {
            client: build_client(route)?,
            headers,
            key,
            silence_limit: route.silence_limit,
        })
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Sends a body and waits for the head of a successful response.
    pub(crate) async fn post(&self, url: &Url, body: Vec<u8>) -> Result<HttpAnswer, ModelError> {
        let client = self.client().await?;
        let request = client.post(url.clone()).headers(self.headers.clone());
        let response = timeout(self.silence_limit, request.body(body).send())
            .await
            .map_err(|_| self.silent())?
            .map_err(|error| {
                let host = url.host_str().unwrap_or_default();
                network(format_args!("cannot reach `{host}`"), &error)
            })?;
        let status = response.status();
        let headers = response.headers().clone();
        let mut answer = HttpAnswer {
            response,
            silence_limit: self.silence_limit,
        };
        if status.is_success() {
            return Ok(answer);
        }
        // Reads what it can of the body. If that fails, the status is enough.
        let mut body = Vec::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            body.extend_from_slice(chunk.as_ref());
            if body.len() > MAX_ERROR_BODY_BYTES {
                break;
            }
        }
        let now = Timestamp::now();
        Err(failure::from_response(
            status.as_u16(),
            &headers,
            &body,
            now,
        ))
    }

    async fn client(&self) -> Result<Client, ModelError> {
        let mut client = self.client.clone();
        let built = client.wait_for(Option::is_some).await;
        let built = built.ok().and_then(|built| built.clone());
        let why = match built {
            Some(Ok(client)) => return Ok(client),
            Some(Err(why)) => why,
            None => "the builder has failed".to_owned(),
        };
        let message = format!("cannot prepare connections: {why}");
        Err(ModelError {
            should_retry: Some(false),
            ..ModelError::new(ModelErrorKind::Network, message)
        })
    }

    fn silent(&self) -> ModelError {
        silent(self.silence_limit)
    }

    /// Removes the key from the error's message, in case the server repeated it.
    pub(crate) fn without_key(&self, mut error: ModelError) -> ModelError {
        // A shorter key is no secret, and its characters may occur in any word.
        if let Some(key) = &self.key
            && key.expose_secret().len() >= MIN_KEY_BYTES
        {
            error.message = error.message.replace(key.expose_secret(), "[key]");
        }
        error
    }
}

/// A response whose body is read as it arrives.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    response: Response,
    silence_limit: Duration,
}

impl HttpAnswer {
    /// Whether the body has this media type, as declared by the server.
    pub(crate) fn is(&self, media_type: &str) -> bool {
        let value = self.response.headers().get(CONTENT_TYPE);
        let value = value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let found = value.split(';').next().unwrap_or_default().trim();
        found.eq_ignore_ascii_case(media_type)
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<impl AsRef<[u8]> + use<>>, ModelError> {
        timeout(self.silence_limit, self.response.chunk())
            .await
            .map_err(|_| silent(self.silence_limit))?
            .map_err(|error| ModelError {
                kind: ModelErrorKind::Stream,
                ..network(format_args!("cannot read the whole reply"), &error)
            })
    }

    /// Reduces the idle timeout from now on.
    pub(crate) fn hurry(&mut self, limit: Duration) {
        self.silence_limit = self.silence_limit.min(limit);
    }
}

fn silent(limit: Duration) -> ModelError {
    let message = format!("cannot read the whole reply: no data for {limit:?}");
    ModelError::new(ModelErrorKind::Stream, message)
}

/// Shows only the innermost cause: the outer ones repeat each other.
fn network(what: impl Display, error: &reqwest::Error) -> ModelError {
    let cause = match error.source() {
        // The error's own text would contain the URL.
        None if error.is_timeout() => "it took too long".to_owned(),
        None => "the request failed".to_owned(),
        Some(_) => failure::clean_line(&root_cause(error)),
    };
    ModelError::new(ModelErrorKind::Network, format!("{what}: {cause}"))
}

fn build_client(route: &ProviderRoute<'_>) -> Result<watch::Receiver<ClientSlot>, ModelError> {
    let mut builder = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .connect_timeout(route.connect_limit)
        .user_agent(concat!("hotcell/", env!("CARGO_PKG_VERSION")));
    let mut over_tls = parse_base_url(route.base_url)?.scheme() == "https";
    if let Some(proxy) = route.proxy {
        let proxy = proxy.expose_secret();
        // Its error would show the address, which may contain a password.
        let chosen = Proxy::all(proxy).map_err(|_| {
            let message = "cannot parse the proxy address";
            ModelError::new(ModelErrorKind::Request, message)
        })?;
        builder = builder.proxy(chosen);
        over_tls |= proxy.starts_with("https:");
    }
    // Reqwest panics if the process has no default provider. All our programs use this one.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread may have installed it first, with the same result.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let finish = |builder: reqwest::ClientBuilder| {
        let built = builder.build();
        Some(built.map_err(|error| network("the client", &error).message))
    };
    let (sender, receiver) = watch::channel(None);
    if over_tls {
        // Not joined: it ends by itself within milliseconds and holds only the channel.
        let started = thread::Builder::new()
            .name("certificates".to_owned())
            .spawn(move || sender.send_replace(finish(builder)));
        if let Err(error) = started {
            let message = format!("cannot start a thread: {error}");
            return Err(ModelError::new(ModelErrorKind::Network, message));
        }
    } else {
        sender.send_replace(finish(builder.tls_certs_only([])));
    }
    Ok(receiver)
}

/// The URL of `path` under a base URL, which may be given with or without `/v1` and a trailing
/// slash. A base URL that already ends with the path is used unchanged.
pub(crate) fn endpoint(base_url: &str, path: &str) -> Result<Url, ModelError> {
    let mut url = parse_base_url(base_url)?;
    let base = url.path().trim_end_matches('/');
    let whole = if base.ends_with(path) {
        base.to_owned()
    } else {
        format!("{}/v1{path}", base.strip_suffix("/v1").unwrap_or(base))
    };
    url.set_path(&whole);
    Ok(url)
}

fn parse_base_url(base_url: &str) -> Result<Url, ModelError> {
    let bad = |why: &str| {
        let message = format!("cannot use the base URL: {why}");
        Err(ModelError::new(ModelErrorKind::Request, message))
    };
    match Url::parse(base_url.trim()) {
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            bad("it contains a user name or password; set the key separately")
        }
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => bad(&format!(
            "`{}` does not begin with `https://` or `http://`",
            failure::clean_line(base_url)
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use reqwest::header::AUTHORIZATION;

    use super::*;

    const ROUTE: ProviderRoute<'_> = ProviderRoute {
        base_url: "http://127.0.0.1:9",
        proxy: None,
        connect_limit: Duration::from_secs(1),
        silence_limit: Duration::from_secs(1),
    };

    fn http(route: &ProviderRoute<'_>, key: &str) -> Result<HttpClient, ModelError> {
        let header = KeyHeader {
            name: AUTHORIZATION,
            prefix: "Bearer ",
        };
        HttpClient::new(route, Some(&key.into()), header, HeaderMap::new())
    }

    #[test]
    fn base_urls_are_understood_in_all_their_forms() {
        fn check(base: &str, expect: &str) {
            let url = endpoint(base, "/chat/completions").unwrap();
            assert_eq!(url.as_str(), expect, "{base}");
        }
        let plain = "http://host:8080/v1/chat/completions";
        check("http://host:8080", plain);
        check("http://host:8080/", plain);
        check("http://host:8080/v1", plain);
        check(" http://host:8080/v1/ ", plain);
        check("http://host:8080/v1//", plain);
        check("http://host:8080/v1/chat/completions", plain);
        check("https://h/openai", "https://h/openai/v1/chat/completions");
        check(
            "https://h/openai/v1/",
            "https://h/openai/v1/chat/completions",
        );
        check(
            "https://h/beta/chat/completions",
            "https://h/beta/chat/completions",
        );
    }

    #[test]
    fn other_addresses_are_refused() {
        for bad in [
            "",
            "host:8080",
            "ftp://host",
            "localhost",
            "https://",
            "/v1",
        ] {
            let error = endpoint(bad, "/x").unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Request, "{bad}");
        }
        let error = endpoint("https://me:hush@host", "/x").unwrap_err();
        assert!(!error.message.contains("hush"));
        let proxy = SecretString::from("://me:hush@proxy");
        let route = ProviderRoute {
            proxy: Some(&proxy),
            ..ROUTE
        };
        let error = http(&route, "key").unwrap_err();
        assert!(!error.message.contains("hush"));
    }

    #[test]
    fn keys_are_never_shown() {
        let http = http(&ROUTE, "sk-hush\n").unwrap();
        assert_eq!(http.headers[AUTHORIZATION], "Bearer sk-hush");
        assert!(!format!("{http:?}").contains("hush"));
        let error = ModelError::new(ModelErrorKind::Key, "bad key `sk-hush`, not `sk-hush`");
        assert_eq!(
            http.without_key(error).message,
            "bad key `[key]`, not `[key]`"
        );

        for bad in [
            "sk-hush\nx: y",
            "sk-hush\u{0}",
            "sk-hush\u{7f}",
            "sk-hüsh-hush",
            "sk hush",
        ] {
            let error = self::http(&ROUTE, bad).unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Key);
            assert!(!format!("{error:?}").contains("hush"));
        }
        assert!(!self::http(&ROUTE, " ").unwrap().has_key());
    }

    #[tokio::test]
    async fn a_client_is_there_with_and_without_tls() {
        http(&ROUTE, "key").unwrap().client().await.unwrap();
        let route = ProviderRoute {
            base_url: "https://127.0.0.1:9",
            ..ROUTE
        };
        http(&route, "key").unwrap().client().await.unwrap();
    }
}
