//! What of a result is written anew for the caller who reads it. The rest of the result stays byte for byte.
//!
//! A client checks what it is given against what it was shown. So nothing here may make a reason unreadable: an error result whose
//! structured content does not fit the tool's output schema would be replaced by the client's own complaint.

use upstreams::catalog::Target;
use wire::{Json, Text, json, write};

use super::{Case, inspect::Found};
use crate::{Action, CallRequest, MISFIT_META, OWN_META};

/// The fields of a result that change: what each becomes, or `None` where it is left out.
#[derive(Debug, Default)]
pub(super) struct Anew(Vec<(&'static str, Option<Vec<u8>>)>);

impl Anew {
    pub(super) fn set(&mut self, field: &'static str, value: Vec<u8>) {
        self.0.push((field, Some(value)));
    }

    /// The result with these fields, counted to its caller; the very same one if there are none.
    pub(super) fn apply(self, request: &CallRequest, result: Text) -> Text {
        if self.0.is_empty() {
            return result;
        }
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        let text = write::splice_fields(&result.fields(), &names, |out| {
            for (name, value) in &self.0 {
                if let Some(value) = value {
                    out.raw(name, value);
                }
            }
        });
        request.caller.counted(text).into()
    }

    /// Keys of `_meta` that only the gate uses are taken out, and structured content that would hide an error is moved there.
    /// Returns a remark for the operator.
    pub(super) fn meta(
        &mut self,
        case: Case<'_>,
        target: &Target,
        found: &Found<'_>,
    ) -> Option<String> {
        let misfit = misfit(case, target, found);
        let fields = found.meta.map(Json::raw_fields).unwrap_or_default();
        let is_own = |key: &[u8]| json::decode_key(key).starts_with(OWN_META);
        if misfit.is_none() && !fields.iter().any(|(key, _)| is_own(key)) {
            return None;
        }
        let mut meta = write::Object::new();
        fields
            .iter()
            .filter(|(key, _)| !is_own(key))
            .for_each(|(key, value)| {
                meta.copied(key, *value);
            });
        let (content, why) = misfit.unzip();
        if let Some(content) = content {
            meta.json(MISFIT_META, content);
            self.0.push(("structuredContent", None));
        }
        self.set("_meta", meta.finish());
        why
    }
}

/// The structured content of an error that does not fit the schema its tool declares, and how.
fn misfit<'a>(case: Case<'_>, target: &Target, found: &Found<'a>) -> Option<(Json<'a>, String)> {
    let content = found
        .structured
        .filter(|_| found.is_error && case.request.action == Action::CallTool)?;
    let schema = target
        .definition
        .as_deref()?
        .output()
        .as_ref()
        .ok()?
        .as_ref()?;
    let mismatch = schema.check(content.as_bytes()).err()?;
    Some((
        content,
        format!("the structured content of its error does not fit the output schema: {mismatch}"),
    ))
}
