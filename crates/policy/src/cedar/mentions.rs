//! What a policy's conditions talk about, read from its syntax tree.
//!
//! Two questions are answered here. Which facts must be built before the policy can be evaluated ([`Needs`]); and how far its
//! conditions can be evaluated without any fact of the moment ([`settled`]), which is what slicing rests on.

use std::{collections::BTreeSet, sync::Arc};

use cedar_policy::pst::{BinaryOp, Clause, Expr, Literal, UnaryOp, Var};

use super::{
    path::{Path, PathError},
    words::View,
};

/// The facts of the moment a policy reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// Any use of `context`, even one that is none of the below.
    pub(super) context: bool,
    pub(super) label: bool,
    pub(super) calls: bool,
    pub(super) time: bool,
    pub(super) door: bool,
    pub(super) provenance: bool,
    /// The arguments as a whole: their count and outline.
    pub(super) outline: bool,
    pub(super) views: BTreeSet<View>,
    pub(super) paths: BTreeSet<(View, Path)>,
}

impl Needs {
    pub(super) fn add(&mut self, other: &Self) {
        self.context |= other.context;
        self.label |= other.label;
        self.calls |= other.calls;
        self.time |= other.time;
        self.door |= other.door;
        self.provenance |= other.provenance;
        self.outline |= other.outline;
        self.views.extend(&other.views);
        self.paths.extend(other.paths.iter().cloned());
    }

    pub(super) fn everything() -> Self {
        let views = View::ALL.into_iter().collect();
        Self {
            context: true,
            label: true,
            calls: true,
            time: true,
            door: true,
            provenance: true,
            outline: true,
            views,
            paths: BTreeSet::new(),
        }
    }

    fn attribute(&mut self, name: &str) {
        self.context = true;
        match name {
            "label" => self.label = true,
            "session_calls" | "target_calls" => self.calls = true,
            "time" => self.time = true,
            "door" => self.door = true,
            "provenance" => self.provenance = true,
            "argument_count" | "outline" => self.outline = true,
            other => self.views.extend(View::of(other)),
        }
    }
}

/// A use of the arguments that could not be prepared for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misuse {
    /// A tag that is computed, or read from something other than a view directly.
    Computed,
    /// A tag that is no path.
    BadPath { tag: String, error: PathError },
    /// `[]` outside `lists`, or `lists` without it.
    WrongView { view: View, tag: String },
}

/// Everything the clauses read, or how they misuse the arguments.
pub(super) fn needs(clauses: &[Clause]) -> Result<Needs, Misuse> {
    let mut found = Needs::default();
    for clause in clauses {
        let (Clause::When(expression) | Clause::Unless(expression)) = clause;
        walk(expression, &mut found)?;
    }
    Ok(found)
}

fn walk(expression: &Expr, found: &mut Needs) -> Result<(), Misuse> {
    match expression {
        Expr::Var(Var::Context) => found.add(&Needs::everything()),
        Expr::GetAttr { expr, attr } if matches!(**expr, Expr::Var(Var::Context)) => {
            found.attribute(attr)
        }
        Expr::HasAttr { expr, attrs } if matches!(**expr, Expr::Var(Var::Context)) => {
            found.attribute(&attrs.head)
        }
        Expr::BinaryOp {
            op: BinaryOp::GetTag | BinaryOp::HasTag,
            left,
            right,
        } => tag(left, right, found)?,
        other => {
            for inner in children(other) {
                walk(inner, found)?;
            }
        }
    }
    Ok(())
}

fn tag(receiver: &Expr, name: &Expr, found: &mut Needs) -> Result<(), Misuse> {
    let view = match receiver {
        Expr::GetAttr { expr, attr } if matches!(**expr, Expr::Var(Var::Context)) => View::of(attr),
        _ => None,
    };
    let (Some(view), Expr::Literal(Literal::String(tag))) = (view, name) else {
        return Err(Misuse::Computed);
    };
    let path = Path::parse(tag).map_err(|error| Misuse::BadPath {
        tag: tag.to_string(),
        error,
    })?;
    if path.has_each() != (view == View::Lists) {
        return Err(Misuse::WrongView {
            view,
            tag: tag.to_string(),
        });
    }
    found.attribute(view.attribute());
    found.paths.insert((view, path));
    Ok(())
}

fn children(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::UnaryOp { expr, .. }
        | Expr::GetAttr { expr, .. }
        | Expr::HasAttr { expr, .. }
        | Expr::Like { expr, .. } => {
            vec![expr]
        }
        Expr::BinaryOp { left, right, .. } => vec![left, right],
        Expr::Is { expr, in_expr, .. } => std::iter::once(expr)
            .chain(in_expr)
            .map(Arc::as_ref)
            .collect(),
        Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => vec![cond, then_expr, else_expr],
        Expr::Set(items) => items.iter().map(Arc::as_ref).collect(),
        Expr::Record(fields) => fields.values().map(Arc::as_ref).collect(),
        _ => Vec::new(),
    }
}

/// The conditions as one conjunction, in the order Cedar evaluates them.
pub(super) fn conjuncts(clauses: &[Clause]) -> Vec<Arc<Expr>> {
    let mut found = Vec::new();
    for clause in clauses {
        match clause {
            Clause::When(expression) => split(expression, &mut found),
            Clause::Unless(expression) => {
                found.push(Arc::new(Expr::UnaryOp {
                    op: UnaryOp::Not,
                    expr: Arc::clone(expression),
                }));
            }
        }
    }
    found
}

fn split(expression: &Arc<Expr>, found: &mut Vec<Arc<Expr>>) {
    match &**expression {
        Expr::BinaryOp {
            op: BinaryOp::And,
            left,
            right,
        } => {
            split(left, found);
            split(right, found);
        }
        _ => found.push(Arc::clone(expression)),
    }
}

/// Conjuncts that do not read the moment and stand behind nothing that could fail: if one of them is false, so is the policy, and
/// without an error. Conjuncts that read the moment are stepped over only if they cannot fail.
pub(super) fn settled(conjuncts: &[Arc<Expr>]) -> Vec<Arc<Expr>> {
    let mut found = Vec::new();
    for conjunct in conjuncts {
        if !reads_context(conjunct) {
            found.push(Arc::clone(conjunct));
        } else if !is_total(conjunct) {
            break;
        }
    }
    found
}

pub(super) fn reads_context(expression: &Expr) -> bool {
    matches!(expression, Expr::Var(Var::Context))
        || children(expression).into_iter().any(reads_context)
}

/// Whether a well-typed expression cannot fail. `false` is always a safe answer.
fn is_total(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(_) | Expr::Var(_) => true,
        // Every attribute of the context is required, and so is everything inside its records.
        Expr::GetAttr { expr, .. } => is_context_chain(expr),
        Expr::UnaryOp {
            op: UnaryOp::Not,
            expr,
        }
        | Expr::Like { expr, .. }
        | Expr::HasAttr { expr, .. } => is_total(expr),
        Expr::Is { expr, in_expr, .. } => is_total(expr) && in_expr.as_deref().is_none_or(is_total),
        Expr::BinaryOp { op, left, right } => cannot_fail(*op) && is_total(left) && is_total(right),
        Expr::Set(items) => items.iter().all(|item| is_total(item)),
        _ => false,
    }
}

fn is_context_chain(expression: &Expr) -> bool {
    match expression {
        Expr::Var(Var::Context) => true,
        Expr::GetAttr { expr, .. } => is_context_chain(expr),
        _ => false,
    }
}

fn cannot_fail(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Eq
            | BinaryOp::NotEq
            | BinaryOp::Less
            | BinaryOp::LessEq
            | BinaryOp::Greater
            | BinaryOp::GreaterEq
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::In
            | BinaryOp::Contains
            | BinaryOp::ContainsAll
            | BinaryOp::ContainsAny
            | BinaryOp::HasTag
    )
}
