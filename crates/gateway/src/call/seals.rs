//! Sealed texts on the path: what a call means whose arguments hold handles, and what of a result is shown.
//!
//! A text is put in place of its handle before anything is judged, so that what is judged, approved and recorded is what is sent. Its label
//! joins the label of the call, and the label of what comes back. A sealed result raises its reader's secrecy and leaves the reader
//! trusted: nobody's words are in it.
//!
//! **Invariant: who is shown nothing of a text is told nothing of it either.** The result of a call with a sealed text in it is sealed too,
//! and a refusal says nothing of what was put in. Test `what_holds_a_sealed_text_comes_back_sealed`.

use ::provenance::{Declared, Filled, NoText, SealSource};
use callers::ForGate;
use upstreams::{Route, catalog::Target, settings::Sealing, words::is_for};
use vocab::{Integrity, Label, Rule, ServerId, Stage, Stop, Violation};
use wire::{
    Json, builtin,
    json::find,
    write::{self, Object},
};

use super::{
    Case,
    inspect::{Inspected, digested},
};
use crate::{Action, CallRequest, Origin, Outcome};

/// The tool by which a caller asks for a sealed result, as clients name it and as the gate does.
const SEALED: [&str; 2] = ["portcullis__sealed", "portcullis.sealed"];

/// What agents are shown of it.
pub const DEFINITION: &str = r#"{"name":"portcullis__sealed","title":"Call sealed","description":"Call another tool and get its result with the texts sealed: numbers, dates and closed lists are shown, every other text is a handle with its kind and length. Use it for what strangers may have written (web pages, mail, issues) when you only pass texts on. Put a handle into an argument of any tool and the gate puts the text in. portcullis__open shows texts; after that, calls that act may wait for a person.","inputSchema":{"type":"object","properties":{"tool":{"type":"string","description":"The tool, by the name in your list"},"arguments":{"type":"object","description":"Its arguments"}},"required":["tool"]}}"#;

/// A call as it is meant, where that is not as it was written.
#[derive(Debug)]
pub(crate) struct Meant {
    request: CallRequest,
    /// Whether its caller asked that its result be sealed.
    is_asked: bool,
    /// What was put in.
    filled: Option<(Label, Vec<String>)>,
}

impl Meant {
    /// The label of what was put in.
    pub(crate) fn label(&self) -> Label {
        let filled = self.filled.as_ref();
        filled.map(|(label, _)| label.clone()).unwrap_or_default()
    }

    /// What was put in, in words.
    pub(crate) fn words(&self) -> &[String] {
        self.filled.as_ref().map_or(&[], |(_, words)| words)
    }
}

/// What a call means: whose result is asked for sealed, and with texts in place of handles. Whoever signs a call means what was signed.
pub(super) fn meant(case: Case<'_>) -> Result<Option<Meant>, Violation> {
    let request = case.request;
    if request.action != Action::CallTool || !matches!(request.origin, Origin::Mcp(_)) {
        return Ok(None);
    }
    let fields = request.params.fields();
    let Some(name) = find(&fields, "name").and_then(Json::as_str) else {
        return Ok(None);
    };
    let mut arguments = find(&fields, "arguments");
    let is_asked = request.mount.is_none() && SEALED.contains(&&*name);
    let tool = if is_asked {
        let tool = arguments
            .and_then(|arguments| arguments.get("tool"))
            .and_then(Json::as_str)
            .filter(|tool| !is_own(tool))
            .ok_or_else(|| bad("`tool` names the tool to call, and is none of the gate's own"))?;
        let inner = arguments.and_then(|arguments| arguments.get("arguments"));
        arguments = Some(inner.unwrap_or(Json::EMPTY_OBJECT));
        tool
    } else {
        name
    };
    let filled = match arguments {
        // The gate's own tools take handles as they are.
        Some(arguments) if request.mount.is_some() || !is_own(&tool) => fill(case, arguments)?,
        _ => None,
    };
    if !is_asked && filled.is_none() {
        return Ok(None);
    }
    let text = filled.as_ref().map(|filled| filled.arguments.as_slice());
    let text = text.or_else(|| arguments.map(Json::as_bytes));
    let params = Json::checked_before(&request.params);
    let params = write::replace_fields(params, &["name", "arguments"], |out| {
        out.str("name", &tool);
        text.into_iter().for_each(|text| {
            out.raw("arguments", text);
        });
    });
    Ok(Some(Meant {
        request: CallRequest {
            params: request.caller.counted(params).into(),
            ..request.clone()
        },
        is_asked,
        filled: filled.map(|filled| (filled.label, filled.words)),
    }))
}

fn is_own(tool: &str) -> bool {
    let own = builtin::Family::Own.word();
    tool.strip_prefix(own)
        .is_some_and(|rest| rest.starts_with('.') || rest.starts_with("__"))
}

fn fill(case: Case<'_>, arguments: Json<'_>) -> Result<Option<Filled>, Violation> {
    let arrived = case.step.arrived();
    let filled = case.request.caller.conversation(|conversation| {
        let filled = conversation.sealed().fill(arguments);
        match filled {
            // Of another conversation than the call belongs to.
            Ok(Some(_)) if conversation.epoch() != arrived => Err(NoText::Unknown(
                "a handle of another conversation".to_owned(),
            )),
            filled => filled,
        }
    });
    let filled = filled.map_err(|why| bad(&why.to_string()))?;
    if let Some(filled) = &filled {
        still_for(case, &filled.label)?;
    }
    Ok(filled)
}

/// Whether those whose words they are still let this caller use them: what was sealed is kept, and asked about anew.
pub(crate) fn still_for(case: Case<'_>, label: &Label) -> Result<(), Violation> {
    let built_in = ServerId::built_in();
    if label.origins.contains(&built_in) {
        return Ok(());
    }
    let is_open = |id: &ServerId| {
        let upstream = case.now.servers.upstream(id);
        upstream.is_some_and(|upstream| {
            let spec = upstream.spec();
            spec.approved().is_some() && is_for(&case.request.caller, &spec)
        })
    };
    if label.origins.iter().all(is_open) {
        Ok(())
    } else {
        Err(bad(
            "the server of a sealed text is not yours to use any more",
        ))
    }
}

fn bad(why: &str) -> Violation {
    Violation::new(Rule::InvalidArguments, why).with_hint(why)
}

/// The call as it goes on.
pub(super) fn meant_by<'a>(
    case: Case<'a>,
    meant: &'a Result<Option<Meant>, Violation>,
) -> Result<Case<'a>, Violation> {
    match meant {
        Ok(None) => Ok(case),
        Ok(Some(meant)) => Ok(Case {
            request: &meant.request,
            meant: Some(meant),
            ..case
        }),
        Err(violation) => Err(violation.clone()),
    }
}

/// Whether a caller may ask for a sealed result of this tool.
pub(super) fn may(case: Case<'_>, target: &Target) -> Result<(), Violation> {
    let is_never = target.spec.rule(&target.name).sealed == Sealing::Never;
    if case.meant.is_some_and(|meant| meant.is_asked) && is_never {
        return Err(bad(
            "this tool is never called sealed; its operator says so (`sealed: never`)",
        ));
    }
    Ok(())
}

/// A refusal says nothing of what was put in.
pub(super) fn quiet(meant: &Result<Option<Meant>, Violation>, stop: Stop) -> Stop {
    let is_filled = matches!(meant, Ok(Some(meant)) if meant.filled.is_some());
    match stop {
        Stop::Refused(mut violation)
            if is_filled && matches!(violation.rule.stage(), Stage::Bound | Stage::Shape) =>
        {
            violation.hint = None;
            violation.payload = None;
            Stop::Refused(violation)
        }
        stop => stop,
    }
}

/// What of a result is shown, and the label of that. What cannot be sealed is shown as it is, with all of its label.
pub(super) fn seal(
    case: Case<'_>,
    target: &Target,
    inspected: Result<Inspected, Stop>,
    label: Label,
) -> (Result<Inspected, Stop>, Label) {
    let is_meant = case
        .meant
        .is_some_and(|meant| meant.is_asked || meant.filled.is_some());
    let is_wanted = match target.spec.rule(&target.name).sealed {
        Sealing::Never => false,
        Sealing::Asked => is_meant,
        Sealing::Always => true,
    };
    let is_own = matches!(target.route, Some(Route::Own));
    let is_call = case.request.action == Action::CallTool
        && matches!(case.request.origin, Origin::Mcp(_))
        && !is_own;
    match inspected {
        Ok(inspected) if is_wanted && is_call => {
            let (inspected, label) = sealed(case, target, inspected, label);
            (Ok(inspected), label)
        }
        inspected => (inspected, label),
    }
}

fn sealed(
    case: Case<'_>,
    target: &Target,
    inspected: Inspected,
    label: Label,
) -> (Inspected, Label) {
    let Outcome::Result(result) = &inspected.outcome else {
        return (inspected, label);
    };
    let definition = target.definition.as_deref();
    let own = builtin::find(&target.name).and_then(builtin::Tool::output_schema);
    let schema = match definition {
        Some(definition) => definition.json().get("outputSchema"),
        None => own.as_deref().map(Json::checked_before),
    };
    let declared = Declared::of(schema);
    let from = format!(
        "`{}` of server `{}` (call {})",
        target.name,
        target.spec.id,
        case.step.call()
    );
    // A client checks what it is given against what the tool declares.
    let fits = |sealed: Json<'_>| {
        let schema = definition.and_then(|definition| definition.output().as_ref().ok()?.as_ref());
        match (schema, sealed.get("structuredContent")) {
            (Some(schema), Some(content)) => schema.check(content.as_bytes()).is_ok(),
            _ => true,
        }
    };
    let source = SealSource {
        label: &label,
        from: &from,
        declared: &declared,
    };
    let arrived = case.step.arrived();
    let out = case.request.caller.conversation(|conversation| {
        let is_same = conversation.epoch() == arrived;
        is_same.then(|| conversation.seal(Json::checked_before(result), source, fits))?
    });
    let (out, remark) = match out {
        Some(out) => (Some(out), "its texts are sealed"),
        None => (None, "its texts could not be sealed and are shown"),
    };
    let remark = match inspected.remark {
        Some(before) => format!("{before}; {remark}"),
        None => remark.to_owned(),
    };
    let Some(out) = out else {
        let inspected = Inspected {
            remark: Some(remark),
            ..inspected
        };
        return (inspected, label);
    };
    let mut shown = label;
    shown.mark.integrity = Integrity::Trusted;
    let result = case.request.caller.counted(out);
    let inspected = Inspected {
        outcome: Outcome::Result(digested(result.into())),
        is_error: inspected.is_error,
        remark: Some(remark),
    };
    (inspected, shown)
}

/// What a list of texts is as JSON.
pub(crate) fn texts(name: &str, texts: &[String]) -> Vec<u8> {
    let quoted: Vec<Vec<u8>> = texts.iter().map(|text| write::quoted(text)).collect();
    let mut out = Object::new();
    out.raw(
        name,
        &[b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat(),
    );
    out.finish()
}
