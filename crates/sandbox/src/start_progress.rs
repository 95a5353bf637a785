//! Time limit of the start of a sandbox, and the step that it has reached.
//!
//! [`within_limit`] runs a start, and the code below it reports each step. A start
//! that takes too long is dropped, which takes down the parts that run already. Once they are gone,
//! the error names the last step.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::Backend;
use tokio::sync::mpsc;

use crate::error::SandboxError;
use crate::spec::SandboxSpec;

/// Time limit of a start without a limit of its own. Native walls start in milliseconds.
const NATIVE_START_TIMEOUT: Duration = Duration::from_secs(120);
/// An engine may have to import an image first; a machine may have to make its disk and boot.
const OTHER_START_TIMEOUT: Duration = Duration::from_secs(900);
/// How long a failed start waits for its parts to be gone.
const TAKE_DOWN_TIMEOUT: Duration = Duration::from_secs(20);

tokio::task_local! {
    static START: StartProgress;
}

#[derive(Debug, Clone)]
struct StartProgress {
    step: Arc<Mutex<&'static str>>,
    /// Held by every part that is still being taken down.
    leaving: mpsc::Sender<()>,
}

/// Runs a start of a sandbox within the time limit of its spec.
pub(crate) async fn within_limit<T>(
    spec: &SandboxSpec,
    start: impl Future<Output = Result<T, SandboxError>>,
) -> Result<T, SandboxError> {
    let usual = match spec.backend {
        Backend::Native | Backend::None => NATIVE_START_TIMEOUT,
        _ => OTHER_START_TIMEOUT,
    };
    let limit = spec.deadline().map_or(usual, |wall| wall.min(usual));
    let (leaving, mut gone) = mpsc::channel(1);
    let step = Arc::new(Mutex::new("choose a backend"));
    let this = StartProgress {
        step: step.clone(),
        leaving,
    };
    let bounded = tokio::time::timeout(limit, start);
    if let Ok(outcome) = START.scope(this, bounded).await {
        return outcome;
    }
    // The start was dropped, and with it everything that it had started. Nothing is ever sent on
    // this channel: it closes when the last part is gone.
    if tokio::time::timeout(TAKE_DOWN_TIMEOUT, gone.recv())
        .await
        .is_err()
    {
        let seconds = TAKE_DOWN_TIMEOUT.as_secs();
        tracing::warn!(seconds, "parts of a failed start are not gone in time");
    }
    let step = *step.lock().unwrap_or_else(PoisonError::into_inner);
    Err(SandboxError::StartTimedOut { step, limit })
}

/// Reports the next step of the start, as the end of "cannot …".
pub(crate) fn step(doing: &'static str) {
    let _ = START.try_with(|start| {
        *start.step.lock().unwrap_or_else(PoisonError::into_inner) = doing;
    });
}

/// Marks a part of a start that is still being taken down. A failed start waits until it is
/// dropped.
#[derive(Debug)]
pub(crate) struct TakeDownGuard {
    _held: Option<mpsc::Sender<()>>,
}

pub(crate) fn leaving() -> TakeDownGuard {
    TakeDownGuard {
        _held: START.try_with(|start| start.leaving.clone()).ok(),
    }
}

/// Takes something down on its own thread.
pub(crate) fn take_down_on_thread(work: impl FnOnce() + Send + 'static) {
    let leaving = leaving();
    std::thread::spawn(move || {
        work();
        drop(leaving);
    });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn spec(wall: Option<Duration>) -> SandboxSpec {
        let mut spec = SandboxSpec::new("/nowhere");
        spec.backend = Backend::Native;
        spec.limits.wall = wall;
        spec
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_that_never_ends_fails_in_time_and_names_its_step() {
        for (wall, expect) in [
            (
                Some(Duration::from_millis(1500)),
                "cannot start the sandbox within 1.5s: timed out before it could complete the handshake with the guest",
            ),
            (
                None,
                "cannot start the sandbox within 120s: timed out before it could complete the handshake with the guest",
            ),
        ] {
            let stuck = async {
                step("complete the handshake with the guest");
                std::future::pending::<Result<(), SandboxError>>().await
            };
            let error = within_limit(&spec(wall), stuck).await.unwrap_err();
            assert_eq!(error.to_string(), expect);
        }
    }

    #[tokio::test]
    async fn a_start_that_failed_waits_for_what_it_takes_down() {
        struct Walls(Arc<Mutex<bool>>);
        impl Drop for Walls {
            fn drop(&mut self) {
                let gone = self.0.clone();
                take_down_on_thread(move || {
                    // Long enough that a start that does not wait would return earlier.
                    std::thread::sleep(Duration::from_millis(200));
                    *gone.lock().unwrap() = true;
                });
            }
        }
        let gone = Arc::new(Mutex::new(false));
        let walls = Walls(gone.clone());
        let stuck = async move {
            let _walls = walls;
            std::future::pending::<Result<(), SandboxError>>().await
        };
        let spec = spec(Some(Duration::from_millis(10)));
        let error = within_limit(&spec, stuck).await.unwrap_err();
        assert!(matches!(error, SandboxError::StartTimedOut { .. }));
        assert!(*gone.lock().unwrap());
    }

    #[tokio::test]
    async fn a_start_in_time_is_itself() {
        let start = async { Ok::<_, SandboxError>(7) };
        assert_eq!(within_limit(&spec(None), start).await.unwrap(), 7);
        let start = async { Err::<(), _>(SandboxError::Ended) };
        let error = within_limit(&spec(None), start).await.unwrap_err();
        assert!(matches!(error, SandboxError::Ended));
    }
}
