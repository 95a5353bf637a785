//! Runs an asynchronous test on a runtime of its own. A file of its own, for test programs that
//! need nothing else from this folder.

use std::time::Duration;

/// Runs a test, and fails it if it takes longer than `timeout`.
pub(crate) fn run_with_timeout(timeout: Duration, test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be created")
        .block_on(async {
            tokio::time::timeout(timeout, test)
                .await
                .expect("the test hangs");
        });
}
