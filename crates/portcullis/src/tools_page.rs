//! `docs/integrate/tools.md`, drawn from the table of built-in tools.

use std::fmt::Write as _;

use wire::builtin::{self, Family, Field, Kind, Tool};

const HEAD: &str = "\
# Built-in tools

<!-- Drawn from crates/wire/src/builtin.rs by `cargo xtask codegen`. -->

Tools that Portcullis knows by name, whoever serves them. A server that declares the name, or its family, among its `capabilities` is called
for it. Where none does and nothing in the gate executes the tool, a call that passes every check is refused with `ToolNotServed`.

Required arguments are in bold. A missing or null one is refused on every path, before anything is started and before anybody is asked, with
`InvalidArguments`: *Invalid tool arguments: required field 'path' is missing or null for tool 'fs.read'*.

*Effect* is what a call does to the world. *Judge* says whether a semantic judge looks at the call unless `skip_judge` says otherwise; this gate
has no such judge. *By* is who is to execute the tool where no server does; what this gate executes itself is `gate`. Results of tools for
the web and for mail count as untrusted: anyone may have written them.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for family in Family::ALL {
        let _ = writeln!(page, "\n## {}.*\n", family.word());
        page.push_str("| tool | what it does | arguments | effect | judge | by |\n|---|---|---|---|---|---|\n");
        for tool in builtin::all().filter(|tool| tool.family == family) {
            row(&mut page, tool);
        }
    }
    page
}

fn row(page: &mut String, tool: &Tool) {
    let mut name = format!("`{}`", tool.name);
    for alias in tool.aliases {
        let _ = write!(name, ", also `{alias}`");
    }
    let arguments: Vec<String> = tool.input.iter().map(argument).collect();
    let judge = if tool.skip_judge { "no" } else { "yes" };
    let _ = writeln!(
        page,
        "| {name} | {} | {} | {} | {judge} | {} |",
        tool.says,
        arguments.join("<br>"),
        tool.effect,
        tool.executor.as_str()
    );
}

fn argument(field: &Field) -> String {
    let name = match field.is_required {
        true => format!("**`{}`**", field.name),
        false => format!("`{}`", field.name),
    };
    let kind = match field.kind {
        Kind::Text => "text".to_owned(),
        Kind::Words => "text, not blank".to_owned(),
        Kind::Choice(choices) => choices.join(" or "),
        Kind::Flag => "true or false".to_owned(),
        Kind::Whole => "whole number".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::Object => "object".to_owned(),
        Kind::Objects => "list of objects".to_owned(),
        Kind::Any => "anything".to_owned(),
    };
    format!("{name} ({kind}): {}", field.says)
}

#[test]
fn generated_tools_are_current() {
    let page = page();
    for tool in builtin::all() {
        assert!(
            page.contains(&format!("| `{}`", tool.name)),
            "{}",
            tool.name
        );
    }
    testkit::generated::check("docs/integrate/tools.md", &page);
}
