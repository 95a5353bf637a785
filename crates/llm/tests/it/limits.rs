//! A provider that stops sending.

use std::time::Duration;

use llm::ErrorKind;
use testkit::{Answer, Gate, ModelServer};

use crate::ask::{BOTH, ask, rich};

#[tokio::test]
async fn silence_ends_a_request() {
    for client in BOTH {
        for after in [0, 4] {
            let gate = Gate::new();
            let server = ModelServer::start(Answer::reply(rich()).hold(after, &gate));
            let model = client.hasty(&server, Duration::from_millis(50));
            let error = ask(&*model).await.unwrap_err();
            assert_eq!(
                error.kind,
                ErrorKind::Stream,
                "{client:?} after {after}: {error}"
            );
            assert!(error.is_retryable());
            server.hung_up(1).await;
        }
    }
}
