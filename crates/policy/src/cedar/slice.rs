//! The part of a bundle that can matter to one caller and one target.
//!
//! Who calls and what is called stay the same from call to call, so a slice is worked out once and kept: the rules whose scope and
//! settled conditions match, the entities, and the whole decision where no rule left reads the moment. A rule is left out only if
//! Cedar itself says that it cannot match and cannot fail; so a slice decides as the whole bundle would.
//!
//! **Invariant: a slice decides as the whole bundle would.** Test `a_bundle_decides_as_plain_cedar_does`.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError, RwLock},
};

use cedar_policy::{Context, Entities, PolicySet};
use vocab::{Effect, Level};

use super::{
    decision::Decision,
    facts::{self, Names},
    mentions::Needs,
    question::{Act, Question},
    rule::Rule,
    words::Words,
};

/// How many slices are kept. Resources are named by callers, so there is no end to what could be asked for.
pub(super) const MAX_KEPT: usize = 4096;

#[derive(Debug)]
pub(super) struct Slice {
    key: Key,
    pub(super) names: Names,
    pub(super) entities: Entities,
    pub(super) policies: Arc<PolicySet>,
    pub(super) needs: Needs,
    /// Where nothing depends on the moment.
    pub(super) constant: Option<Decision>,
}

/// The parts of a question that a slice depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    caller: String,
    user: Option<String>,
    agent: Option<String>,
    departments: Vec<String>,
    context: Option<String>,
    is_operator: bool,
    act: Act,
    server: String,
    target: String,
    level: Level,
    effect: Effect,
    is_open_world: bool,
}

impl Key {
    fn of(question: &Question<'_>) -> Self {
        let principal = &question.principal;
        Self {
            caller: principal.caller.to_owned(),
            user: principal.user.map(str::to_owned),
            agent: principal.agent.map(str::to_owned),
            departments: principal.departments.to_vec(),
            context: principal.context.map(str::to_owned),
            is_operator: principal.is_operator,
            act: question.act,
            server: question.server.to_owned(),
            target: question.target.to_owned(),
            level: question.level,
            effect: question.effect,
            is_open_world: question.is_open_world,
        }
    }

    fn is_of(&self, question: &Question<'_>) -> bool {
        let principal = &question.principal;
        self.target == question.target
            && self.server == question.server
            && self.caller == principal.caller
            && self.act == question.act
            && self.level == question.level
            && self.effect == question.effect
            && self.is_open_world == question.is_open_world
            && self.user.as_deref() == principal.user
            && self.agent.as_deref() == principal.agent
            && self.departments == principal.departments
            && self.context.as_deref() == principal.context
            && self.is_operator == principal.is_operator
    }
}

/// The slices made so far. What is forgotten is made again; nothing depends on what is kept.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    hasher: RandomState,
    kept: RwLock<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    slices: HashMap<u64, Vec<Arc<Slice>>>,
    /// Most callers share a target's policies.
    sets: HashMap<Vec<usize>, Arc<PolicySet>>,
    count: usize,
}

impl Shelf {
    fn hash(&self, question: &Question<'_>) -> u64 {
        let principal = &question.principal;
        self.hasher
            .hash_one((principal, question.act, question.server, question.target))
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .count
    }

    pub(super) fn find(&self, question: &Question<'_>) -> Option<Arc<Slice>> {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        kept.slices
            .get(&self.hash(question))?
            .iter()
            .find(|slice| slice.key.is_of(question))
            .map(Arc::clone)
    }

    fn keep(&self, question: &Question<'_>, slice: &Arc<Slice>) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        if kept.count >= MAX_KEPT {
            *kept = Kept::default();
        }
        kept.count += 1;
        kept.slices
            .entry(self.hash(question))
            .or_default()
            .push(Arc::clone(slice));
    }

    /// One policy set for every choice of rules.
    fn set(&self, rules: &[Rule], chosen: Vec<usize>) -> Result<Arc<PolicySet>, String> {
        if let Some(set) = self
            .kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .sets
            .get(&chosen)
        {
            return Ok(Arc::clone(set));
        }
        let policies = chosen
            .iter()
            .filter_map(|index| rules.get(*index))
            .map(|rule| rule.policy.clone());
        let set = Arc::new(PolicySet::from_policies(policies).map_err(|error| error.to_string())?);
        self.kept
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .sets
            .insert(chosen, Arc::clone(&set));
        Ok(set)
    }

    /// Works out the slice for a question and keeps it. `decide` is asked for the whole decision where that is already possible.
    pub(super) fn make(
        &self,
        words: &Words,
        rules: &[Rule],
        question: &Question<'_>,
        decide: impl FnOnce(&Slice) -> Decision,
    ) -> Result<Arc<Slice>, String> {
        let names = Names::of(words, question);
        let entities = facts::lasting(words, &names, question)?;
        let request = names.request(Context::empty())?;
        let mut chosen = Vec::new();
        let mut needs = Needs::default();
        for (index, rule) in rules.iter().enumerate() {
            if rule.passes_by(&names.action, &names.resource, &names.server) {
                continue;
            }
            let answer = words
                .authorizer
                .is_authorized(&request, &rule.probe, &entities);
            if answer.diagnostics().reason().next().is_some()
                || answer.diagnostics().errors().next().is_some()
            {
                chosen.push(index);
                needs.add(&rule.needs);
            }
        }
        let policies = self.set(rules, chosen)?;
        let mut slice = Slice {
            key: Key::of(question),
            names,
            entities,
            policies,
            needs,
            constant: None,
        };
        if !slice.needs.context {
            slice.constant = Some(decide(&slice));
        }
        let slice = Arc::new(slice);
        self.keep(question, &slice);
        Ok(slice)
    }
}
