//! How a test runs: with a runtime, a timeout, and exclusive use of the machine if needed.

use std::future::Future;
use std::pin::pin;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// A test that takes longer is considered hung. Far longer than any takes.
const PATIENCE: Duration = Duration::from_secs(150);
const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Shared by ordinary tests, held exclusively by load tests.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs a test concurrently with others.
pub(crate) fn play(test: impl Future<Output = ()>) {
    let shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    run(test, PATIENCE);
    drop(shared);
}

/// Runs a load test, alone.
pub(crate) fn play_alone(test: impl Future<Output = ()>) {
    let alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    run(test, LONG_PATIENCE);
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
    let give_up = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(
            tokio::time::Instant::now() < give_up,
            "never came about: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
