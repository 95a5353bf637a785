//! The web pages, styles and scripts embedded in the binary. They contain no data and are public;
//! they load their data from the API.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::http::SharedHttp;
use crate::http::artifacts::matches;
use crate::http::problem::{HttpProblem, ProblemKind};

/// Paths of the single-page application; also `/chat`.
const PAGE_ROUTES: [&str; 6] = ["/", "/new", "/jobs/{id}", "/history", "/keys", "/login"];

const CHAT_ROUTE: &str = "/chat";

const DOCS_ROUTE: &str = "/docs";
const ASSETS_ROUTE: &str = "/assets/{*path}";

/// Whether a route serves pages or assets, for methods that only read.
pub(crate) fn is_page(route: &str) -> bool {
    [DOCS_ROUTE, ASSETS_ROUTE, CHAT_ROUTE].contains(&route) || PAGE_ROUTES.contains(&route)
}

pub(crate) fn routes() -> Router<SharedHttp> {
    let router = PAGE_ROUTES.iter().fold(Router::new(), |router, page| {
        router.route(
            page,
            get(async |request: Request| file("index.html", &request)),
        )
    });
    router
        .route(
            DOCS_ROUTE,
            get(async |request: Request| file("docs.html", &request)),
        )
        .route(ASSETS_ROUTE, get(asset))
        .fallback(not_found)
}

/// The 404 response: a page for browsers, a problem document for programs.
async fn not_found(mut request: Request) -> Response {
    let is_look = [Method::GET, Method::HEAD].contains(request.method());
    let is_api = request.uri().path().starts_with("/v1/");
    let accepted = request.headers().get(header::ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    if !is_look || is_api || !accepted.is_some_and(|kinds| kinds.contains("text/html")) {
        return StatusCode::NOT_FOUND.into_response();
    }
    request.headers_mut().remove(header::IF_NONE_MATCH);
    let mut response = file("index.html", &request);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

/// Returns the page of a chat.
#[utoipa::path(
    get,
    path = "/chat",
    tag = "events",
    operation_id = "get_chat_page",
    responses((status = OK, body = String, content_type = "text/html; charset=utf-8", description = "The page.")),
)]
pub(crate) async fn chat(request: Request) -> Response {
    file("index.html", &request)
}

async fn asset(Path(path): Path<String>, request: Request) -> Response {
    file(&path, &request)
}

fn file(name: &str, request: &Request) -> Response {
    let Some(asset) = web::find(name) else {
        let text = format!("there is no `{name}`");
        return HttpProblem::new(ProblemKind::NotHere, text).into_response();
    };
    let hash = hex::encode(&asset.hash[..16]);
    let tag = HeaderValue::try_from(format!("\"{hash}\"")).expect("a hash is hexadecimal");
    let known = request.headers().get(header::IF_NONE_MATCH);
    let mut response = if known.is_some_and(|known| matches(known, &tag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(Body::from(asset.content));
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static(asset.media_type),
        );
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, tag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
