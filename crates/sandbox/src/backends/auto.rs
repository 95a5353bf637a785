//! `auto`: carries out what [`crate::selection`] decides. Probes backends that are needed and not
//! yet known, starts the strongest, and tries the next one if a probe result turns out to be wrong.
//! Never starts anything weaker than the spec requires.

use protocol::Backend;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::{StartedBackend, start_named_backend};
use crate::doctor::{self, has_image};
use crate::error::SandboxError;
use crate::error_chain::error_chain;
use crate::probe_cache::ProbeCache;
use crate::selection::{self, SelectionInput};
use crate::spec::SandboxSpec;

/// Held while probing, so that sandboxes that start at the same time probe once.
static PROBE_LOCK: Mutex<()> = Mutex::const_new(());

pub(super) async fn start_backend(
    spec: SandboxSpec,
) -> Result<(StartedBackend, SandboxSpec), SandboxError> {
    let mut proofs = probe_unknown(&spec).await;
    let choices = selection::choose(&selection_input(&spec, &proofs))?;
    let mut failures: Vec<(Backend, String)> = Vec::new();
    let mut last = None;
    for choice in choices {
        let named = SandboxSpec {
            backend: choice.backend,
            ..spec.clone()
        };
        match start_named_backend(named).await {
            Ok((mut raised, spec)) => {
                raised.info.reason = selection::reason_with_failures(&choice.reason, &failures);
                return Ok((raised, spec));
            }
            Err(error) if selection::is_backend_failure(&error) => {
                let backend = choice.backend;
                let why = error_chain(&error);
                warn!(%backend, error = %why, "a backend did not start");
                // An unenforced limit does not mean that the backend is broken.
                let is_false = !matches!(error, SandboxError::Unenforced { .. });
                if is_false && let Err(error) = proofs.forget(backend, &spec.provisions) {
                    warn!(%backend, %error, "cannot remove a probe result");
                }
                let why = selection::strip_backend_prefix(&why, backend).to_owned();
                failures.push((backend, why));
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("`choose` returns at least one choice"))
}

/// The known probe results, after probing backends whose result is needed and unknown.
pub(crate) async fn probe_unknown(spec: &SandboxSpec) -> ProbeCache {
    let proofs = ProbeCache::read(&spec.provisions);
    if unprobed_backends(spec, &proofs).is_empty() {
        return proofs;
    }
    let _looking = PROBE_LOCK.lock().await;
    let mut proofs = ProbeCache::read(&spec.provisions);
    // One working backend is enough; `doctor --probe` probes all of them.
    while let Some(backend) = unprobed_backends(spec, &proofs).first().copied() {
        info!(%backend, "probing a backend that is required");
        // Boxed, because a probe starts a sandbox and so recurses into this function.
        let proof = Box::pin(doctor::probe_without_storing(spec, backend)).await;
        info!(%backend, works = proof.works, "probed");
        if let Err(error) = proofs.keep(proof, &spec.provisions) {
            warn!(%backend, %error, "cannot store a probe result");
        }
    }
    proofs
}

fn selection_input<'a>(spec: &SandboxSpec, proofs: &'a ProbeCache) -> SelectionInput<'a> {
    SelectionInput {
        require: spec.require,
        has_image: has_image(spec),
        proofs: proofs.all(),
    }
}

fn unprobed_backends(spec: &SandboxSpec, proofs: &ProbeCache) -> Vec<Backend> {
    selection_input(spec, proofs).unknown()
}

#[cfg(test)]
mod tests;
