//! Builds the guest, statically linked and in its own profile, for embedding; and the small library
//! that is preloaded into programs inside gVisor.
//!
//! The guest has different build settings (static, small, `panic = abort`), so it gets its own
//! cargo run, in its own target folder beside this one.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let crates = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    for part in ["guest", "link", "share", "walls"] {
        println!(
            "cargo::rerun-if-changed={}",
            crates.join(part).join("src").display()
        );
        println!(
            "cargo::rerun-if-changed={}",
            crates.join(part).join("Cargo.toml").display()
        );
    }
    let workspace = crates.join("..");
    println!(
        "cargo::rerun-if-changed={}",
        workspace.join("Cargo.lock").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        workspace.join("Cargo.toml").display()
    );

    let target = env::var("TARGET")?;
    let folder = target_folder(Path::new(&env::var("OUT_DIR")?))?.join("guest");
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo
        .current_dir(&workspace)
        .args([
            "build",
            "--locked",
            "--package",
            "guest",
            "--profile",
            "guest",
        ])
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&folder)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET_DIR")
        .env_remove("CARGO_TARGET_DIR")
        // Compiler wrappers such as clippy must not apply to the guest.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C relocation-model=static",
        );
    if !cargo.status()?.success() {
        return Err("cannot build the guest".into());
    }
    let guest = folder.join(&target).join("guest").join("hotcell-guest");
    println!("cargo::rustc-env=HOTCELL_GUEST={}", guest.display());
    build_preload(&target)
}

/// A single file without dependencies needs no cargo.
fn build_preload(target: &str) -> Result<(), Box<dyn Error>> {
    let source = "src/backends/gvisor/preload/lib.rs";
    println!("cargo::rerun-if-changed={source}");
    let library = PathBuf::from(env::var("OUT_DIR")?).join("preload.so");
    let status = Command::new(env::var("RUSTC")?)
        .args(["--edition", "2024", "--crate-type", "cdylib"])
        .args(["--crate-name", "preload", "--target", target])
        .args(["-O", "-C", "panic=abort", "-C", "strip=symbols"])
        // Few segments, because every program maps each of them at its start.
        .args(["-C", "relro-level=off"])
        .args(["-C", "link-arg=-Wl,-z,noseparate-code,--no-rosegment"])
        .args(["-C", "link-arg=-nostdlib", "-o"])
        .arg(&library)
        .arg(source)
        .status()?;
    if !status.success() {
        return Err("cannot build the library for gVisor".into());
    }
    println!("cargo::rustc-env=HOTCELL_PRELOAD={}", library.display());
    Ok(())
}

/// `target`, from `target/<profile>/build/<package>-<hash>/out` or one level deeper.
fn target_folder(out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let build = out.ancestors().find(|folder| folder.ends_with("build"));
    let profile = build.and_then(Path::parent).ok_or("unexpected OUT_DIR")?;
    Ok(profile.parent().ok_or("unexpected OUT_DIR")?.to_owned())
}
