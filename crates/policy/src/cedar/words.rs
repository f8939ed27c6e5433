//! The schema, and the Cedar names that come from it, parsed once.

use std::sync::LazyLock;

use cedar_policy::{
    Authorizer, EntityId, EntityTypeName, EntityUid, PolicyId, Schema, ValidationMode, Validator,
};
use vocab::{Effect, Level};

use super::question::{Act, Kind};

/// The schema every bundle is checked against, as shipped and documented.
pub const SCHEMA: &str = include_str!("../../bundles/portcullis.cedarschema");

/// The name every view of the arguments goes by: there is one set of arguments in a question.
const THIS_CALL: &str = "call";

static WORDS: LazyLock<Result<Words, String>> = LazyLock::new(Words::parse);

pub(super) struct Words {
    pub(super) authorizer: Authorizer,
    validator: Validator,
    caller: EntityTypeName,
    user: EntityTypeName,
    agent: EntityTypeName,
    department: EntityTypeName,
    context: EntityTypeName,
    server: EntityTypeName,
    kinds: [EntityTypeName; 3],
    actions: [EntityUid; 5],
    levels: [EntityUid; 4],
    effects: [EntityUid; 2],
    views: [EntityUid; 4],
}

impl Words {
    /// The words, or why the shipped schema does not hold together (a broken build, not a broken bundle).
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        WORDS.as_ref().map_err(String::as_str)
    }

    fn parse() -> Result<Self, String> {
        let (schema, warnings) =
            Schema::from_cedarschema_str(SCHEMA).map_err(|error| error.to_string())?;
        if let Some(warning) = warnings.into_iter().next() {
            return Err(warning.to_string());
        }
        let ty = |name: &str| {
            name.parse::<EntityTypeName>()
                .map_err(|error| error.to_string())
        };
        let uid = |kind: &str, id: &str| ty(kind).map(|kind| named(&kind, id));
        Ok(Self {
            validator: Validator::new(schema),
            authorizer: Authorizer::new(),
            caller: ty("Caller")?,
            user: ty("User")?,
            agent: ty("Agent")?,
            department: ty("Department")?,
            context: ty("Context")?,
            server: ty("Server")?,
            kinds: [ty("Tool")?, ty("Prompt")?, ty("Resource")?],
            actions: [
                uid("Action", "call")?,
                uid("Action", "read")?,
                uid("Action", "get")?,
                uid("Action", "complete")?,
                uid("Action", "subscribe")?,
            ],
            levels: [
                uid("Level", "PUBLIC")?,
                uid("Level", "INTERNAL")?,
                uid("Level", "CONFIDENTIAL")?,
                uid("Level", "RESTRICTED")?,
            ],
            effects: [uid("Effect", "read")?, uid("Effect", "consequential")?],
            views: [
                uid("Arguments", THIS_CALL)?,
                uid("Numbers", THIS_CALL)?,
                uid("Decimals", THIS_CALL)?,
                uid("Lists", THIS_CALL)?,
            ],
        })
    }

    pub(super) fn validate(
        &self,
        policies: &cedar_policy::PolicySet,
    ) -> cedar_policy::ValidationResult {
        self.validator.validate(policies, ValidationMode::Strict)
    }

    pub(super) fn caller(&self, id: &str) -> EntityUid {
        named(&self.caller, id)
    }

    pub(super) fn user(&self, id: &str) -> EntityUid {
        named(&self.user, id)
    }

    pub(super) fn agent(&self, id: &str) -> EntityUid {
        named(&self.agent, id)
    }

    pub(super) fn department(&self, id: &str) -> EntityUid {
        named(&self.department, id)
    }

    pub(super) fn context(&self, id: &str) -> EntityUid {
        named(&self.context, id)
    }

    pub(super) fn server(&self, id: &str) -> EntityUid {
        named(&self.server, id)
    }

    /// Server ids hold no slash, so no two pairs share a name.
    pub(super) fn target(&self, kind: Kind, server: &str, target: &str) -> EntityUid {
        let [tool, prompt, resource] = &self.kinds;
        let ty = match kind {
            Kind::Tool => tool,
            Kind::Prompt => prompt,
            Kind::Resource => resource,
        };
        named(ty, &format!("{server}/{target}"))
    }

    pub(super) fn action(&self, act: Act) -> &EntityUid {
        let [call, read, get, complete, subscribe] = &self.actions;
        match act {
            Act::Call => call,
            Act::Read => read,
            Act::Get => get,
            Act::CompletePrompt | Act::CompleteResource => complete,
            Act::Subscribe => subscribe,
        }
    }

    pub(super) fn level(&self, level: Level) -> &EntityUid {
        let [public, internal, confidential, restricted] = &self.levels;
        match level {
            Level::Public => public,
            Level::Internal => internal,
            Level::Confidential => confidential,
            Level::Restricted => restricted,
        }
    }

    pub(super) fn effect(&self, effect: Effect) -> &EntityUid {
        let [read, consequential] = &self.effects;
        match effect {
            Effect::Read => read,
            Effect::Consequential => consequential,
        }
    }

    pub(super) fn view(&self, view: View) -> &EntityUid {
        let [arguments, numbers, decimals, lists] = &self.views;
        match view {
            View::Arguments => arguments,
            View::Numbers => numbers,
            View::Decimals => decimals,
            View::Lists => lists,
        }
    }
}

/// A way to read the arguments: an attribute of `context` whose tags are paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum View {
    Arguments,
    Numbers,
    Decimals,
    Lists,
}

impl View {
    pub(super) const ALL: [Self; 4] = [Self::Arguments, Self::Numbers, Self::Decimals, Self::Lists];

    pub(super) const fn attribute(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Numbers => "numbers",
            Self::Decimals => "decimals",
            Self::Lists => "lists",
        }
    }

    pub(super) fn of(attribute: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|view| view.attribute() == attribute)
    }
}

fn named(ty: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(ty.clone(), EntityId::new(id))
}

pub(super) fn policy_id(name: &str) -> PolicyId {
    PolicyId::new(name)
}
