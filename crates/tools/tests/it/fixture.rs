//! Test fixture: a sandbox with its workspace, the tools, and a store for long output.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use protocol::Kept;
use sandbox::{Sandbox, SandboxSpec};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tools::{OutputStore, ToolContext, ToolError, ToolOutput, ToolSet};

/// A test that takes longer is treated as hanging. Tests take far less.
const TEST_TIMEOUT: Duration = Duration::from_secs(100);

/// Runs a test with a timeout. On one thread, so that its memory can be measured apart from other
/// tests.
pub(crate) fn run_test(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            tokio::time::timeout(TEST_TIMEOUT, test)
                .await
                .expect("the test hangs");
        });
}

/// Waits for a condition by polling.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let give_up = Instant::now() + TEST_TIMEOUT / 2;
    while !condition().await {
        assert!(Instant::now() < give_up, "never came about: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Stores output in memory, as a session does on disk.
#[derive(Default)]
pub(crate) struct MemoryOutputs {
    pub(crate) kept: Mutex<Vec<Vec<u8>>>,
}

impl OutputStore for MemoryOutputs {
    fn store(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>> {
        Box::pin(async move {
            let mut kept = self.kept.lock().unwrap();
            let bytes = output.len() as u64;
            kept.push(output);
            let handle = format!("output:{}", kept.len());
            Ok(Kept { handle, bytes })
        })
    }

    fn read<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async move {
            let number = handle.strip_prefix("output:").unwrap().parse::<usize>();
            let kept = self.kept.lock().unwrap();
            Ok(number.ok().and_then(|number| kept.get(number - 1).cloned()))
        })
    }
}

pub(crate) struct ToolFixture {
    pub(crate) sandbox: Sandbox,
    pub(crate) folder: TempDir,
    pub(crate) outputs: MemoryOutputs,
    /// Commands that continued after their calls, by job.
    pub(crate) background: Mutex<Vec<(u32, String)>>,
    pub(crate) tools: ToolSet,
}

impl ToolFixture {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut SandboxSpec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = SandboxSpec::new(folder.path());
        change(&mut spec);
        Self {
            sandbox: Sandbox::start(spec).await.unwrap(),
            folder,
            outputs: MemoryOutputs::default(),
            background: Default::default(),
            tools: ToolSet::standard(),
        }
    }

    /// The host path of a workspace file.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) async fn call_with(
        &self,
        tool: &str,
        input: Value,
        cancel: &CancellationToken,
        print: &(dyn Fn(&[u8], bool) + Send + Sync),
    ) -> Result<ToolOutput, ToolError> {
        let context = ToolContext {
            sandbox: &self.sandbox,
            cancel,
            print,
            background: &|job, command| {
                self.background
                    .lock()
                    .unwrap()
                    .push((job, command.to_owned()));
            },
            outputs: &self.outputs,
        };
        let call = self.tools.find(tool).unwrap().prepare(&input)?;
        call.run(context).await
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<ToolOutput, ToolError> {
        self.call_with(tool, input, &CancellationToken::new(), &|_, _| {})
            .await
    }

    /// The text of a successful call.
    pub(crate) fn call_text(&self, tool: &str, input: Value) -> impl Future<Output = String> {
        let shown = format!("{tool} {input}");
        async move {
            let output = self.call(tool, input).await.unwrap();
            assert!(!output.is_error, "{shown}: {output:?}");
            text(&output)
        }
    }

    /// The error text of a failed call.
    pub(crate) async fn refused(&self, tool: &str, input: Value) -> String {
        match self.call(tool, input.clone()).await {
            Err(error @ (ToolError::Refused(_) | ToolError::Arguments { .. })) => error.to_string(),
            other => panic!("{tool} {input}: expected a refusal, got {other:?}"),
        }
    }

    /// Waits until no command is running.
    pub(crate) async fn wait_until_idle(&self) {
        eventually("all are gone", async || {
            self.sandbox.stats().await.unwrap().processes == 1
        })
        .await;
    }

    pub(crate) async fn end(self) {
        self.sandbox.end().await;
    }
}

/// The text of a result.
pub(crate) fn text(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|block| block.as_text());
    texts.collect()
}
