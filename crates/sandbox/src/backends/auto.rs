//! `auto`: carries out what [`crate::choosing`] decides. Probes backends that are needed and not
//! yet known, starts the strongest, and tries the next one if a probe result turns out to be wrong.
//! Never starts anything weaker than the spec requires.

use tokio::sync::Mutex;
use tracing::{info, warn};

use super::{Raised, raise_named};
use crate::choosing::{self, Question};
use crate::doctor::{self, chain, has_image};
use crate::error::SandboxError;
use crate::proofs::Proofs;
use crate::spec::{Backend, SandboxSpec};

/// Held while probing, so that sandboxes that start at the same time probe once.
static LOOKING: Mutex<()> = Mutex::const_new(());

pub(super) async fn raise(spec: SandboxSpec) -> Result<(Raised, SandboxSpec), SandboxError> {
    let mut proofs = settle(&spec).await;
    let choices = choosing::choose(&question(&spec, &proofs))?;
    let mut failures: Vec<(Backend, String)> = Vec::new();
    let mut last = None;
    for choice in choices {
        let named = SandboxSpec {
            backend: choice.backend,
            ..spec.clone()
        };
        match raise_named(named).await {
            Ok((mut raised, spec)) => {
                raised.description.reason = choosing::after_failures(&choice.reason, &failures);
                return Ok((raised, spec));
            }
            Err(error) if choosing::is_backends_own(&error) => {
                let backend = choice.backend;
                let why = chain(&error);
                warn!(%backend, error = %why, "a backend did not start");
                // An unenforced limit does not mean that the backend is broken.
                let is_false = !matches!(error, SandboxError::Unenforced { .. });
                if is_false && let Err(error) = proofs.forget(backend, &spec.provisions) {
                    warn!(%backend, %error, "cannot remove a probe result");
                }
                let why = choosing::without_backend(&why, backend).to_owned();
                failures.push((backend, why));
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("`choose` returns at least one choice"))
}

/// The known probe results, after probing backends whose result is needed and unknown.
pub(crate) async fn settle(spec: &SandboxSpec) -> Proofs {
    let proofs = Proofs::read(&spec.provisions);
    if unknown(spec, &proofs).is_empty() {
        return proofs;
    }
    let _looking = LOOKING.lock().await;
    let mut proofs = Proofs::read(&spec.provisions);
    // One working backend is enough; `doctor --probe` probes all of them.
    while let Some(backend) = unknown(spec, &proofs).first().copied() {
        info!(%backend, "probing a backend that is required");
        // Boxed, because a probe starts a sandbox and so recurses into this function.
        let proof = Box::pin(doctor::prove(spec, backend)).await;
        info!(%backend, works = proof.works, "probed");
        if let Err(error) = proofs.keep(proof, &spec.provisions) {
            warn!(%backend, %error, "cannot store a probe result");
        }
    }
    proofs
}

fn question<'a>(spec: &SandboxSpec, proofs: &'a Proofs) -> Question<'a> {
    Question {
        require: spec.require,
        has_image: has_image(spec),
        proofs: proofs.all(),
    }
}

fn unknown(spec: &SandboxSpec, proofs: &Proofs) -> Vec<Backend> {
    question(spec, proofs).unknown()
}

#[cfg(test)]
mod tests;
