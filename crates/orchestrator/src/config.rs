//! What a server is told at its start. Plain data: whoever makes it has read flags and files.

use std::path::PathBuf;
use std::time::Duration;

use agent::Budget;
use sandbox::SandboxSpec;

use crate::address_range::AddressRange;

#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is kept: databases, `jobs/ID/…`, `uploads`, `server-audit.jsonl`.
    pub data: PathBuf,
    /// Jobs that run at the same time.
    pub concurrency: usize,
    /// Jobs that may wait; more are refused with 429.
    pub queue: u64,
    /// Jobs of one user that may wait.
    pub queue_per_user: u64,
    /// Jobs of one user that may run at the same time.
    pub running_per_user: usize,
    /// Bytes that must be free on the disk of the data folder for a job to be started; a part of the
    /// disk when absent.
    pub disk_floor: Option<u64>,
    /// Files that the process may have open: bounds how many connections there may be.
    pub open_files: u64,
    /// Requests of one user in a second, on average; bursts of ten times as many.
    pub rate: u32,
    /// Whether every request needs a key. Without, who has none is the local admin.
    pub require_keys: bool,
    /// Names under which the server may be addressed, beside its own addresses.
    pub hosts: Vec<String>,
    /// Origins of other sites that may use the API from a browser.
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` or `Forwarded` says where a request comes from.
    pub trusted_proxies: Vec<AddressRange>,
    /// Machines that wait for the next job, where jobs get machines of QEMU's.
    pub machines_waiting: usize,
    pub policy: Policy,
    pub retention: Retention,
    /// How long running jobs may go on when the server is told to end; then they are parked.
    pub drain: Duration,
    /// How long a job may run without a sign of life.
    pub stuck_after: Duration,
    /// How long an interactive or interrupted job waits for the next message.
    pub linger: Duration,
    pub outages: Outages,
    /// Bytes of one request, uploads apart.
    pub largest_body: usize,
    /// Bytes of an uploaded zip, and of a job's artifact.
    pub largest_zip: u64,
}

/// What a job may be; also what it is where it does not say.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The sandbox of every job but for its workspace. Its limits are ceilings.
    pub sandbox: SandboxSpec,
    /// Ceilings of every job.
    pub budget: Budget,
    /// How long a job may run, also if it asks for more.
    pub timeout: Duration,
    /// Most tokens of one reply.
    pub max_tokens: u32,
    /// Whether webhooks may go to addresses that are not public.
    pub private_webhooks: bool,
}

/// For how long ended jobs are kept.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub age: Duration,
    /// Bytes of all jobs together, files and sessions; the longest ended go first.
    pub size: u64,
}

/// What happens to jobs while something that they need fails: a model's provider, descriptors, disk.
#[derive(Debug, Clone, Copy)]
pub struct Outages {
    /// How long a job is parked after its first failure, and a provider is left alone after it began
    /// to fail; doubled after each further failure.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    /// How long a job may be parked in all, without a reply of the model in between. Then it gets a
    /// last try, and fails with it.
    pub longest_parked: Duration,
    /// Jobs in a row that must fail for a provider to count as failing.
    pub failures_to_open: usize,
}

impl Default for Outages {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(5),
            longest_wait: Duration::from_secs(300),
            longest_parked: Duration::from_secs(24 * 3600),
            failures_to_open: 3,
        }
    }
}
