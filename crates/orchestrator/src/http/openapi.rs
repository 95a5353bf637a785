//! The OpenAPI document, generated from the routes.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AdditionalProperties, Schema};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder};

use crate::http::SharedHttp;
use crate::http::guard::PUBLIC_ROUTES;
use crate::http::pages;
use crate::http::problem::MEDIA_TYPE;

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Hotcell",
        description = "Tasks for coding agents in sandboxes: schedule, watch, collect. \
            Errors are problem documents (RFC 9457)."
    ),
    tags(
        (name = "jobs", description = "Schedule and control jobs."),
        (name = "events", description = "Live events of jobs."),
        (name = "files", description = "Files, changes, logs and artifacts of jobs."),
        (name = "keys", description = "API keys and logins."),
        (name = "server", description = "Health, metrics and this document."),
    ),
)]
pub(crate) struct ApiDescription;

/// Adds what all operations have in common: security schemes and error responses.
pub(crate) fn add_common_parts(mut document: OpenApi) -> OpenApi {
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    let header = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    components.add_security_scheme("header", SecurityScheme::ApiKey(header));
    let cookie = ApiKey::Cookie(ApiKeyValue::new("hotcell"));
    components.add_security_scheme("login", SecurityScheme::ApiKey(cookie));

    for name in ["JobInput", "RequestedInput"] {
        if let Some(RefOr::T(input)) = components.schemas.get_mut(name) {
            deny_additional_properties(input);
        }
    }

    for (path, item) in &mut document.paths.paths {
        let is_open = PUBLIC_ROUTES.contains(&path.as_str());
        let is_page = pages::is_page(path);
        if let Some(operation) = &mut item.get {
            add_common(operation, is_open || is_page);
        }
        for operation in [&mut item.post, &mut item.delete].into_iter().flatten() {
            add_common(operation, is_open);
        }
    }
    document
}

/// Sets `additionalProperties: false` on the objects of an enum; the derive does not.
fn deny_additional_properties(schema: &mut Schema) {
    match schema {
        Schema::OneOf(one_of) => {
            let items = one_of.items.iter_mut();
            items.for_each(|item| {
                if let RefOr::T(item) = item {
                    deny_additional_properties(item)
                }
            });
        }
        Schema::Object(object) if !object.properties.is_empty() => {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            let fields = object.properties.values_mut();
            fields.for_each(|field| {
                if let RefOr::T(field) = field {
                    deny_additional_properties(field)
                }
            });
        }
        _ => {}
    }
}

fn add_common(operation: &mut Operation, is_open: bool) {
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    let response = ResponseBuilder::new()
        .description("What went wrong.")
        .content(MEDIA_TYPE, problem)
        .build();
    let responses = &mut operation.responses.responses;
    responses.insert("default".to_owned(), RefOr::T(response));
    if !is_open {
        let names = ["bearer", "header", "login"];
        let needs = names.map(|name| SecurityRequirement::new(name, [] as [&str; 0]));
        // A server that is reachable only from its own machine needs no key.
        let needs = needs.into_iter().chain([SecurityRequirement::default()]);
        operation.security = Some(needs.collect());
    }
}

/// Returns this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "server",
    operation_id = "get_description",
    responses((status = OK, body = serde_json::Value, content_type = "application/json", description = "An OpenAPI document.")),
)]
pub(crate) async fn openapi(State(http): State<SharedHttp>) -> Response {
    let mut response = http.document.clone().into_response();
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
