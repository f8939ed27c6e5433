use std::collections::BTreeSet;

use super::*;

#[test]
fn rows_stand_in_the_order_of_their_names_and_no_name_is_there_twice() {
    let names: Vec<&str> = all().map(|tool| tool.name).collect();
    assert!(names.is_sorted(), "{names:?}");
    let every: Vec<&str> = all().flat_map(|tool| tool.other_names("")).collect();
    assert_eq!(every.iter().collect::<BTreeSet<_>>().len(), every.len());
    for name in every {
        let tool = find(name).unwrap();
        assert_eq!(Family::of(name), Some(tool.family), "{name}");
        assert!(!tool.says.is_empty(), "{name}");
        let fields: BTreeSet<&str> = tool.input.iter().map(|field| field.name).collect();
        assert_eq!(fields.len(), tool.input.len(), "{name}");
    }
    assert!(find(SEARCH).is_some());
}

#[test]
fn other_names_are_no_built_in_tools() {
    for name in ["", "fs", "fs.", "fs.reads", "github__push", "portcullis"] {
        assert!(find(name).is_none(), "{name}");
    }
    assert_eq!(Family::of("fs.*"), Some(Family::Files));
    assert_eq!(
        Family::of("web.anything"),
        Some(Family::Web),
        "a server may serve more of a family"
    );
}

#[test]
fn an_alias_is_the_tool_itself() {
    assert_eq!(find("fs.create.dir"), find("fs.create_dir"));
    let others = |name| -> Vec<&str> { find(name).unwrap().other_names(name).collect() };
    assert_eq!(others("aegis.agent.wait"), ["aegis.task.wait"]);
    assert_eq!(others("aegis.task.wait"), ["aegis.agent.wait"]);
    assert!(others("fs.read").is_empty());
}

#[test]
fn what_only_looks_is_the_only_thing_that_says_so() {
    for tool in all().filter(|tool| tool.family != Family::Management) {
        assert!(
            !tool.skip_judge || tool.effect == Effect::Read,
            "{}",
            tool.name
        );
    }
}

#[test]
fn schemas_are_drawn_from_the_rows() {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(
        text(find("fs.create_dir").unwrap().input_schema()),
        r#"{"type":"object","properties":{"path":{"type":"string","description":"The directory"}},"required":["path"]}"#
    );
    assert_eq!(
        text(find("aegis.agent.list").unwrap().input_schema()),
        r#"{"type":"object","properties":{}}"#
    );
    let output = text(find("cmd.run").unwrap().output_schema().unwrap());
    assert!(
        output.ends_with(r#""required":["stdout","stderr","exit_code"]}"#),
        "{output}"
    );
    for tool in all() {
        let schema = tool.input_schema();
        crate::Json::parse(&schema, crate::Limits::new(1 << 16, 16)).unwrap();
    }
}

/// The required arguments once more, row by row, as the reference of the built-in tools has them.
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
            assert_eq!(required(tool), wanted, "{tool}");
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
        assert!(required(tool).is_empty(), "{tool}");
    }
    let kind = |tool| find(tool).unwrap().input[0].kind;
    assert!(kind("cmd.run") == Kind::Words && kind("fs.write") == Kind::Text);
}

fn required(tool: &str) -> Vec<&'static str> {
    find(tool)
        .into_iter()
        .flat_map(Tool::required)
        .map(|field| field.name)
        .collect()
}
