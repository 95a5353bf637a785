//! A provider that stops sending.

use std::time::Duration;

use llm::ModelErrorKind;
use testkit::{ModelServer, ScriptedAnswer, StreamGate};

use crate::ask::{ALL_CLIENTS, ask, rich};

#[tokio::test]
async fn silence_ends_a_request() {
    for client in ALL_CLIENTS {
        for after in [0, 4] {
            let gate = StreamGate::new();
            let server = ModelServer::start(ScriptedAnswer::reply(rich()).hold(after, &gate));
            let model = client.with_idle_timeout(&server, Duration::from_millis(50));
            let error = ask(&*model).await.unwrap_err();
            assert_eq!(
                error.kind,
                ModelErrorKind::Stream,
                "{client:?} after {after}: {error}"
            );
            assert!(error.is_retryable());
            server.hung_up(1).await;
        }
    }
}
