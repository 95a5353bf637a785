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
use crate::tool::{PreparedCall, Tool, ToolAccess, ToolContext, ToolError, ToolOutput};

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

/// A call of a tool with typed arguments.
struct TypedCall<'t, T: TypedTool> {
    tool: &'t T,
    arguments: Value,
    typed_arguments: T::Arguments,
}

impl<T: TypedTool> Tool for TypedToolAdapter<T> {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn access(&self) -> ToolAccess {
        T::ACCESS
    }

    fn prepare<'a>(&'a self, input: &Value) -> Result<Box<dyn PreparedCall + 'a>, ToolError> {
        let schema = &self.definition.input_schema;
        let (arguments, typed_arguments) = parse(T::NAME, schema, input.clone())?;
        Ok(Box::new(TypedCall {
            tool: &self.tool,
            arguments,
            typed_arguments,
        }))
    }
}

impl<T: TypedTool> PreparedCall for TypedCall<'_, T> {
    fn arguments(&self) -> &Value {
        &self.arguments
    }

    fn summary(&self) -> CallSummary {
        self.tool.summary(&self.typed_arguments)
    }

    fn run<'a>(
        self: Box<Self>,
        context: ToolContext<'a>,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let interrupted = || ToolError::Refused("interrupted".to_owned());
            if context.cancel.is_cancelled() {
                return Err(interrupted());
            }
            let run = self.tool.run(self.typed_arguments, context);
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
