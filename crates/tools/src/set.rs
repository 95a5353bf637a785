//! The tools of a session, by name. The only place that lists all of them.

use std::sync::Arc;

use protocol::ToolDefinition;

use crate::bash::BashTool;
use crate::bash_job::BashJobTool;
use crate::edit_file::EditFileTool;
use crate::list_files::ListFilesTool;
use crate::plan::PlanTool;
use crate::read_file::ReadFileTool;
use crate::search_files::SearchFilesTool;
use crate::shells::ShellRegistry;
use crate::tool::Tool;
use crate::typed::adapt;
use crate::write_file::WriteFileTool;

/// The tools of a session, in the order in which they are presented to the model.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
}

impl ToolSet {
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self { tools }
    }

    /// Every tool that works in any sandbox. A new tool is added here, and nowhere else.
    pub fn standard() -> Self {
        let shells = Arc::new(ShellRegistry::default());
        Self::new(vec![
            adapt(BashTool {
                shells: shells.clone(),
            }),
            adapt(BashJobTool { shells }),
            adapt(ReadFileTool),
            adapt(WriteFileTool),
            adapt(EditFileTool),
            adapt(ListFilesTool),
            adapt(SearchFilesTool),
            adapt(PlanTool),
        ])
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools
            .iter()
            .find(|tool| tool.definition().name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools
            .iter()
            .map(|tool| tool.definition().name.as_str())
    }

    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools
            .iter()
            .map(|tool| tool.definition().clone())
            .collect()
    }
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}
