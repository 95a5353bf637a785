//! Runs blocking file work away from the threads that serve requests. Entry point:
//! [`run_blocking`].

use std::io;

use tokio::task::spawn_blocking;

/// Runs `work` on a thread for blocking work and waits for it. A panic in it becomes an error.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
