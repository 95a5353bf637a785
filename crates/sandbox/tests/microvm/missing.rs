//! A missing component is reported on one line, with how to get it.

use std::path::Path;
use std::sync::Arc;

use sandbox::{Provisions, Sandbox};

use crate::scene::{Scene, within};

#[test]
fn what_is_missing_is_named() {
    within(async {
        let check = async |change: fn(&mut Provisions), says: &str, advice: &str| {
            let scene = Scene::shared();
            let workspace = tempfile::tempdir().unwrap();
            let mut spec = scene.spec(workspace.path());
            let mut provisions = Provisions::clone(&spec.provisions);
            change(&mut provisions);
            spec.provisions = Arc::new(provisions);
            let error = Sandbox::start(spec).await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains(says) && !text.contains('\n'), "{text}");
            let hint = error.hint().unwrap_or_default();
            assert!(hint.contains(advice), "{hint}");
        };
        let kernel = |provisions: &mut Provisions| {
            provisions.machines.kernel = Some(Path::new("/nowhere/kernel").into());
        };
        let qemu = |provisions: &mut Provisions| {
            provisions.machines.qemu = "qemu-of-nobody".into();
        };
        let image = |provisions: &mut Provisions| provisions.default_image = None;
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
