//! Stub tools that the tests control.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::{Block, ToolDefinition};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify, mpsc};
use tools::{Access, Context, Tool, ToolError, ToolOutput};

/// Logs its beginning and end, and behaves as told in between.
pub(crate) struct Stub {
    definition: ToolDefinition,
    access: Access,
    inside: Inside,
    log: mpsc::UnboundedSender<String>,
}

enum Inside {
    /// Waits until this many calls run.
    Meet(Barrier),
    /// Never ends by itself, ignores cancellation.
    Forever,
    /// Returns a picture.
    Show,
    /// Ends when the test notifies it.
    Held(Arc<Notify>),
}

fn stub(name: &str, access: Access, inside: Inside) -> (Arc<dyn Tool>, Log) {
    let (log, heard) = mpsc::unbounded_channel();
    let tool = Stub {
        definition: ToolDefinition {
            name: name.to_owned(),
            description: "A tool of a test.".to_owned(),
            input_schema: json!({"type": "object"}),
        },
        access,
        inside,
        log,
    };
    (Arc::new(tool), Log(heard))
}

pub(crate) fn meet(name: &str, access: Access, count: usize) -> (Arc<dyn Tool>, Log) {
    stub(name, access, Inside::Meet(Barrier::new(count)))
}

pub(crate) fn forever(name: &str, access: Access) -> (Arc<dyn Tool>, Log) {
    stub(name, access, Inside::Forever)
}

pub(crate) fn held(name: &str, access: Access) -> (Arc<dyn Tool>, Log, Arc<Notify>) {
    let notify = Arc::new(Notify::new());
    let (tool, log) = stub(name, access, Inside::Held(notify.clone()));
    (tool, log, notify)
}

pub(crate) fn picture(name: &str) -> (Arc<dyn Tool>, Log) {
    stub(name, Access::Reads, Inside::Show)
}

/// The log of a stub.
pub(crate) struct Log(mpsc::UnboundedReceiver<String>);

impl Log {
    pub(crate) async fn next(&mut self) -> String {
        self.0.recv().await.unwrap()
    }

    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

impl Tool for Stub {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn access(&self) -> Access {
        self.access
    }

    fn summary(&self, _: &Value) -> String {
        self.definition.name.clone()
    }

    fn run<'a>(
        &'a self,
        input: Value,
        _: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let name = input["name"].as_str().unwrap_or_default().to_owned();
            let _ = self.log.send(format!("begin {name}"));
            match &self.inside {
                Inside::Meet(barrier) => {
                    barrier.wait().await;
                }
                Inside::Forever => std::future::pending().await,
                Inside::Held(notify) => notify.notified().await,
                Inside::Show => {
                    return Ok(ToolOutput {
                        content: vec![
                            Block::text(format!("picture of {name}")),
                            Block::Image {
                                source: protocol::Image::Base64 {
                                    media_type: "image/png".to_owned(),
                                    data: "iVBORw0KGgo=".to_owned(),
                                },
                            },
                        ],
                        ..ToolOutput::default()
                    });
                }
            }
            let _ = self.log.send(format!("end {name}"));
            Ok(ToolOutput::text(format!("did {name}")))
        })
    }
}
