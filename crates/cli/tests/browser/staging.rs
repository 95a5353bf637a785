//! The usual setup: a scripted model, a server that uses it, and a browser.

use testkit::{ModelServer, Replies};

use crate::browser::Browser;
use crate::server::{Server, Site};

/// A server and its model. The server ends first.
pub(crate) struct WebFixture {
    pub(crate) server: Server,
    pub(crate) site: Site,
    _model: ModelServer,
}

impl WebFixture {
    pub(crate) async fn new(replies: impl Into<Replies>) -> Self {
        Self::with(replies, &[]).await
    }

    /// With additional flags for the server.
    pub(crate) async fn with(replies: impl Into<Replies>, flags: &[&str]) -> Self {
        let model = ModelServer::start(replies);
        let site = Site::new(&model).flags(flags.iter().copied());
        Self {
            server: site.start().await,
            site,
            _model: model,
        }
    }

    pub(crate) async fn open(&self, path: &str) -> Browser {
        Browser::open(&self.server, path).await
    }

    /// A key, created with `hotcell keys create`.
    pub(crate) async fn key(&self, user: &str, role: &str) -> String {
        let arguments = ["keys", "create", "--user", user, "--role", role];
        let output = self.site.hotcell(arguments).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}
