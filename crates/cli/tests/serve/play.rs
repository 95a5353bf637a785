//! How a test runs: with a runtime, a timeout, and exclusive use of the machine if needed.

use std::future::Future;
use std::pin::pin;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// A test that takes longer is considered hung. Far longer than any takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(150);
const LOAD_TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Shared by ordinary tests, held exclusively by load tests.
static MACHINE_LOCK: RwLock<()> = RwLock::new(());

/// Runs a test concurrently with others.
pub(crate) fn play(test: impl Future<Output = ()>) {
    let shared = MACHINE_LOCK.read().unwrap_or_else(PoisonError::into_inner);
    run(test, TEST_TIMEOUT);
    drop(shared);
}

/// Runs a load test, alone.
pub(crate) fn play_alone(test: impl Future<Output = ()>) {
    let alone = MACHINE_LOCK.write().unwrap_or_else(PoisonError::into_inner);
    run(test, LOAD_TEST_TIMEOUT);
    drop(alone);
}

fn run(test: impl Future<Output = ()>, patience: Duration) {
    // Orphans become children of this process, where they can be found.
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let mut test = pin!(test);
            tokio::select! {
                () = &mut test => {}
                // The panic drops the test, which prints the servers' output.
                () = tokio::time::sleep(patience) => panic!("the test hangs"),
            }
        });
}

/// A number of a load test, reduced as configured.
pub(crate) fn portion(number: usize) -> usize {
    let fraction = std::env::var("HOTCELL_TEST_FRACTION");
    let fraction = fraction.map_or(1, |text| text.parse().unwrap());
    (number / fraction).max(1)
}

/// Waits for a condition that has no event.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let give_up = tokio::time::Instant::now() + TEST_TIMEOUT;
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < give_up,
            "never came about: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
