//! `hotcell serve`: starts the orchestrator and waits until it has ended.

use std::io::Write;
use std::sync::Arc;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use orchestrator::{
    JobPolicy, OutagePolicy, Retention, ServeError, Server, ServerConfig, ServerModels,
};
use sandbox::{Backend, SandboxSpec, Strength, doctor};
use tokio::signal::unix::{SignalKind, signal};

use super::keys;
use crate::args::ServeFlags;
use crate::cli_error::{CliError, warn};
use crate::settings::{
    ConfiguredModels, SettingOverrides, Settings, budget_limits, confirm_env_file, data_folder,
    reply_tokens, walls,
};

const SERVER_FAILED: u8 = 1;

/// Maximum bytes of a request, except uploads.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Assumed limit of open files where it is unknown.
const DEFAULT_OPEN_FILES: u64 = 1024;

pub(crate) fn run(serve: &ServeFlags) -> Result<u8, CliError> {
    let open_files = raise_open_files_limit();
    let overrides = SettingOverrides::default()
        .model(&serve.model)
        .store(&serve.store);
    confirm_env_file(&overrides)?;
    let settings = Settings::read(&overrides)?;
    let config = config(serve, &settings, open_files)?;
    let models = ConfiguredModels::for_server(settings)?;
    // Other models may still work, and a key may be added before the next start.
    if let Err(why) = models.choose_or_default(None, 0) {
        warn(format!("jobs that name no model will be refused: {why}"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            CliError::new(SERVER_FAILED, format!("cannot start the runtime: {error}"))
        })?;
    runtime.block_on(run_server(config, models, serve))
}

/// Raises the limit of open files to its maximum and returns it. Sandboxes have their own limits.
fn raise_open_files_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return DEFAULT_OPEN_FILES;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

async fn run_server(
    config: ServerConfig,
    models: ConfiguredModels,
    serve: &ServeFlags,
) -> Result<u8, CliError> {
    check_walls(&config.policy.sandbox).await?;
    let listen = |kind| {
        signal(kind).map_err(|error| {
            CliError::new(SERVER_FAILED, format!("cannot listen to signals: {error}"))
        })
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    if let Some(file) = &serve.first_key {
        keys::create_first_key(&config.data, file).await?;
    }
    let server = Server::start(config, Arc::new(models), serve.listen).await?;
    // Parsed by programs that start a server on any port: the address is the last word.
    let _ = writeln!(
        std::io::stdout(),
        "hotcell listens on http://{}",
        server.address()
    );
    let end = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    server.run(end).await?;
    Ok(0)
}

/// Fails if the required strength is not available: every job would fail for the same reason.
async fn check_walls(spec: &SandboxSpec) -> Result<(), CliError> {
    if spec.backend != Backend::Auto || spec.require <= Strength::Namespaces {
        return Ok(());
    }
    let cannot = |error| CliError::new(SERVER_FAILED, format!("cannot create a folder: {error}"));
    let scratch = tempfile::tempdir().map_err(cannot)?;
    let spec = SandboxSpec {
        workspace: scratch.path().canonicalize().map_err(cannot)?,
        ..spec.clone()
    };
    doctor::resolve_auto(&spec).await?;
    Ok(())
}

fn config(
    serve: &ServeFlags,
    settings: &Settings,
    open_files: u64,
) -> Result<ServerConfig, CliError> {
    let load = &serve.load;
    let sandbox = walls(&serve.sandbox.walls, settings)?;
    // Tasks come from any client that can reach the server.
    if sandbox.backend == Backend::None {
        return Err(CliError::usage("a server requires a sandbox")
            .hint("drop `--backend none`, or USE_SANDBOX=false".to_owned()));
    }
    // The time limit of a job is its timeout.
    let (budget, _) = budget_limits(settings, &serve.budget)?;
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(ServerConfig {
        data: data_folder(&serve.store, None)?,
        concurrency: count(load.concurrency),
        queue: load.queue,
        queue_per_user: load.queue_per_user.unwrap_or(load.queue),
        running_per_user: count(load.running_per_user.unwrap_or(load.concurrency)),
        open_files,
        disk_floor: load.disk_floor,
        rate: u32::try_from(load.rate).unwrap_or(u32::MAX),
        require_keys: serve.require_keys,
        hosts: serve.host.clone(),
        origins: serve.origin.clone(),
        trusted_proxies: serve.trusted_proxy.clone(),
        machines_waiting: machines_waiting(settings)?,
        policy: JobPolicy {
            sandbox,
            budget,
            timeout: load.job_timeout,
            max_tokens: reply_tokens(settings)?,
            private_webhooks: serve.private_webhooks,
        },
        retention: Retention {
            age: serve.keep.keep_for,
            size: serve.keep.keep_size,
        },
        drain: load.drain,
        stuck_after: load.stuck_after,
        linger: load.linger,
        outages: OutagePolicy {
            longest_parked: load.max_parked,
            ..OutagePolicy::default()
        },
        largest_body: MAX_BODY_BYTES,
        largest_zip: serve.keep.largest_zip,
    })
}

fn machines_waiting(settings: &Settings) -> Result<usize, CliError> {
    let parse = |text: &str| {
        let number = text.parse::<usize>().ok().filter(|number| *number <= 1000);
        number.ok_or_else(|| "it must be a whole number up to 1000; 0 means none".to_owned())
    };
    let number = settings.parse("backends.machines_waiting", parse)?;
    Ok(number.unwrap_or_default())
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        let hint = match &error {
            ServeError::InUse { .. } => "stop the other one, or choose another `--data FOLDER`",
            ServeError::Listen { .. } => "choose another address with `--listen HOST:PORT`",
            ServeError::NoKeys { .. } => {
                "create a key with `hotcell keys create --user NAME --role admin`"
            }
            ServeError::Folder { .. } | ServeError::Audit(_) => {
                "choose another folder with `--data FOLDER`"
            }
            _ => return Self::from_error(SERVER_FAILED, &error),
        };
        Self::from_error(SERVER_FAILED, &error).hint(hint.to_owned())
    }
}
