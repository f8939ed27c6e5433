//! The manifests of agents that the configuration names, and with them everything signed calls are bound by. They are read whole or not
//! at all.

use std::{fs, path::Path};

use policy::{Contexts, context::AgentTools};

use crate::{AgentEntry, Finding, Resolved, Severity, signed};

/// A manifest is written by people; more than this is a mistake.
const MAX_MANIFEST: u64 = 1 << 20;

/// Every mistake in a manifest is a finding at the place that names it.
pub fn load(resolved: &Resolved) -> Result<Contexts, Vec<Finding>> {
    let mut findings = Vec::new();
    let mut agents = Vec::new();
    for entry in &resolved.agents {
        match agent(entry, resolved) {
            Ok(agent) => agents.push(agent),
            Err((what, fix)) => findings.push(Finding::error(entry.place, what, fix)),
        }
    }
    if findings.is_empty() {
        return Ok(Contexts::new(
            resolved.contexts.iter().cloned(),
            agents,
            resolved.ceilings.clone(),
        ));
    }
    Err(findings)
}

/// The files that are read besides the configuration itself.
pub fn files(resolved: &Resolved) -> Vec<std::path::PathBuf> {
    resolved
        .agents
        .iter()
        .filter_map(|entry| entry.manifest.clone())
        .collect()
}

/// What the manifests ask for and this version does not do, each at the place that names its manifest.
pub fn idle(resolved: &Resolved) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in &resolved.agents {
        let Some(file) = &entry.manifest else {
            continue;
        };
        let Ok(text) = fs::read_to_string(file) else {
            continue;
        };
        findings.extend(signed::idle_in_manifest(&text).into_iter().map(|path| {
            let what = format!(
                "`{path}` in {} has no effect in this version",
                file.display()
            );
            Finding::warning(
                entry.place,
                what,
                "bound what the agent may do in its security context",
            )
        }));
    }
    findings
}

/// An agent as its entry and its manifest have it: the tools of the manifest, and of each limit the lower one.
fn agent(entry: &AgentEntry, resolved: &Resolved) -> Result<AgentTools, (String, String)> {
    let own = entry.agent.clone();
    let Some(file) = &entry.manifest else {
        return Ok(own);
    };
    let read = read(file)?;
    let limits = [own.max_calls_per_execution, read.max_calls_per_execution];
    let security_context = own.security_context.clone().or(read.security_context);
    if let Some(name) = security_context
        .as_deref()
        .filter(|name| resolved.contexts.iter().all(|own| own.name != **name))
    {
        let what = format!(
            "{} asks for the context `{name}`, which is not there",
            file.display()
        );
        return Err((
            what,
            "add it to `security_contexts`, or name another here with `security_context`"
                .to_owned(),
        ));
    }
    Ok(AgentTools {
        tools: read.tools,
        max_calls_per_execution: limits.into_iter().flatten().min(),
        security_context,
        ..own
    })
}

fn read(file: &Path) -> Result<AgentTools, (String, String)> {
    let unreadable = |error: &dyn std::fmt::Display| {
        (
            format!("cannot read the manifest {}: {error}", file.display()),
            "correct the path, or remove the agent".to_owned(),
        )
    };
    let size = fs::metadata(file)
        .map_err(|error| unreadable(&error))?
        .len();
    if size > MAX_MANIFEST {
        return Err(unreadable(&format!(
            "it has {size} bytes; the limit is {MAX_MANIFEST}"
        )));
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(&error))?;
    signed::read_manifest(&file.display().to_string(), &text).map_err(|report| {
        let first = report
            .findings
            .iter()
            .find(|finding| finding.severity == Severity::Error);
        let at = first.map_or_else(String::new, |found| {
            format!(
                ":{}:{}: {}",
                found.place.line, found.place.column, found.what
            )
        });
        (
            format!("{}{at}", file.display()),
            first.map_or_else(String::new, |found| found.fix.to_string()),
        )
    })
}

#[cfg(test)]
mod tests;
