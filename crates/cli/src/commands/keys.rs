//! `hotcell keys`: creates, lists and revokes API keys of the server, also while it runs.

use std::fs::{OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use jiff::Timestamp;
use protocol::job::{ApiKey, UserRole};
use secrecy::ExposeSecret;
use store::JobStore;
use uuid::Uuid;

use super::{print, runtime, written};
use crate::args::{KeysCommand, StoreFlags};
use crate::cli_error::CliError;
use crate::render::{clean, write_line};
use crate::settings::data_folder;

pub(crate) fn run(command: &KeysCommand) -> Result<u8, CliError> {
    runtime()?.block_on(async {
        match command {
            KeysCommand::Create {
                store,
                user,
                role,
                label,
            } => create(store, user, role, label).await,
            KeysCommand::List { store, json } => list(store, *json).await,
            KeysCommand::Revoke { store, id } => revoke(store, *id).await,
        }
    })
}

async fn open(flags: &StoreFlags) -> Result<JobStore, CliError> {
    Ok(JobStore::open(&data_folder(flags, None)?).await?)
}

async fn create(flags: &StoreFlags, user: &str, role: &str, label: &str) -> Result<u8, CliError> {
    let role = match role {
        "admin" => UserRole::Admin,
        _ => UserRole::User,
    };
    orchestrator::check_name("--user", user).map_err(CliError::usage)?;
    if !label.is_empty() {
        orchestrator::check_name("--label", label).map_err(CliError::usage)?;
    }
    let jobs = open(flags).await?;
    let now = Timestamp::now();
    let (_, token) =
        orchestrator::create_key(&jobs, user.to_owned(), role, label.to_owned(), now).await?;
    // The token alone, so that it can be assigned to a variable.
    print(&format!("{}\n", token.expose_secret()))
}

/// Creates the first key and writes it to a file, unless there is an active one.
pub(super) async fn create_first_key(data: &Path, file: &Path) -> Result<(), CliError> {
    let jobs = JobStore::open(data).await?;
    let keys = jobs.keys().await?;
    if keys.iter().any(|key| key.revoked.is_none()) {
        return Ok(());
    }
    let cannot = |error: std::io::Error| {
        CliError::usage(format!(
            "cannot write the first key to `{}`: {error}",
            file.display()
        ))
        .hint("name another file with `--first-key FILE`".to_owned())
    };
    // The file before the key: a key whose token is lost is useless.
    let mut written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(file)
        .map_err(cannot)?;
    // An existing file keeps its mode unless it is set.
    written
        .set_permissions(Permissions::from_mode(0o600))
        .map_err(cannot)?;
    let (user, role, label) = ("admin".to_owned(), UserRole::Admin, "first".to_owned());
    let made = orchestrator::create_key(&jobs, user, role, label, Timestamp::now()).await;
    let (key, token) = made?;
    if let Err(error) = writeln!(written, "{}", token.expose_secret()) {
        jobs.revoke_key(key.id, Timestamp::now()).await?;
        return Err(cannot(error));
    }
    Ok(())
}

async fn list(flags: &StoreFlags, json: bool) -> Result<u8, CliError> {
    let keys = open(flags).await?.keys().await?;
    if json {
        let mut lines = keys.iter().map(|key| serde_json::json!(key));
        return written(lines.try_for_each(|line| write_line(&line)));
    }
    if keys.is_empty() {
        return print("no keys yet: `hotcell keys create --user NAME` creates one\n");
    }
    print(&keys.iter().map(line).collect::<String>())
}

fn line(key: &ApiKey) -> String {
    let role = match key.role {
        UserRole::Admin => "admin",
        UserRole::User => "user",
    };
    let state = match key.revoked {
        Some(_) => "revoked",
        None => "active",
    };
    format!(
        "{}  {:<7}  {:<5}  {}…  {}  {}\n",
        key.id,
        state,
        role,
        key.prefix,
        clean(&key.user),
        clean(&key.label)
    )
}

async fn revoke(flags: &StoreFlags, id: Uuid) -> Result<u8, CliError> {
    if open(flags).await?.revoke_key(id, Timestamp::now()).await? {
        print("revoked\n")
    } else {
        Err(CliError::usage(format!("there is no active key `{id}`"))
            .hint("`hotcell keys list` lists keys".to_owned()))
    }
}
