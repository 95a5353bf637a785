//! A missing component is reported on one line, with how to get it.

use std::path::Path;
use std::sync::Arc;

use sandbox::{BackendConfig, Sandbox};

use crate::scene::{Fixture, within};

#[test]
fn what_is_missing_is_named() {
    within(async {
        let check = async |change: fn(&mut BackendConfig), says: &str, advice: &str| {
            let scene = Fixture::shared();
            let workspace = tempfile::tempdir().unwrap();
            let mut spec = scene.spec(workspace.path());
            let mut provisions = BackendConfig::clone(&spec.provisions);
            change(&mut provisions);
            spec.provisions = Arc::new(provisions);
            let error = Sandbox::start(spec).await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(says) && !text.contains('\n'), "{text}");
            let hint = error.hint().unwrap_or_default();
            assert!(hint.contains(advice), "{hint}");
        };
        let kernel = |provisions: &mut BackendConfig| {
            provisions.machines.kernel = Some(Path::new("/nowhere/kernel").into());
        };
        let qemu = |provisions: &mut BackendConfig| {
            provisions.machines.qemu = "qemu-of-nobody".into();
        };
        let image = |provisions: &mut BackendConfig| provisions.default_image = None;
        check(
            kernel,
            "kernel `/nowhere/kernel` cannot be read",
            "another kernel",
        )
        .await;
        check(
            qemu,
            "`qemu-of-nobody` is not installed",
            "apt install qemu-system-x86",
        )
        .await;
        check(
            image,
            "a virtual machine needs an image",
            "hotcell image build base",
        )
        .await;
    });
}
