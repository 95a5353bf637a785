//! Flags of the server and of its keys.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use orchestrator::AddressRange;

use super::{BudgetFlags, ModelFlags, StoreFlags, WallFlags};
use crate::values::{parse_count, parse_duration, parse_size};

#[derive(Debug, Args)]
pub(crate) struct ServeFlags {
    /// Address to listen on. Addresses beyond this machine require a key: see `hotcell keys
    /// create`.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "HOTCELL_LISTEN",
        default_value = "127.0.0.1:3001"
    )]
    pub(crate) listen: SocketAddr,

    /// Require a key on this machine too.
    #[arg(long)]
    pub(crate) require_keys: bool,

    /// If there is no key yet, create an admin key and write it to this file, readable only by its
    /// owner. For servers that start unattended.
    #[arg(long, value_name = "FILE", env = "HOTCELL_FIRST_KEY")]
    pub(crate) first_key: Option<PathBuf>,

    /// Host name of the server, such as `hotcell.example.com`; can be repeated.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Vec<String>,

    /// Origin whose pages may use the API, such as `https://tools.example.com`; can be repeated.
    #[arg(long, value_name = "ORIGIN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) origin: Vec<String>,

    /// Proxy address, or a range such as `10.0.0.0/8`, whose `X-Forwarded-For` or `Forwarded`
    /// headers are trusted; can be repeated.
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<AddressRange>,

    /// Allow webhooks to addresses that are not public.
    #[arg(long)]
    pub(crate) private_webhooks: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) load: LoadFlags,

    #[command(flatten)]
    pub(crate) keep: RetentionFlags,

    #[command(flatten)]
    pub(crate) sandbox: ServerSandboxFlags,

    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

/// Limits of every job's sandbox.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Sandbox of each job; its limits are the maximum that a job may request"
)]
pub(crate) struct ServerSandboxFlags {
    #[command(flatten)]
    pub(crate) walls: WallFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadFlags {
    /// Maximum jobs that run at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "16", value_parser = parse_count)]
    pub(crate) concurrency: u64,

    /// Maximum running jobs per user [default: same as `--concurrency`].
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) running_per_user: Option<u64>,

    /// Maximum queued jobs.
    #[arg(long, value_name = "NUMBER", default_value = "100000", value_parser = parse_count)]
    pub(crate) queue: u64,

    /// Maximum queued jobs per user [default: same as `--queue`].
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) queue_per_user: Option<u64>,

    /// Maximum requests per second per user, on average.
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = parse_count)]
    pub(crate) rate: u64,

    /// Maximum run time of a job, even if it requests more.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub(crate) job_timeout: Duration,

    /// How long a job may run without any activity.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_duration)]
    pub(crate) stuck_after: Duration,

    /// How long a chat or an interrupted job waits for the next message.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) linger: Duration,

    /// Maximum total time that a job is parked because of failures of the model's provider, the
    /// disk or the server's open files. After that it gets a last attempt.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    pub(crate) max_parked: Duration,

    /// Minimum free disk space in the data folder for starting jobs [default: 512M, or a twentieth
    /// of a smaller disk].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk_floor: Option<u64>,

    /// How long running jobs may continue after the server is told to stop; then they are parked.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) drain: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Retention")]
pub(crate) struct RetentionFlags {
    /// How long ended jobs are kept.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    pub(crate) keep_for: Duration,

    /// Maximum size of all stored jobs; those that ended first are removed first.
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = parse_size)]
    pub(crate) keep_size: u64,

    /// Maximum size of a job's input or output zip.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    pub(crate) largest_zip: u64,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print its token once.
    Create {
        #[command(flatten)]
        store: StoreFlags,

        /// User that the key belongs to.
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        user: String,

        /// Role of the user; an admin sees all jobs and manages keys.
        #[arg(long, value_name = "ROLE", value_parser = ["admin", "user"], default_value = "user")]
        role: String,

        /// Description of the key.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
    },
    /// List keys without their tokens.
    List {
        #[command(flatten)]
        store: StoreFlags,

        /// Print JSON, one key per line.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key and the logins made with it.
    Revoke {
        #[command(flatten)]
        store: StoreFlags,

        /// Key ID, as shown by `hotcell keys list`.
        #[arg(value_name = "ID")]
        id: uuid::Uuid,
    },
}
