//! API keys: create, list, revoke. A token is returned only once, when it is created.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use protocol::job::{ApiKey, UserRole};
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::SharedHttp;
use crate::http::extractors::{AuthenticatedCaller, JsonBody, KeyPath};
use crate::http::guard::owner::KeylessUser;
use crate::http::problem::{HttpProblem, ProblemDocument, ProblemKind};

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyList {
    keys: Vec<ApiKey>,
}

/// A key to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// The user of the key.
    #[schema(
        min_length = 1,
        max_length = 100,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
    )]
    user: String,
    role: UserRole,
    /// A note on what the key is used for.
    #[serde(default)]
    #[schema(
        max_length = 100,
        pattern = r"^([^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*)?$"
    )]
    label: String,
}

/// A key that was created.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MadeKey {
    key: ApiKey,
    /// The secret token. It is not shown again.
    token: String,
}

/// Lists keys: all for an admin, only their own for other users.
#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "keys",
    operation_id = "list_keys",
    responses((status = OK, body = KeyList, description = "The keys, without their tokens.")),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: AuthenticatedCaller,
) -> Result<Json<KeyList>, HttpProblem> {
    let keys = app.keys(&caller).await?;
    Ok(Json(KeyList { keys }))
}

/// Creates a key. Users who are not admins can create only keys of their own.
#[utoipa::path(
    post,
    path = "/v1/keys",
    tag = "keys",
    operation_id = "create_key",
    request_body = NewKey,
    responses(
        (status = CREATED, body = MadeKey, description = "The key, with its token."),
        (status = FORBIDDEN, body = ProblemDocument, content_type = "application/problem+json", description = "Only an admin may create keys for other users, or keys of an admin."),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    caller: AuthenticatedCaller,
    keyless: Option<Extension<KeylessUser>>,
    JsonBody(new): JsonBody<NewKey>,
) -> Result<(StatusCode, Json<MadeKey>), HttpProblem> {
    // A key remains valid after the server requires keys.
    if let Some(Extension(KeylessUser::Root)) = keyless {
        return Err(HttpProblem::new(
            ProblemKind::OtherUser,
            "without a key, only the user that the server runs as makes keys",
        )
        .hint("use `hotcell keys create --user NAME` with the server's data folder"));
    }
    let made = app.create_key(&caller, new.user, new.role, new.label);
    let (key, token) = made.await?;
    let made = MadeKey {
        key,
        token: token.expose_secret().to_owned(),
    };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Revokes a key, and ends the logins that were made with it.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    operation_id = "revoke_key",
    params(("id" = uuid::Uuid, Path)),
    responses(
        (status = NO_CONTENT, description = "The key is revoked."),
        (status = NOT_FOUND, body = ProblemDocument, content_type = "application/problem+json", description = "There is no such key, or the caller may not see it."),
        (status = CONFLICT, body = ProblemDocument, content_type = "application/problem+json", description = "The key was already revoked."),
    ),
)]
pub(crate) async fn revoke(
    State(http): State<SharedHttp>,
    caller: AuthenticatedCaller,
    KeyPath(id): KeyPath,
) -> Result<StatusCode, HttpProblem> {
    let revoked = http.app.revoke_key(&caller, id).await;
    // Also after a failure: the key may have been revoked.
    http.authenticator.invalidate_key(id);
    revoked?;
    Ok(StatusCode::NO_CONTENT)
}
