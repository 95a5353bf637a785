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
pub(crate) struct Serve {
    /// Where to listen. Anything but this machine's own addresses needs a key: see
    /// `hotcell keys create`.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "HOTCELL_LISTEN",
        default_value = "127.0.0.1:3001"
    )]
    pub(crate) listen: SocketAddr,

    /// Asks for a key here too.
    #[arg(long)]
    pub(crate) require_keys: bool,

    /// Makes a key of an administrator and writes it into this file, which only its owner may read,
    /// when there is no key yet: for servers that start without anybody there.
    #[arg(long, value_name = "FILE", env = "HOTCELL_FIRST_KEY")]
    pub(crate) first_key: Option<PathBuf>,

    /// A name under which the server is reached, such as `hotcell.example.com`. May be given many
    /// times.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) host: Vec<String>,

    /// A site whose pages may use the API, such as `https://tools.example.com`. May be given many
    /// times.
    #[arg(long, value_name = "ORIGIN", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) origin: Vec<String>,

    /// A proxy, or a range of them such as `10.0.0.0/8`, whose `X-Forwarded-For` or `Forwarded`
    /// says which address a request comes from. May be given many times.
    #[arg(long, value_name = "CIDR")]
    pub(crate) trusted_proxy: Vec<AddressRange>,

    /// Lets webhooks go to addresses that are not public.
    #[arg(long)]
    pub(crate) private_webhooks: bool,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) load: LoadFlags,

    #[command(flatten)]
    pub(crate) keep: KeepFlags,

    #[command(flatten)]
    pub(crate) sandbox: ServerSandboxFlags,

    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

/// The ceilings of every job's sandbox.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Sandbox of every job; its limits are also the most a job may ask for"
)]
pub(crate) struct ServerSandboxFlags {
    #[command(flatten)]
    pub(crate) walls: WallFlags,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadFlags {
    /// Jobs that run at the same time.
    #[arg(long, value_name = "NUMBER", default_value = "16", value_parser = parse_count)]
    pub(crate) concurrency: u64,

    /// Jobs of one user that run at the same time [default: as many as of all].
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) running_per_user: Option<u64>,

    /// Jobs that may wait.
    #[arg(long, value_name = "NUMBER", default_value = "100000", value_parser = parse_count)]
    pub(crate) queue: u64,

    /// Jobs of one user that may wait [default: as many as of all].
    #[arg(long, value_name = "NUMBER", value_parser = parse_count)]
    pub(crate) queue_per_user: Option<u64>,

    /// Requests of one user in a second, on average.
    #[arg(long, value_name = "NUMBER", default_value = "5000", value_parser = parse_count)]
    pub(crate) rate: u64,

    /// The longest that a job may run, also if it asks for more.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration)]
    pub(crate) job_timeout: Duration,

    /// How long a job may run without a sign of life.
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_duration)]
    pub(crate) stuck_after: Duration,

    /// How long a chat or an interrupted job waits for the next message.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) linger: Duration,

    /// How long a job may be parked in all while the model's provider, the disk or open files of the
    /// server fail it. Then it gets a last try.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    pub(crate) max_parked: Duration,

    /// No job is started while less than this is free on the disk of the data folder
    /// [default: 512M, or a twentieth of a smaller disk].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk_floor: Option<u64>,

    /// How long running jobs may go on when the server is told to end; then they are parked.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(crate) drain: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is kept")]
pub(crate) struct KeepFlags {
    /// How long ended jobs are kept.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_duration)]
    pub(crate) keep_for: Duration,

    /// How much all jobs may take up; the longest ended go first.
    #[arg(long, value_name = "SIZE", default_value = "20G", value_parser = parse_size)]
    pub(crate) keep_size: u64,

    /// The largest zip that a job may come with or leave behind.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    pub(crate) largest_zip: u64,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum KeysCommand {
    /// Makes a key and prints its token, once.
    Create {
        #[command(flatten)]
        store: StoreFlags,

        /// Whose key it is.
        #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
        user: String,

        /// An admin sees everybody's jobs and looks after keys.
        #[arg(long, value_name = "ROLE", value_parser = ["admin", "user"], default_value = "user")]
        role: String,

        /// What it is for.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
    },
    /// Lists keys, without their tokens.
    List {
        #[command(flatten)]
        store: StoreFlags,

        /// One key a line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ends a key, and the logins made with it.
    Revoke {
        #[command(flatten)]
        store: StoreFlags,

        /// As `hotcell keys list` shows it.
        #[arg(value_name = "ID")]
        id: uuid::Uuid,
    },
}
