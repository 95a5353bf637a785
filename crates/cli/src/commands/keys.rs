//! `hotcell keys`: makes, lists and revokes keys of the server's API, also while a server runs.

use jiff::Timestamp;
use protocol::job::{ApiKey, UserRole};
use secrecy::ExposeSecret;
use store::Jobs;
use uuid::Uuid;

use super::{print, runtime, written};
use crate::args::{KeysCommand, StoreFlags};
use crate::complaint::Complaint;
use crate::render::{clean, write_line};
use crate::settings::data_folder;

pub(crate) fn run(command: &KeysCommand) -> Result<u8, Complaint> {
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

async fn open(flags: &StoreFlags) -> Result<Jobs, Complaint> {
    Ok(Jobs::open(&data_folder(flags, None)?).await?)
}

async fn create(flags: &StoreFlags, user: &str, role: &str, label: &str) -> Result<u8, Complaint> {
    let role = match role {
        "admin" => UserRole::Admin,
        _ => UserRole::User,
    };
    orchestrator::check_name("--user", user).map_err(Complaint::usage)?;
    if !label.is_empty() {
        orchestrator::check_name("--label", label).map_err(Complaint::usage)?;
    }
    let jobs = open(flags).await?;
    let now = Timestamp::now();
    let (_, token) =
        orchestrator::create_key(&jobs, user.to_owned(), role, label.to_owned(), now).await?;
    // The token alone, so that it can be put straight into a variable.
    print(&format!("{}\n", token.expose_secret()))
}

async fn list(flags: &StoreFlags, json: bool) -> Result<u8, Complaint> {
    let keys = open(flags).await?.keys().await?;
    if json {
        let mut lines = keys.iter().map(|key| serde_json::json!(key));
        return written(lines.try_for_each(|line| write_line(&line)));
    }
    if keys.is_empty() {
        return print("no keys yet: `hotcell keys create --user NAME` makes one\n");
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

async fn revoke(flags: &StoreFlags, id: Uuid) -> Result<u8, Complaint> {
    match open(flags).await?.revoke_key(id, Timestamp::now()).await? {
        true => print("revoked\n"),
        false => Err(Complaint::usage(format!("there is no active key `{id}`"))
            .hint("`hotcell keys list` shows those there are".to_owned())),
    }
}
