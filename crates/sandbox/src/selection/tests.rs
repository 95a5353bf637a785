//! Table tests of backend selection: probe results and required strength to choice.
#![allow(clippy::unwrap_used)]

use super::*;

/// Parses `gvisor microvm~ podman!`: gVisor works, the microVM works but is emulated, Podman fails.
fn proofs(text: &str) -> Vec<ProbeResult> {
    let words = text.split_whitespace();
    words
        .map(|word| {
            let name = word.trim_end_matches(['~', '!']);
            let backend = Backend::named(name).unwrap();
            ProbeResult {
                works: !word.ends_with('!'),
                is_emulated: word.ends_with('~'),
                problem: word
                    .ends_with('!')
                    .then(|| format!("cannot use the `{name}` backend: it is broken")),
                ..ProbeResult::of(backend)
            }
        })
        .collect()
}

const NOT_PROBED_REASON: &str = "not probed: `hotcell doctor --probe` looks for stronger walls";
const ALL_BACKENDS_WORK: &str = "firecracker microvm microsandbox gvisor native podman docker";

#[test]
fn auto_takes_the_strongest_that_was_proved_within_the_policy() {
    let check = |proved: &str, require, expect: &str| {
        let proofs = proofs(proved);
        let question = SelectionInput {
            require,
            has_image: true,
            proofs: &proofs,
        };
        let chosen = match choose(&question) {
            Ok(choices) => choices
                .iter()
                .map(|choice| choice.backend.name())
                .collect::<Vec<_>>()
                .join(" "),
            Err(SandboxError::TooWeak { required, .. }) => {
                assert_eq!(required, require);
                "nothing".to_owned()
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(chosen, expect, "{proved} with {require:?}");
    };
    use Strength::{Kernel, Namespaces, None, Vm};
    for require in [None, Namespaces] {
        check("", require, "native");
        check(ALL_BACKENDS_WORK, require, ALL_BACKENDS_WORK);
        check("podman docker", require, "native podman docker");
        check("gvisor native", require, "gvisor native");
        check("gvisor! podman! native", require, "native");
        // Emulated hardware is slow, so it is never chosen without a required strength.
        check("microvm~ native", require, "native");
        check("microvm~ gvisor native", require, "gvisor native");
        // The restriction on native walls may be gone by now, but they are tried last.
        check("native! podman", require, "podman native");
        check("native!", require, "native");
    }
    check("", Kernel, "nothing");
    check("native podman docker", Kernel, "nothing");
    check(
        ALL_BACKENDS_WORK,
        Kernel,
        "firecracker microvm microsandbox gvisor",
    );
    check("gvisor microvm~ native", Kernel, "gvisor microvm");
    check("gvisor! microvm~ native", Kernel, "microvm");
    check("", Vm, "nothing");
    check("gvisor native podman docker", Vm, "nothing");
    check(ALL_BACKENDS_WORK, Vm, "firecracker microvm microsandbox");
    check("microvm~ microsandbox gvisor", Vm, "microsandbox microvm");
    check("microvm~ gvisor native", Vm, "microvm");
    check("microvm! firecracker! microsandbox! gvisor", Vm, "nothing");
}

#[test]
fn without_an_image_no_machine_is_chosen() {
    let proofs = proofs(ALL_BACKENDS_WORK);
    let mut question = SelectionInput {
        require: Strength::None,
        has_image: false,
        proofs: &proofs,
    };
    assert_eq!(choose(&question).unwrap()[0].backend, Backend::Gvisor);
    question.require = Strength::Vm;
    let error = choose(&question).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing here is as strong as `vm`, which is required: firecracker: it needs an image; \
         microvm: it needs an image; microsandbox: it needs an image"
    );
    assert_eq!(
        error.hint().unwrap(),
        "`hotcell image build base` makes an image"
    );
    assert!(question.unknown().is_empty());
}

#[test]
fn the_reason_says_what_was_seen_and_what_was_not() {
    let check = |proved: &str, require, expect: &str| {
        let proofs = proofs(proved);
        let question = SelectionInput {
            require,
            has_image: true,
            proofs: &proofs,
        };
        assert_eq!(choose(&question).unwrap()[0].reason, expect, "{proved}");
    };
    check("", Strength::None, NOT_PROBED_REASON);
    check("gvisor!", Strength::None, NOT_PROBED_REASON);
    check(
        "firecracker! microvm! microsandbox! gvisor native",
        Strength::None,
        "the strongest that was proved here",
    );
    check(
        "firecracker! microvm~ microsandbox! gvisor native",
        Strength::Kernel,
        "the strongest that was proved here, and `kernel` is required (an emulated machine is \
         taken only where nothing else is as strong as required)",
    );
    check(
        "firecracker! microvm! gvisor",
        Strength::None,
        "the strongest that was proved here; not probed: microsandbox",
    );
    check(
        "firecracker! microvm~ microsandbox! gvisor",
        Strength::Vm,
        "`vm` is required, and only an emulated machine was proved here",
    );
    let told = reason_with_failures("because", &[(Backend::Gvisor, "no `runsc`".into())]);
    assert_eq!(told, "because; `gvisor` did not start: no `runsc`");
}

#[test]
fn only_what_is_required_and_unknown_is_looked_at_at_a_start() {
    let check = |proved: &str, require, expect: &[Backend]| {
        let proofs = proofs(proved);
        let question = SelectionInput {
            require,
            has_image: true,
            proofs: &proofs,
        };
        assert_eq!(question.unknown(), expect, "{proved} with {require:?}");
    };
    use Backend::{Firecracker, Gvisor, Microsandbox, Microvm};
    check("", Strength::None, &[]);
    check("", Strength::Namespaces, &[]);
    check("", Strength::Vm, &[Firecracker, Microvm, Microsandbox]);
    check(
        "microvm!",
        Strength::Kernel,
        &[Firecracker, Microsandbox, Gvisor],
    );
    check("microvm~", Strength::Vm, &[]);
    check("gvisor", Strength::Kernel, &[]);
    check("firecracker! microvm! microsandbox!", Strength::Vm, &[]);
}

#[test]
fn a_name_is_held_to_what_is_required() {
    let check = |backend, require, is_allowed: bool| {
        let outcome = super::check(backend, require);
        assert_eq!(outcome.is_ok(), is_allowed, "{backend} with {require:?}");
    };
    for backend in Backend::ALL {
        check(backend, Strength::None, true);
        let is_walled = backend != Backend::None;
        check(backend, Strength::Namespaces, is_walled);
    }
    for backend in Backend::WALLED {
        check(
            backend,
            Strength::Kernel,
            backend.strength() > Strength::Namespaces,
        );
        check(backend, Strength::Vm, backend.strength() == Strength::Vm);
    }
    let error = super::check(Backend::Native, Strength::Vm).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing here is as strong as `vm`, which is required: the walls of `native` are \
         `namespaces`"
    );
}

#[test]
fn the_order_has_every_walled_backend_once_and_never_rises() {
    for backend in Backend::WALLED {
        assert_eq!(
            BACKENDS_BY_STRENGTH
                .iter()
                .filter(|one| **one == backend)
                .count(),
            1
        );
    }
    assert!(BACKENDS_BY_STRENGTH.is_sorted_by(|one, next| one.strength() >= next.strength()));
    assert!(!BACKENDS_BY_STRENGTH.contains(&Backend::None));
}
