//! The route to volumes: the tools for files. Reads the arguments, lets `storage` do it on a thread that may wait, and writes the result.
//!
//! **Invariant: what a session writes carries its label, and what it reads brings back what was written.** Test
//! `a_file_of_a_tainted_session_taints_who_reads_it`.

mod asked;
mod put;
mod told;

use std::sync::Arc;

use callers::ForGate;
use calls::Origin;
use policy::{
    Contexts,
    context::{self, Scope, ToolPattern},
};
use storage::{Access, ErrorKind, FileError, Labelled, VolumePath};
use vocab::{Fault, FaultKind, Label, Rule, ServerId, Stop, Violation};
use wire::{
    Json,
    builtin::{self, Tool},
    write::Object,
};

use super::{Carried, Raw};
use crate::{
    Caller,
    call::{Case, Order, left},
    gate::Inner,
    volumes::{Astray, Held, Located, VolumeSet},
};
use asked::{Asked, Operation};
use told::Told;

pub(super) use put::{NotKept, WRITE, put};

pub(super) async fn carry(order: Order, case: Case<'_>) -> Result<Carried, Stop> {
    let name = order.target().name.clone();
    let tool = builtin::find(&name).ok_or_else(|| broken(format!("there is no tool `{name}`")))?;
    let time = left(case, order.budget().time)?;
    let gate = Arc::clone(case.gate);
    let is_search = matches!(tool.name, "fs.grep" | "fs.glob");
    let turn = gate
        .volumes
        .lines
        .turn(case.request.caller.key(), is_search);
    let place = tokio::time::timeout(time, turn).await;
    let place = place.map_err(|_| Fault::new(FaultKind::Timeout, "volumes were busy"))?;
    let caller = case.request.caller.clone();
    // A file says where its content came from; that a volume had a part in it says nothing.
    let mut origins = case.label().origins;
    origins.remove(&ServerId::built_in());
    let label = Label {
        mark: order.label(),
        origins,
    };
    let lists = Lists::of(&caller, Arc::clone(&case.now.rules.contexts), tool);
    let work = Work {
        gate,
        set: Arc::clone(&case.now.volumes),
        caller,
        label,
        tool,
        lists,
        is_mounted: matches!(case.request.origin, Origin::Mount),
    };
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        work.run(order.judged())
    });
    let Labelled { result, label } = done.await.map_err(|error| broken(error.to_string()))?;
    let label = Label::of(label.mark, ServerId::built_in()).join(&label);
    let raw = match result {
        Ok(told) => Raw::Result(case.request.caller.counted(told.result()).into()),
        Err(error) => ended(error, case)?,
    };
    Ok(Carried { raw, label })
}

/// What a reason is to the caller: a refusal where a rule of the gate says no, else an error that teaches.
fn ended(error: FileError, case: Case<'_>) -> Result<Raw, Stop> {
    let payload = |key: &str| {
        let arguments = Json::checked_before(&case.request.params).get("arguments");
        let path = arguments.and_then(|arguments| arguments.get("path")?.as_str());
        let mut out = Object::new();
        out.str(key, &path.unwrap_or_default());
        out
    };
    let refused = |rule, payload: Object| {
        let payload = String::from_utf8(payload.finish()).unwrap_or_default();
        let violation = Violation::new(rule, error.says.clone())
            .with_hint(error.says.clone())
            .with_payload(payload);
        Ok(Raw::Stopped(violation.into()))
    };
    match error.kind {
        ErrorKind::Traversal => refused(Rule::PathTraversalAttempt, payload("attempted_path")),
        ErrorKind::WriteDown => refused(Rule::WouldViolateWriteDown, payload("path")),
        ErrorKind::QuotaExceeded {
            requested_bytes,
            available_bytes,
        } => {
            let mut payload = payload("path");
            payload
                .u64("requested_bytes", requested_bytes)
                .u64("available_bytes", available_bytes);
            refused(Rule::QuotaExceeded, payload)
        }
        ErrorKind::Broken => Err(broken(error.says)),
        _ => Ok(Raw::Result(
            case.request.caller.counted(told::error(&error)).into(),
        )),
    }
}

fn broken(detail: String) -> Stop {
    Fault::new(FaultKind::Gate, detail).into()
}

/// One call, with everything it needs on a thread of its own.
struct Work {
    gate: Arc<Inner>,
    set: Arc<VolumeSet>,
    caller: Caller,
    label: Label,
    tool: &'static Tool,
    lists: Option<Lists>,
    /// Who has it mounted opens a file by this call, and reads and writes it by parts.
    is_mounted: bool,
}

impl Work {
    fn run(&self, judged: &[u8]) -> Labelled<Told> {
        let arguments = Json::checked_before(if judged.is_empty() { b"{}" } else { judged });
        let unseen = |error| Labelled {
            result: Err(error),
            label: Label::default(),
        };
        let asked = match Asked::read(self.tool, arguments) {
            Ok(asked) => asked,
            Err(says) => return unseen(FileError::new(ErrorKind::Invalid, says)),
        };
        let located = match self.set.locate(&self.caller, &asked.path) {
            Ok(located) => located,
            Err(Astray::Nowhere(places)) if matches!(asked.operation, Operation::List(_)) => {
                return Labelled {
                    result: told::places(&asked.path, &places),
                    label: Label::default(),
                };
            }
            Err(astray) => return unseen(strayed(&asked.path, astray)),
        };
        let other = asked.destination.as_deref().map(|text| {
            let other = self.set.locate(&self.caller, text);
            other.map_err(|astray| strayed(text, astray))
        });
        let other = match other.transpose() {
            Ok(other) => other,
            Err(error) => return unseen(error),
        };
        let takes = matches!(
            asked.operation,
            Operation::Copy { .. } | Operation::Move(_) | Operation::Edit(..)
        );
        if takes && !self.may(&located.held, &located.path) {
            let says = format!("`{}` is not for this caller to read", asked.path);
            return unseen(FileError::new(ErrorKind::NotAllowed, says));
        }
        if let Some(other) = other.filter(|other| !Arc::ptr_eq(&other.held, &located.held)) {
            return self.across(&located, &other, &asked);
        }
        self.within(&located, &asked)
    }

    fn within(&self, located: &Located, asked: &Asked) -> Labelled<Told> {
        let Located { held, path } = located;
        let may = |place: &VolumePath| self.may(held, place);
        let access = Access {
            label: &self.label,
            may: &may,
        };
        let done = self.gate.volumes.with(&self.set, held, |volume| {
            let opened = self
                .is_mounted
                .then(|| told::opened(volume, access, path, asked, held));
            if let Some(opened) = opened.flatten() {
                return opened;
            }
            let destination = asked.destination.as_deref();
            let to = destination.and_then(|text| self.set.locate(&self.caller, text).ok());
            let to = to.map_or_else(|| path.clone(), |to| to.path);
            told::run(volume, access, (path, &to), asked, held)
        });
        match done {
            Ok(mut done) => {
                if let Err(error) = &mut done.result {
                    // Agents know the place by another name.
                    let known = format!("`{}`", held.shown(path));
                    error.says = error.says.replace(&format!("`{path}`"), &known);
                }
                done
            }
            Err(why) => Labelled {
                result: Err(FileError::new(ErrorKind::Broken, why)),
                label: Label::default(),
            },
        }
    }

    /// From one volume to another a file is copied; nothing is moved.
    fn across(&self, from: &Located, to: &Located, asked: &Asked) -> Labelled<Told> {
        let Operation::Copy { overwrite } = asked.operation else {
            let says = "what is moved stays on its volume; copy it with fs.copy and delete it";
            return Labelled {
                result: Err(FileError::new(ErrorKind::Invalid, says)),
                label: Label::default(),
            };
        };
        let volumes = &self.gate.volumes;
        let may = |place: &VolumePath| self.may(&from.held, place);
        let reader = Access {
            label: &self.label,
            may: &may,
        };
        let broken = |why| Labelled {
            result: Err(FileError::new(ErrorKind::Broken, why)),
            label: Label::default(),
        };
        let read = volumes.with(&self.set, &from.held, |volume| {
            volume.content(reader, &from.path)
        });
        let Labelled { result, label } = match read {
            Ok(read) => read,
            Err(why) => return broken(why),
        };
        let content = match result {
            Ok(content) => content,
            Err(error) => {
                return Labelled {
                    result: Err(error),
                    label,
                };
            }
        };
        let writer = self.label.clone().join(&label);
        let may = |place: &VolumePath| self.may(&to.held, place);
        let access = Access {
            label: &writer,
            may: &may,
        };
        let options = storage::WriteOptions {
            create_only: !overwrite,
            ..storage::WriteOptions::default()
        };
        let written = volumes.with(&self.set, &to.held, |volume| {
            volume.write(access, &to.path, &content, options)
        });
        match written {
            Ok(written) => Labelled {
                label: label.join(&written.label),
                result: written
                    .result
                    .map(|written| told::written("Copied", &to.held.shown(&to.path), written)),
            },
            Err(why) => broken(why),
        }
    }

    /// Whether a place that only turned out to be meant is one that the caller's lists let it use.
    fn may(&self, held: &Held, place: &VolumePath) -> bool {
        self.lists
            .as_ref()
            .is_none_or(|lists| lists.let_through(&held.shown(place)))
    }
}

fn strayed(text: &str, astray: Astray) -> FileError {
    match astray {
        Astray::Problem(context::PathProblem::Climbs(violation)) => {
            FileError::new(ErrorKind::Traversal, violation.detail)
        }
        Astray::Problem(context::PathProblem::Unclear(why)) => FileError::new(
            ErrorKind::Invalid,
            format!("`{text}` is no path here: {why}"),
        ),
        Astray::NotFor(volume) => FileError::new(
            ErrorKind::NotAllowed,
            format!("volume `{volume}` is not for this caller"),
        ),
        Astray::Nowhere(places) if places.is_empty() => FileError::new(
            ErrorKind::NotFound,
            format!("there is no `{text}`: no volume is for this caller"),
        ),
        Astray::Nowhere(places) => FileError::new(
            ErrorKind::NotFound,
            format!(
                "there is no `{text}`; files are beneath {}",
                places.join(", ")
            ),
        ),
        Astray::Name(error) => error,
    }
}

/// The lists that bound a caller's paths, kept for the time of one call.
pub(crate) struct Lists {
    contexts: Arc<Contexts>,
    context: String,
    agent: Option<String>,
    session: Option<Vec<ToolPattern>>,
    tool: &'static Tool,
}

impl Lists {
    pub(crate) fn of(
        caller: &Caller,
        contexts: Arc<Contexts>,
        tool: &'static Tool,
    ) -> Option<Self> {
        Some(Self {
            context: caller.context()?.to_owned(),
            agent: caller.agent_name().map(str::to_owned),
            session: caller.signed().map(|session| session.patterns.clone()),
            contexts,
            tool,
        })
    }

    /// As the tool that was called, and as the one that reads: a search reads files too, and what is copied, moved or edited can be read
    /// afterwards.
    pub(crate) fn let_through(&self, path: &str) -> bool {
        let Some(context) = self.contexts.context(&self.context) else {
            return false;
        };
        let agent = self
            .agent
            .as_deref()
            .and_then(|agent| self.contexts.agent(agent));
        let scope = Scope {
            context,
            agent,
            ceilings: self.contexts.ceilings(),
            session_patterns: self.session.as_deref(),
        };
        let mut arguments = Object::new();
        arguments.str("path", path);
        let arguments = arguments.finish();
        let takes = matches!(
            self.tool.name,
            "fs.copy" | "fs.move" | "fs.edit" | "fs.multi_edit"
        );
        let reads = takes || self.tool.effect == vocab::Effect::Read;
        let names = [self.tool.name, "fs.read"];
        let mut names = names.into_iter().take(if reads { 2 } else { 1 });
        names.all(|name| {
            let call = context::Call {
                tool: self.tool.name,
                aliases: &[name],
                server: Some(ServerId::BUILT_IN),
                arguments: Some(Json::checked_before(&arguments)),
                calls_so_far: 0,
                tool_calls_so_far: 0,
            };
            context::examine(scope, &call).lets_path()
        })
    }
}
