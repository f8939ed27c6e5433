//! The table once more, row by row, as the reference of the built-in tools has it.

use super::*;

const ROWS: &[(&str, &str)] = &[
    ("aegis.execute", "prompt"),
    ("aegis.execute.intent", "intent"),
    ("aegis.execute.status", "pipeline_execution_id"),
    ("aegis.agent.create, aegis.agent.update", "manifest_yaml"),
    ("aegis.agent.export", "name"),
    ("aegis.agent.delete, aegis.task.execute", "agent_id"),
    ("aegis.agent.search, aegis.workflow.search", "query"),
    ("aegis.agent.generate, aegis.workflow.generate", "input"),
    (
        "aegis.workflow.create, aegis.workflow.update",
        "manifest_yaml",
    ),
    (
        "aegis.workflow.export, aegis.workflow.delete, aegis.workflow.run",
        "name",
    ),
    ("aegis.workflow.logs, aegis.task.logs", "execution_id"),
    (
        "aegis.workflow.status, aegis.workflow.executions.get",
        "execution_id",
    ),
    (
        "aegis.task.status, aegis.task.wait, aegis.agent.wait, aegis.task.cancel, aegis.task.remove",
        "execution_id",
    ),
    (
        "aegis.workflow.cancel, aegis.workflow.wait, aegis.execute.wait, aegis.workflow.remove",
        "execution_id",
    ),
    ("aegis.workflow.signal", "execution_id, response"),
    ("aegis.agent.logs", "agent_id"),
    ("aegis.schema.get", "key"),
    ("aegis.schema.validate", "kind, manifest_yaml"),
    ("cmd.run", "command"),
    (
        "fs.read, fs.list, fs.create_dir, fs.create.dir, fs.delete",
        "path",
    ),
    ("fs.write", "path, content"),
    ("fs.edit", "path, target_content, replacement_content"),
    ("fs.multi_edit", "path, edits"),
    ("fs.grep, fs.glob", "pattern, path"),
    ("web.search", "query"),
    ("web.fetch", "url"),
];

#[test]
fn every_row_is_in_the_table() {
    for (tools, wanted) in ROWS {
        let wanted: Vec<&str> = wanted.split(", ").collect();
        for tool in tools.split(", ") {
            assert_eq!(fields(tool), wanted, "{tool}");
        }
    }
    let count: usize = ROWS
        .iter()
        .map(|(tools, _)| tools.split(", ").count())
        .sum();
    assert_eq!(count, 47);
}

#[test]
fn other_tools_take_any_object() {
    let free = [
        "aegis.agent.list",
        "aegis.tools.list",
        "aegis.tools.search",
        "aegis.system.info",
        "aegis.runtime.list",
        "github__push",
        "",
    ];
    for tool in free {
        assert!(fields(tool).is_empty(), "{tool}");
    }
    assert!(must_say_something("cmd.run", "command") && !must_say_something("fs.write", "content"));
}
