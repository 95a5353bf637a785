//! Runs an asynchronous test on a runtime of its own. Entry point: [`run_with_timeout`].

use std::time::Duration;

/// Runs a test, and fails it if it takes longer than `timeout`.
pub fn run_with_timeout(timeout: Duration, test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be created")
        .block_on(async {
            tokio::time::timeout(timeout, test)
                .await
                .expect("the test timed out");
        });
}
