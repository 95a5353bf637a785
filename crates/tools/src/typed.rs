//! Tools with typed arguments. A tool declares its arguments as a struct; the schema, validation
//! and cancellation are shared.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use protocol::{CallSummary, ToolDefinition};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::parse;
use crate::schema::schema_of;
use crate::tool::{Tool, ToolAccess, ToolContext, ToolError, ToolOutput};

/// A tool whose arguments are a struct. [`adapt`] converts it to a [`Tool`].
pub trait TypedTool: Send + Sync + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const ACCESS: ToolAccess;

    type Arguments: DeserializeOwned + JsonSchema + Send;

    /// What the user sees of a call, everywhere.
    fn summary(&self, arguments: &Self::Arguments) -> CallSummary;

    /// Runs the tool. A tool that changes something must handle `context.cancel` itself; the future
    /// of a read-only tool is dropped on cancellation.
    fn run<'a>(
        &'a self,
        arguments: Self::Arguments,
        context: ToolContext<'a>,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'a;
}

/// Wraps the tool so that a model can call it.
pub fn adapt<T: TypedTool>(tool: T) -> Arc<dyn Tool> {
    Arc::new(TypedToolAdapter {
        definition: ToolDefinition {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            input_schema: schema_of::<T::Arguments>(),
        },
        tool,
    })
}

struct TypedToolAdapter<T> {
    definition: ToolDefinition,
    tool: T,
}

impl<T: TypedTool> TypedToolAdapter<T> {
    fn parse(&self, input: Value) -> Result<T::Arguments, ToolError> {
        parse(T::NAME, &self.definition.input_schema, input)
    }
}

impl<T: TypedTool> Tool for TypedToolAdapter<T> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn access(&self) -> ToolAccess {
        T::ACCESS
    }

    fn summary(&self, input: &Value) -> CallSummary {
        match self.parse(input.clone()) {
            Ok(arguments) => self.tool.summary(&arguments),
            Err(_) => CallSummary::generic(T::NAME, input),
        }
    }

    fn run<'a>(
        &'a self,
        input: Value,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = self.parse(input)?;
            let interrupted = || ToolError::Refused("interrupted".to_owned());
            if context.cancel.is_cancelled() {
                return Err(interrupted());
            }
            let run = self.tool.run(arguments, context);
            if T::ACCESS == ToolAccess::Changes {
                return run.await;
            }
            tokio::select! {
                outcome = run => outcome,
                () = context.cancel.cancelled() => Err(interrupted()),
            }
        })
    }
}
