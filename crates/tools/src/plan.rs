//! `plan`: shows the user the steps of a longer task and their progress. Has no effect: the
//! arguments of the latest call are the plan.

use protocol::{CallKind, CallSummary, ShownInput, ShownOutput};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{ToolAccess, ToolContext, ToolError, ToolOutput};
use crate::typed::TypedTool;

/// Maximum number of steps.
const MAX_STEPS: usize = 50;

#[derive(Debug)]
pub(crate) struct PlanTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// All steps, in order.
    steps: Vec<PlanStep>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanStep {
    title: String,
    status: PlanStepStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PlanStepStatus {
    Pending,
    Active,
    Done,
}

impl TypedTool for PlanTool {
    const NAME: &'static str = "plan";
    const DESCRIPTION: &'static str = "Shows the user your plan for a task of several steps. \
        Call it again, with all steps, when one is done.";
    const ACCESS: ToolAccess = ToolAccess::Reads;

    type Arguments = Arguments;

    fn summary(&self, arguments: &Arguments) -> CallSummary {
        let steps = &arguments.steps;
        let done = steps
            .iter()
            .filter(|step| step.status == PlanStepStatus::Done);
        let active = steps
            .iter()
            .find(|step| step.status == PlanStepStatus::Active);
        let next = active.map_or(String::new(), |step| format!(": {}", step.title));
        let subject = format!("{} of {} done{next}", done.count(), steps.len());
        CallSummary::new(CallKind::Plan, "plan", &subject)
            .show_input(ShownInput::Nothing)
            .show_output(ShownOutput::Plan)
    }

    async fn run(&self, arguments: Arguments, _: ToolContext<'_>) -> Result<ToolOutput, ToolError> {
        match arguments.steps.len() {
            1..=MAX_STEPS => Ok(ToolOutput::text("The user sees the plan.")),
            0 => Err(ToolError::Refused(
                "a plan has at least one step".to_owned(),
            )),
            count => Err(ToolError::Refused(format!(
                "{count} steps are too many: at most {MAX_STEPS}"
            ))),
        }
    }
}
