//! The web UI: pages, styles and modules for the browser, embedded in the binary.
//!
//! Plain files in `assets`, without a build step. Does not know HTTP or jobs: it returns bytes by
//! name. Entry point: [`find`].

use std::borrow::Cow;

use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "assets"]
struct Assets;

/// A file for the browser.
#[derive(Debug, Clone)]
pub struct Asset {
    pub content: Cow<'static, [u8]>,
    pub media_type: &'static str,
    /// Changes with the content.
    pub hash: [u8; 32],
}

/// The file of this name, such as `app.js`.
pub fn find(name: &str) -> Option<Asset> {
    let file = Assets::get(name)?;
    Some(Asset {
        media_type: media_type(name),
        hash: file.metadata.sha256_hash(),
        content: file.data,
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "webmanifest" => "application/json",
        "png" => "image/png",
        _ => "application/octet-stream",
    }
}
