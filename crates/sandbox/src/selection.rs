//! Selects the backend of a sandbox from the request, the required strength and the probe results.
//! Pure: starts nothing, reads nothing. Entry points: [`choose`], [`check`].
//!
//! `auto` is the strongest backend that a probe found working here and that the policy allows.
//! Among equals, Firecracker, a monitor written for this purpose, comes before QEMU. Native walls
//! come before containers because they have their own user namespace, a system call allow-list and
//! Landlock, and need no daemon that runs as root. An emulated machine works anywhere, but it is
//! many times slower, and the QEMU authors do not call its emulation a security boundary: it is
//! used only if no other backend is as strong as required.

use protocol::{Backend, Strength};

use crate::error::SandboxError;
use crate::probe_cache::ProbeResult;

/// All backends with walls, strongest first.
pub const BACKENDS_BY_STRENGTH: [Backend; 7] = [
    Backend::Firecracker,
    Backend::Microvm,
    Backend::Microsandbox,
    Backend::Gvisor,
    Backend::Native,
    Backend::Podman,
    Backend::Docker,
];

/// A backend and the reason for choosing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendChoice {
    pub backend: Backend,
    pub reason: String,
}

/// Inputs of the choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SelectionInput<'a> {
    pub(crate) require: Strength,
    /// Whether there is an image for backends that need one.
    pub(crate) has_image: bool,
    /// Probe results that are still valid, at most one for each backend.
    pub(crate) proofs: &'a [ProbeResult],
}

impl<'a> SelectionInput<'a> {
    fn proof(&self, backend: Backend) -> Option<&'a ProbeResult> {
        self.proofs.iter().find(|proof| proof.backend == backend)
    }

    /// Backends that are strong enough, whether or not they work.
    fn strong_enough(&self) -> impl Iterator<Item = Backend> {
        let require = self.require;
        BACKENDS_BY_STRENGTH
            .into_iter()
            .filter(move |one| one.strength() >= require)
    }

    /// Backends to probe before a choice is possible. Empty if a choice is possible already: a
    /// start does not probe for stronger walls than required.
    pub(crate) fn unknown(&self) -> Vec<Backend> {
        if choose(self).is_ok() {
            return Vec::new();
        }
        self.strong_enough()
            .filter(|one| self.proof(*one).is_none())
            .filter(|one| self.has_image || !one.needs_image())
            .collect()
    }
}

/// Checks that an explicitly requested backend is as strong as required.
pub(crate) fn check(backend: Backend, require: Strength) -> Result<(), SandboxError> {
    if backend == Backend::Auto || backend.strength() >= require {
        return Ok(());
    }
    Err(SandboxError::TooWeak {
        required: require,
        reason: format!(
            "the walls of `{backend}` are `{}`",
            backend.strength().name()
        ),
        advice: Some(format!(
            "drop `--backend {backend}`, or require less with `--require`"
        )),
    })
}

/// Backends that may be started for `auto`, in the order in which to try them.
pub(crate) fn choose(question: &SelectionInput<'_>) -> Result<Vec<BackendChoice>, SandboxError> {
    let mut chosen: Vec<(Backend, bool)> = Vec::new();
    let mut last = None;
    for backend in question.strong_enough() {
        if backend.needs_image() && !question.has_image {
            continue;
        }
        match question.proof(backend) {
            Some(proof) if proof.works && !proof.is_emulated => chosen.push((backend, false)),
            Some(proof) if proof.works && question.require > Strength::Namespaces => {
                last = Some((backend, true));
            }
            // Native walls need no installation, so they are tried last even after a failed probe:
            // the setting that forbade them may have changed, and their own error explains best why
            // they fail.
            Some(_) if backend == Backend::Native => last = Some((backend, false)),
            None if backend == Backend::Native => chosen.push((backend, false)),
            _ => {}
        }
    }
    chosen.extend(last);
    if chosen.is_empty() {
        return Err(too_weak_error(question));
    }
    let choices = chosen
        .into_iter()
        .map(|(backend, is_emulated)| BackendChoice {
            reason: reason(question, backend, is_emulated),
            backend,
        });
    Ok(choices.collect())
}

fn reason(question: &SelectionInput<'_>, backend: Backend, is_emulated: bool) -> String {
    let required = question.require.name();
    if is_emulated {
        return format!("`{required}` is required, and only an emulated machine was proved here");
    }
    let is_usable = |one: &Backend| question.has_image || !one.needs_image();
    let unknown: Vec<&str> = BACKENDS_BY_STRENGTH
        .into_iter()
        .take_while(|one| *one != backend)
        .filter(|one| question.proof(*one).is_none() && is_usable(one))
        .map(Backend::name)
        .collect();
    if question.proof(backend).is_none() {
        return "not probed: `hotcell doctor --probe` looks for stronger walls".to_owned();
    }
    let mut reason = "the strongest that was proved here".to_owned();
    if question.require > Strength::None {
        reason.push_str(&format!(", and `{required}` is required"));
    }
    let has_emulated = question
        .proofs
        .iter()
        .any(|proof| proof.works && proof.is_emulated);
    if has_emulated && backend.strength() < Strength::Vm {
        reason.push_str(
            " (an emulated machine is taken only where nothing else is as strong as required)",
        );
    }
    if !unknown.is_empty() {
        reason.push_str(&format!("; not probed: {}", unknown.join(", ")));
    }
    reason
}

/// Adds backends that failed to start to the reason of a choice.
pub(crate) fn reason_with_failures(reason: &str, failures: &[(Backend, String)]) -> String {
    let mut text = reason.to_owned();
    for (backend, why) in failures {
        text.push_str(&format!("; `{backend}` did not start: {why}"));
    }
    text
}

fn too_weak_error(question: &SelectionInput<'_>) -> SandboxError {
    let lacks_image = |backend: &Backend| backend.needs_image() && !question.has_image;
    let reasons: Vec<String> = question
        .strong_enough()
        .map(|backend| {
            let why = match question.proof(backend) {
                _ if lacks_image(&backend) => "it needs an image",
                Some(proof) => match &proof.problem {
                    Some(problem) => strip_backend_prefix(problem, backend),
                    None => "it does not work",
                },
                None => "it was not probed",
            };
            format!("{backend}: {why}")
        })
        .collect();
    SandboxError::TooWeak {
        required: question.require,
        reason: reasons.join("; "),
        advice: Some(if question.strong_enough().all(|one| lacks_image(&one)) {
            "`hotcell image build base` makes an image".to_owned()
        } else {
            "`hotcell doctor --probe` looks again, and says what each needs".to_owned()
        }),
    }
}

/// Removes the usual prefix from a problem that is shown after the backend's name.
pub(crate) fn strip_backend_prefix(problem: &str, backend: Backend) -> &str {
    let usual = format!("cannot use the `{backend}` backend: ");
    problem.strip_prefix(&usual).unwrap_or(problem)
}

/// Whether the backend itself caused the failed start, so that another backend may work.
pub(crate) fn is_backend_failure(error: &SandboxError) -> bool {
    matches!(
        error,
        SandboxError::Launch(_)
            | SandboxError::Walls { .. }
            | SandboxError::Unavailable { .. }
            | SandboxError::Backend { .. }
            | SandboxError::Unenforced { .. }
    )
}

#[cfg(test)]
mod tests;
