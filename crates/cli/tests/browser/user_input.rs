//! User input in a browser: mouse, keys, uploads and downloads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fantoccini::Locator;
use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use tokio::time::Instant;

use crate::browser::{Browser, PAGE_TIMEOUT, POLL_INTERVAL};
use crate::client::unzip;

/// How often a click on a moving element is retried.
const MAX_CLICK_RETRIES: usize = 20;

impl Browser {
    /// Clicks an element.
    #[track_caller]
    pub(crate) fn click<'a>(
        &'a self,
        css: &str,
        words: &str,
    ) -> impl Future<Output = ()> + use<'a> {
        let what = format!("{css} {words}");
        let found = self.find(css, words);
        async move {
            let element = found.await;
            // Away from the bars at the top and the bottom.
            let script = "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })";
            let itself = serde_json::to_value(&element).unwrap();
            for aims_left in (0..MAX_CLICK_RETRIES).rev() {
                self.client
                    .execute(script, vec![itself.clone()])
                    .await
                    .unwrap();
                match element.click().await {
                    Ok(()) => return,
                    // The page scrolled under the mouse while text was streaming.
                    Err(error) if aims_left > 0 && error.to_string().contains("intercepted") => {
                        self.wait_drawn().await;
                    }
                    Err(error) => panic!("cannot click {what}: {error}"),
                }
            }
        }
    }

    /// Clicks into a field and types.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        self.find(css, "").await.send_keys(text).await.unwrap();
    }

    /// Sets the file of a file input, which need not be visible.
    pub(crate) async fn upload(&self, css: &str, file: &Path) {
        let field = self.client.find(Locator::Css(css)).await;
        field
            .unwrap()
            .send_keys(file.to_str().unwrap())
            .await
            .unwrap();
    }

    /// Presses keys in the focused element.
    pub(crate) async fn press(&self, keys: &str) {
        let mut actions = KeyActions::new("keyboard".to_owned());
        for value in keys.chars() {
            actions = actions
                .then(KeyAction::Down { value })
                .then(KeyAction::Up { value });
        }
        self.client.perform_actions(actions).await.unwrap();
    }

    /// Presses a key while Control is held.
    pub(crate) async fn press_with_control(&self, key: Key) {
        let (control, value) = (char::from(Key::Control), char::from(key));
        let actions = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value: control })
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value })
            .then(KeyAction::Up { value: control });
        self.client.perform_actions(actions).await.unwrap();
    }

    /// Waits for a downloaded zip and returns its files.
    pub(crate) async fn downloaded_files(&self) -> BTreeMap<String, String> {
        let folder = self.driver.downloads();
        let give_up = Instant::now() + PAGE_TIMEOUT;
        loop {
            let entries = std::fs::read_dir(&folder).unwrap().flatten();
            let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            let of_kind = |kind: &str| {
                let is_it = |path: &&PathBuf| path.extension().is_some_and(|end| end == kind);
                files.iter().find(is_it)
            };
            // Chromium first creates an empty file with the final name, and fills it at the end.
            if let (Some(file), None) = (of_kind("zip"), of_kind("crdownload"))
                && std::fs::metadata(file).is_ok_and(|found| found.len() > 0)
            {
                return unzip(&std::fs::read(file).unwrap());
            }
            assert!(Instant::now() < give_up, "no zip was downloaded");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
