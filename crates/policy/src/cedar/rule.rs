//! One policy of a bundle, with everything that was worked out about it when it was loaded.

use std::sync::Arc;

use cedar_policy::{
    ActionConstraint as Actions, EntityUid, Policy, PolicySet, ResourceConstraint as Resources,
    pst::{
        ActionConstraint, Clause, Expr, Policy as Syntax, PrincipalConstraint, ResourceConstraint,
        StaticPolicy, Template,
    },
};

use super::{
    decision::Note,
    mentions::{self, Misuse, Needs},
    rewrite::RewriteOp,
    tree,
};

/// What a policy does when it matches: `@effect("…")`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    /// Lifts the question that untrusted data raises, and nothing else. It permits nothing.
    Endorse,
    Ask,
    Block,
    Rewrite(RewriteOp),
}

impl Verdict {
    pub(super) const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Endorse => "endorse",
            Self::Ask => "ask",
            Self::Block => "block",
            Self::Rewrite(_) => "rewrite",
        }
    }
}

#[derive(Debug)]
pub(super) struct Rule {
    /// The policy with its conditions as a shallow tree.
    pub(super) policy: Policy,
    pub(super) verdict: Verdict,
    pub(super) note: Note,
    pub(super) needs: Needs,
    /// The scope, and the conditions that can be evaluated before anybody calls. Where it does not match, neither does the policy.
    pub(super) probe: PolicySet,
    pub(super) conjuncts: Vec<Arc<Expr>>,
    template: Template,
    action: Actions,
    resource: Resources,
}

impl Rule {
    pub(super) fn of(policy: Policy, verdict: Verdict, note: Note) -> Result<Self, RuleError> {
        let Syntax::Static(syntax) = policy
            .to_pst()
            .map_err(|error| RuleError::Cedar(error.to_string()))?
        else {
            return Err(RuleError::Cedar("templates are not used here".to_owned()));
        };
        let template = syntax.body().clone();
        let needs = mentions::needs(template.clauses()).map_err(RuleError::Misuse)?;
        let conjuncts = mentions::conjuncts(template.clauses());
        let probe = with_conditions(&template, &mentions::settled(&conjuncts))
            .and_then(alone)
            .map_err(RuleError::Cedar)?;
        let policy = with_conditions(&template, &conjuncts).map_err(RuleError::Cedar)?;
        let (action, resource) = (policy.action_constraint(), policy.resource_constraint());
        Ok(Self {
            policy,
            verdict,
            note,
            needs,
            probe,
            conjuncts,
            template,
            action,
            resource,
        })
    }

    /// The same scope under the first conditions only, alone in a set.
    pub(super) fn with_conditions(&self, conditions: &[Arc<Expr>]) -> Result<PolicySet, String> {
        with_conditions(&self.template, conditions).and_then(alone)
    }

    /// Whether the scope's action and resource leave this target out. A quick look; the probe has the last word.
    pub(super) fn passes_by(
        &self,
        action: &EntityUid,
        target: &EntityUid,
        server: &EntityUid,
    ) -> bool {
        let acts = match &self.action {
            Actions::Any => true,
            Actions::Eq(one) => one == action,
            // There are no groups of actions in the schema.
            Actions::In(some) => some.contains(action),
        };
        let meets = match &self.resource {
            Resources::Any | Resources::Is(_) => true,
            Resources::Eq(uid) => uid == target,
            Resources::In(uid) | Resources::IsIn(_, uid) => uid == target || uid == server,
        };
        !acts || !meets
    }

    /// The parts of the scope, each alone: to say which of them a call falls outside of.
    pub(super) fn scope_parts(&self) -> Result<[(String, PolicySet); 3], String> {
        let Template {
            effect,
            principal,
            action,
            resource,
            ..
        } = &self.template;
        let part = |principal: &PrincipalConstraint,
                    action: &ActionConstraint,
                    resource: &ResourceConstraint| {
            compile(Template::new(
                "part",
                *effect,
                principal.clone(),
                action.clone(),
                resource.clone(),
            ))
            .and_then(alone)
        };
        let (any, all, every) = (
            PrincipalConstraint::Any,
            ActionConstraint::Any,
            ResourceConstraint::Any,
        );
        Ok([
            (
                format!("principal {principal}"),
                part(principal, &all, &every)?,
            ),
            (format!("action {action}"), part(&any, action, &every)?),
            (format!("resource {resource}"), part(&any, &all, resource)?),
        ])
    }
}

#[derive(Debug)]
pub(super) enum RuleError {
    Cedar(String),
    Misuse(Misuse),
}

fn with_conditions(template: &Template, conditions: &[Arc<Expr>]) -> Result<Policy, String> {
    let clause = tree::all(conditions).map(Clause::When);
    let template = template
        .clone()
        .try_with_clauses(clause)
        .map_err(|error| error.to_string())?;
    compile(template)
}

fn alone(policy: Policy) -> Result<PolicySet, String> {
    PolicySet::from_policies([policy]).map_err(|error| error.to_string())
}

fn compile(template: Template) -> Result<Policy, String> {
    let policy = StaticPolicy::try_from(template).map_err(|error| error.to_string())?;
    Policy::from_pst(Syntax::Static(policy)).map_err(|error| error.to_string())
}
