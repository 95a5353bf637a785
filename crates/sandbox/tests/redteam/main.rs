//! The red-team suite: a hostile program (`examples/hostile`) in a real sandbox, one attack after
//! the other, with checks from outside whether anything happened there.
//!
//! The attacks are tables ([`attack::Attack`]), one for each group, numbered as in the list of
//! attacks; [`suite::check`] runs one of them on a [`backend::Backend`]. `HOTCELL_TEST_BACKEND`
//! selects it. [`tested_elsewhere`] lists the attacks that other tests try, and those that have no
//! target yet, with the reason.
//!
//! `cargo test -p sandbox` builds the hostile program too; after a change of only that program,
//! `cargo build -p sandbox --examples` does.

#![allow(
    clippy::print_stdout,
    reason = "a failed group shows how each of its attacks went"
)]

mod attack;
mod backend;
mod configuration;
mod disk;
mod exhaustion;
mod files;
mod inside;
mod kernel;
mod network;
mod output;
mod outside;
mod processes;
mod scene;
mod shared;
mod sockets;
mod suite;
mod tested_elsewhere;
#[path = "../under_test/root.rs"]
mod under_test;
mod unwalled;

use suite::run_group;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_outside_the_workspace_stay_as_they_are() {
    run_group(files::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn configuration_in_the_workspace_runs_nothing_on_the_host() {
    run_group(configuration::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kernel_refuses_every_way_out() {
    run_group(kernel::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_passed() {
    run_group(exhaustion::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_limit_is_not_passed() {
    run_group(disk::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_process_is_left_and_none_hurts_the_guest() {
    run_group(processes::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_packet_leaves_but_through_the_proxy() {
    run_group(network::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_bytes_and_nothing_more() {
    run_group(output::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_machine_has_once_is_not_taken_or_told() {
    run_group(shared::ATTACKS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_in_the_workspace_do_as_the_documentation_says() {
    run_group(sockets::ATTACKS).await;
}
