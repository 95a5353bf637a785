//! The configuration of a server. Plain data: the caller has already read flags and files.

use std::path::PathBuf;
use std::time::Duration;

use protocol::Budget;
use sandbox::SandboxSpec;

use crate::address_range::AddressRange;

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The data folder: databases, job folders (`jobs/ID/…`), uploads and the server's audit log.
    pub data: PathBuf,
    /// Maximum number of jobs that run at the same time.
    pub concurrency: usize,
    /// Maximum number of queued jobs; more are refused with 429.
    pub queue: u64,
    /// Maximum number of queued jobs of one user.
    pub queue_per_user: u64,
    /// Maximum number of jobs of one user that run at the same time.
    pub running_per_user: usize,
    /// Free bytes on the disk of the data folder that starting a job requires. Default: a fraction
    /// of the disk.
    pub disk_floor: Option<u64>,
    /// File descriptors that the process may open. Bounds the number of connections.
    pub open_files: u64,
    /// Average requests per second of one user. Bursts may be ten times as large.
    pub rate: u32,
    /// Whether every request needs a key. If not, a request without a key is made as the local
    /// admin.
    pub require_keys: bool,
    /// Accepted `Host` names besides the server's own addresses.
    pub hosts: Vec<String>,
    /// Origins of other sites that may use the API from a browser.
    pub origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` or `Forwarded` header is trusted.
    pub trusted_proxies: Vec<AddressRange>,
    /// Number of pre-started virtual machines, if jobs run in QEMU machines.
    pub machines_waiting: usize,
    pub policy: JobPolicy,
    pub retention: Retention,
    /// How long running jobs may continue on shutdown before they are parked.
    pub drain: Duration,
    /// How long a job may run without any event before it counts as stuck.
    pub stuck_after: Duration,
    /// How long an interactive or interrupted job waits for the next message.
    pub linger: Duration,
    pub outages: OutagePolicy,
    /// Maximum bytes of a request body, not counting uploads.
    pub largest_body: usize,
    /// Maximum bytes of an uploaded zip, and of a job's artifact.
    pub largest_zip: u64,
}

/// Limits and defaults of all jobs.
#[derive(Debug, Clone)]
pub struct JobPolicy {
    /// The sandbox of every job, except for its workspace. Its limits are maximums.
    pub sandbox: SandboxSpec,
    /// Maximum budget of a job.
    pub budget: Budget,
    /// Maximum run time of a job.
    pub timeout: Duration,
    /// Maximum tokens of one reply.
    pub max_tokens: u32,
    /// Whether webhooks may be delivered to non-public addresses.
    pub private_webhooks: bool,
}

/// How long ended jobs are retained.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    pub age: Duration,
    /// Maximum bytes of all jobs, files and sessions. The jobs that ended first are deleted first.
    pub size: u64,
}

/// Handling of transient failures of what jobs need: model providers, descriptors, disk.
#[derive(Debug, Clone, Copy)]
pub struct OutagePolicy {
    /// How long a job is parked after its first failure, and how long a failing provider is not
    /// used. Doubled after each further failure.
    pub first_wait: Duration,
    pub longest_wait: Duration,
    /// Maximum total time that a job is parked without a reply of the model in between. Then it
    /// gets one last try.
    pub longest_parked: Duration,
    /// Number of consecutive failing jobs after which a provider counts as failing.
    pub failures_to_open: usize,
}

impl Default for OutagePolicy {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_secs(5),
            longest_wait: Duration::from_secs(300),
            longest_parked: Duration::from_secs(24 * 3600),
            failures_to_open: 3,
        }
    }
}
