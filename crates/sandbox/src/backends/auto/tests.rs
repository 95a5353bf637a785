//! `auto` with real sandboxes: native walls, and broken programs in place of other backends.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use protocol::{Backend, Strength};

use crate::backend_config::BackendConfig;
use crate::exec::ExecCommand;
use crate::handle::Sandbox;
use crate::probe_cache::{ProbeCache, ProbeResult};
use crate::spec::SandboxSpec;

struct Fixture {
    folder: tempfile::TempDir,
    provisions: BackendConfig,
}

impl Fixture {
    /// A machine on which no backend is installed.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let absent = |name: &str| folder.path().join("absent").join(name);
        let mut provisions = BackendConfig {
            cache: folder.path().join("cache"),
            default_image: Some(folder.path().to_owned()),
            ..BackendConfig::default()
        };
        provisions.containers.podman = absent("podman");
        provisions.containers.docker_socket = absent("docker.sock");
        provisions.gvisor.runsc = absent("runsc");
        provisions.machines.qemu = absent("qemu");
        provisions.machines.firecracker = absent("firecracker");
        provisions.machines.jailer = absent("jailer");
        provisions.machines.microsandbox = absent("msb");
        fs::create_dir(folder.path().join("workspace")).unwrap();
        Self { folder, provisions }
    }

    fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            provisions: Arc::new(self.provisions.clone()),
            ..SandboxSpec::new(self.folder.path().join("workspace"))
        }
    }

    fn store_success(&self, backend: Backend) {
        let proof = ProbeResult {
            works: true,
            ..ProbeResult::of(backend)
        };
        let mut proofs = ProbeCache::read(&self.provisions);
        proofs.keep(proof, &self.provisions).unwrap();
    }

    fn verdict(&self, backend: Backend) -> Option<bool> {
        let proofs = ProbeCache::read(&self.provisions);
        let found = proofs.all().iter().find(|proof| proof.backend == backend);
        found.map(|proof| proof.works)
    }
}

#[tokio::test]
async fn what_was_not_probed_is_native_and_says_so() {
    let scene = Fixture::new();
    let sandbox = Sandbox::start(scene.spec()).await.unwrap();
    assert_eq!(sandbox.info().backend, Backend::Native);
    assert_eq!(
        sandbox.info().reason,
        "not probed: `hotcell doctor --probe` looks for stronger walls"
    );
    assert_eq!(sandbox.info().strength, Some(Strength::Namespaces));
    sandbox.end().await;
    // A start does not probe backends that are not required.
    assert!(!scene.provisions.cache.exists());
}

#[tokio::test]
async fn a_name_is_its_own_reason() {
    let spec = SandboxSpec {
        backend: Backend::Native,
        ..Fixture::new().spec()
    };
    let workspace = tempfile::tempdir().unwrap();
    let spec = SandboxSpec {
        workspace: workspace.path().to_owned(),
        ..spec
    };
    let sandbox = Sandbox::start(spec).await.unwrap();
    assert_eq!(sandbox.info().reason, "asked for");
    sandbox.end().await;
}

#[tokio::test]
async fn what_is_required_is_looked_at_once_and_never_replaced_by_less() {
    let scene = Fixture::new();
    for (require, looked_at) in [
        (
            Strength::Vm,
            &[
                Backend::Firecracker,
                Backend::Microvm,
                Backend::Microsandbox,
            ][..],
        ),
        (Strength::Kernel, &[Backend::Gvisor]),
    ] {
        for _ in 0..2 {
            let spec = SandboxSpec {
                require,
                ..scene.spec()
            };
            let error = Sandbox::start(spec).await.unwrap_err();
            let text = error.to_string();
            let begins = format!(
                "nothing here is as strong as `{}`, which is required: ",
                require.name()
            );
            assert!(text.starts_with(&begins), "{text}");
            assert!(!text.contains('\n'), "{text}");
            for backend in looked_at {
                assert_eq!(scene.verdict(*backend), Some(false), "{text}");
            }
            assert_eq!(scene.verdict(Backend::Native), None);
        }
    }
}

#[tokio::test]
async fn a_weak_name_is_refused_before_anything_starts() {
    let scene = Fixture::new();
    for backend in [Backend::None, Backend::Native, Backend::Podman] {
        let spec = SandboxSpec {
            backend,
            require: Strength::Kernel,
            ..scene.spec()
        };
        let error = Sandbox::start(spec).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("which is required: the walls of"), "{text}");
    }
    assert!(!scene.provisions.cache.exists());
}

#[tokio::test]
async fn a_proof_that_turns_out_false_is_dropped_and_the_next_is_taken() {
    let mut scene = Fixture::new();
    let runsc = scene.folder.path().join("runsc");
    fs::write(&runsc, "#!/bin/sh\necho it is broken >&2\nexit 1\n").unwrap();
    fs::set_permissions(&runsc, fs::Permissions::from_mode(0o755)).unwrap();
    scene.provisions.gvisor.runsc = runsc;
    scene.store_success(Backend::Gvisor);
    scene.store_success(Backend::Native);
    let sandbox = Sandbox::start(scene.spec()).await.unwrap();
    let info = sandbox.info().clone();
    let ran = sandbox.run(ExecCommand::new(["/bin/true"])).await.unwrap();
    sandbox.end().await;
    assert!(ran.verdict.success());
    assert_eq!(info.backend, Backend::Native);
    let begins = "the strongest that was proved here";
    assert!(info.reason.starts_with(begins), "{info:?}");
    let failed = "; `gvisor` did not start: ";
    assert!(info.reason.contains(failed), "{info:?}");
    assert_eq!(scene.verdict(Backend::Gvisor), None);
    assert_eq!(scene.verdict(Backend::Native), Some(true));
    // If the strength is required, there is no weaker fallback.
    scene.store_success(Backend::Gvisor);
    let spec = SandboxSpec {
        require: Strength::Kernel,
        ..scene.spec()
    };
    Sandbox::start(spec).await.unwrap_err();
}

#[tokio::test]
async fn a_wrong_workspace_is_nobodys_fault_but_the_callers() {
    let scene = Fixture::new();
    scene.store_success(Backend::Native);
    let spec = SandboxSpec {
        workspace: scene.folder.path().join("nowhere"),
        ..scene.spec()
    };
    let error = Sandbox::start(spec).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot use workspace"));
    assert_eq!(scene.verdict(Backend::Native), Some(true));
}
