//! Stub tools that the tests control.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::{Block, CallSummary, ToolDefinition};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify, mpsc};
use tools::{PreparedCall, Tool, ToolAccess, ToolContext, ToolError, ToolOutput};

/// Logs its beginning and end, and behaves as told in between.
pub(crate) struct StubTool {
    definition: ToolDefinition,
    access: ToolAccess,
    inside: StubBehavior,
    log: mpsc::UnboundedSender<String>,
}

enum StubBehavior {
    /// Waits until this many calls run.
    Meet(Barrier),
    /// Never ends by itself, ignores cancellation.
    Forever,
    /// Returns a picture.
    Show,
    /// Ends when the test notifies it.
    Held(Arc<Notify>),
}

fn stub(name: &str, access: ToolAccess, inside: StubBehavior) -> (Arc<dyn Tool>, StubLog) {
    let (log, received) = mpsc::unbounded_channel();
    let tool = StubTool {
        definition: ToolDefinition {
            name: name.to_owned(),
            description: "A tool of a test.".to_owned(),
            input_schema: json!({"type": "object"}),
        },
        access,
        inside,
        log,
    };
    (Arc::new(tool), StubLog(received))
}

pub(crate) fn barrier_tool(
    name: &str,
    access: ToolAccess,
    count: usize,
) -> (Arc<dyn Tool>, StubLog) {
    stub(name, access, StubBehavior::Meet(Barrier::new(count)))
}

pub(crate) fn endless_tool(name: &str, access: ToolAccess) -> (Arc<dyn Tool>, StubLog) {
    stub(name, access, StubBehavior::Forever)
}

pub(crate) fn held_tool(name: &str, access: ToolAccess) -> (Arc<dyn Tool>, StubLog, Arc<Notify>) {
    let notify = Arc::new(Notify::new());
    let (tool, log) = stub(name, access, StubBehavior::Held(notify.clone()));
    (tool, log, notify)
}

pub(crate) fn picture_tool(name: &str) -> (Arc<dyn Tool>, StubLog) {
    stub(name, ToolAccess::Reads, StubBehavior::Show)
}

/// The log of a stub.
pub(crate) struct StubLog(mpsc::UnboundedReceiver<String>);

impl StubLog {
    pub(crate) async fn next(&mut self) -> String {
        self.0.recv().await.unwrap()
    }

    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

impl Tool for StubTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn access(&self) -> ToolAccess {
        self.access
    }

    fn prepare<'a>(&'a self, input: &Value) -> Result<Box<dyn PreparedCall + 'a>, ToolError> {
        Ok(Box::new(StubCall {
            tool: self,
            arguments: input.clone(),
        }))
    }
}

struct StubCall<'t> {
    tool: &'t StubTool,
    arguments: Value,
}

impl PreparedCall for StubCall<'_> {
    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn summary(&self) -> CallSummary {
        CallSummary::generic(&self.tool.definition.name, &self.arguments)
    }

    fn run<'a>(self: Box<Self>, _: ToolContext<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let name = self.arguments["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let _ = self.tool.log.send(format!("begin {name}"));
            match &self.tool.inside {
                StubBehavior::Meet(barrier) => {
                    barrier.wait().await;
                }
                StubBehavior::Forever => std::future::pending().await,
                StubBehavior::Held(notify) => notify.notified().await,
                StubBehavior::Show => {
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
            let _ = self.tool.log.send(format!("end {name}"));
            Ok(ToolOutput {
                detail: format!("{} letters", name.len()),
                ..ToolOutput::text(format!("did {name}"))
            })
        })
    }
}
