//! Decides on a connection and opens it: first the rule or approval, then the address, then the
//! connection.
//!
//! Entry type: [`Egress`]. Never reads the traffic.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::attempt::EgressAttempt;
use crate::connection::{ConnectionRecord, ConnectionVerdict, DenialReason, sanitize};
use crate::gate::{EgressAdmission, EgressGate};
use crate::host::ConnectTarget;
use crate::resolve::{Resolver, resolve};

/// Timeout for connecting to a target, for all its addresses together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Default limit of open connections, because each takes descriptors of the host.
const MAX_CONNECTIONS: usize = 256;

type ConnectionLogger = Box<dyn Fn(ConnectionRecord) + Send + Sync>;

/// The state that [`crate::serve`] needs. One per sandbox, shared by its streams.
pub struct Egress {
    pub(crate) gate: EgressGate,
    resolver: Arc<dyn Resolver>,
    log: ConnectionLogger,
    permits: Arc<Semaphore>,
}

impl Egress {
    /// `log` is called once for every attempt, allowed or not. It is called between reads of the
    /// stream, so it should be fast.
    pub fn new(
        gate: impl Into<EgressGate>,
        log: impl Fn(ConnectionRecord) + Send + Sync + 'static,
    ) -> Egress {
        let gate = gate.into();
        Egress {
            resolver: gate.resolver(),
            gate,
            log: Box::new(log),
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    /// Uses another resolver than the host's.
    #[must_use]
    pub fn with_resolver(self, resolver: impl Resolver + 'static) -> Egress {
        Egress {
            resolver: Arc::new(resolver),
            ..self
        }
    }

    /// Sets the limit of open connections.
    #[must_use]
    pub fn with_max_connections(self, count: usize) -> Egress {
        Egress {
            permits: Arc::new(Semaphore::new(count)),
            ..self
        }
    }

    /// Checks `target` and connects to it. A failure has been reported when this returns; a success is
    /// reported by the returned attempt.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        target: &ConnectTarget,
    ) -> Result<Upstream, DenialReason> {
        let mut attempt = EgressAttempt::new(self, target);
        match self.admit_and_connect(target).await {
            Ok((stream, admission, address, permit)) => {
                attempt.admit(admission.rule, admission.because, address);
                Ok(Upstream {
                    stream,
                    attempt,
                    permit,
                })
            }
            Err(reason) => {
                attempt.denied(reason.clone());
                Err(reason)
            }
        }
    }

    async fn admit_and_connect(
        &self,
        target: &ConnectTarget,
    ) -> Result<(TcpStream, EgressAdmission, SocketAddr, OwnedSemaphorePermit), DenialReason> {
        let admission = self.gate.admit(target).await?;
        let permits = Arc::clone(&self.permits);
        let permit = permits
            .try_acquire_owned()
            .map_err(|_| DenialReason::TooMany {
                target: target.clone(),
            })?;
        let EgressAdmission { rule, policy, .. } = &admission;
        let addresses = resolve(&*self.resolver, policy, rule, target).await?;
        let (stream, address) =
            connect_to_first(&addresses)
                .await
                .map_err(|error| DenialReason::Connect {
                    target: target.clone(),
                    error,
                })?;
        // Without Nagle's algorithm, small messages do not wait for acknowledgements.
        let _ = stream.set_nodelay(true);
        Ok((stream, admission, address, permit))
    }

    pub(crate) fn tell(&self, connection: ConnectionRecord) {
        (self.log)(connection);
    }

    /// Reports an attempt whose target could not be read.
    pub(crate) fn report_unreadable(&self, host: &str, reason: DenialReason) {
        let verdict = ConnectionVerdict::Denied { reason };
        self.tell(ConnectionRecord {
            host: sanitize(host),
            port: 0,
            address: None,
            verdict,
        });
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

/// An open connection to a checked address. Holds its permit while it is open.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) stream: TcpStream,
    pub(crate) attempt: EgressAttempt,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// Tries the addresses in order. Each gets an equal share of the remaining time.
async fn connect_to_first(addresses: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), String> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let mut problem = "there is no address".to_owned();
    for (index, &address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        match timeout_at(Instant::now() + share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => problem = error.to_string(),
            Err(_) => problem = "no answer in time".to_owned(),
        }
    }
    Err(problem)
}
