//! The arguments that the built-in tools cannot do without.
//!
//! They are looked for on every path to a tool, before anything is allocated and before anybody is asked. A tool that is not in the
//! table takes any object.

/// The required arguments of a built-in tool, in the order in which they are missed; empty for every other name.
#[must_use]
pub fn fields(tool: &str) -> &'static [&'static str] {
    match tool {
        "aegis.execute" => &["prompt"],
        "aegis.execute.intent" => &["intent"],
        "aegis.execute.status" => &["pipeline_execution_id"],
        "aegis.agent.create"
        | "aegis.agent.update"
        | "aegis.workflow.create"
        | "aegis.workflow.update" => &["manifest_yaml"],
        "aegis.agent.export"
        | "aegis.workflow.export"
        | "aegis.workflow.delete"
        | "aegis.workflow.run" => &["name"],
        "aegis.agent.delete" | "aegis.agent.logs" | "aegis.task.execute" => &["agent_id"],
        "aegis.agent.search" | "aegis.workflow.search" | "web.search" => &["query"],
        "aegis.agent.generate" | "aegis.workflow.generate" => &["input"],
        "aegis.workflow.logs"
        | "aegis.workflow.status"
        | "aegis.workflow.executions.get"
        | "aegis.workflow.cancel"
        | "aegis.workflow.wait"
        | "aegis.workflow.remove"
        | "aegis.execute.wait"
        | "aegis.agent.wait"
        | "aegis.task.logs"
        | "aegis.task.status"
        | "aegis.task.wait"
        | "aegis.task.cancel"
        | "aegis.task.remove" => &["execution_id"],
        "aegis.workflow.signal" => &["execution_id", "response"],
        "aegis.schema.get" => &["key"],
        "aegis.schema.validate" => &["kind", "manifest_yaml"],
        "cmd.run" => &["command"],
        "fs.read" | "fs.list" | "fs.create_dir" | "fs.create.dir" | "fs.delete" => &["path"],
        "fs.write" => &["path", "content"],
        "fs.edit" => &["path", "target_content", "replacement_content"],
        "fs.multi_edit" => &["path", "edits"],
        "fs.grep" | "fs.glob" => &["pattern", "path"],
        "web.fetch" => &["url"],
        _ => &[],
    }
}

/// Whether a required argument must also be a text that says something.
#[must_use]
pub fn must_say_something(tool: &str, field: &str) -> bool {
    tool == "cmd.run" && field == "command"
}

#[cfg(test)]
mod tests;
