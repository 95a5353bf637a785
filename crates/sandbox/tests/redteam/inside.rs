//! What a sandbox's own kernel reports about its processes, through the guest: for kernels other
//! than the host's. Starts no command, so a full sandbox can answer too.

use sandbox::Sandbox;
use sandbox::request::ListRequest;

use crate::attack::CheckResult;
use crate::scene::within;

/// The number of processes, and of all their threads.
pub(crate) async fn processes(sandbox: &Sandbox) -> CheckResult<(usize, usize)> {
    let pids = numbers(sandbox, "/proc").await?;
    let mut threads = 0;
    for pid in &pids {
        // A process that has ended meanwhile has none.
        let tasks = numbers(sandbox, &format!("/proc/{pid}/task")).await;
        threads += tasks.map_or(0, |tasks| tasks.len());
    }
    Ok((pids.len(), threads))
}

async fn numbers(sandbox: &Sandbox, folder: &str) -> CheckResult<Vec<u32>> {
    let list = ListRequest {
        path: folder.into(),
        depth: 1,
        ignore: false,
        hidden: false,
        globs: Vec::new(),
        limit: 100_000,
    };
    let listing = async { sandbox.list(list).await?.collect().await };
    let (entries, _) = within("list the processes", listing).await?;
    let names = entries.iter().map(|entry| entry.path.to_string());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}
