//! Conditions as shallow trees. Cedar evaluates by recursion and gives up where the stack ends, and a chain of a hundred conditions
//! is a tree a hundred deep. The same conditions in the same order, grouped by halves, are seven deep and mean the same: `&&`
//! and `||` are associative, and evaluate from left to right and no further than they need to either way.

use std::sync::Arc;

use cedar_policy::pst::{BinaryOp, Expr};

/// All of the conditions, in their order; `None` if there are none.
pub(super) fn all(conditions: &[Arc<Expr>]) -> Option<Arc<Expr>> {
    let conditions: Vec<Arc<Expr>> = conditions.iter().map(shallow).collect();
    halves(BinaryOp::And, &conditions)
}

fn shallow(expression: &Arc<Expr>) -> Arc<Expr> {
    match &**expression {
        Expr::BinaryOp {
            op: op @ (BinaryOp::And | BinaryOp::Or),
            ..
        } => {
            let mut operands = Vec::new();
            chain(*op, expression, &mut operands);
            let operands: Vec<Arc<Expr>> = operands.into_iter().map(shallow).collect();
            halves(*op, &operands).unwrap_or_else(|| Arc::clone(expression))
        }
        Expr::UnaryOp { op, expr } => Arc::new(Expr::UnaryOp {
            op: *op,
            expr: shallow(expr),
        }),
        Expr::IfThenElse {
            cond,
            then_expr,
            else_expr,
        } => Arc::new(Expr::IfThenElse {
            cond: shallow(cond),
            then_expr: shallow(then_expr),
            else_expr: shallow(else_expr),
        }),
        _ => Arc::clone(expression),
    }
}

/// The operands of a chain of one operator, left to right.
fn chain<'a>(wanted: BinaryOp, expression: &'a Arc<Expr>, found: &mut Vec<&'a Arc<Expr>>) {
    match &**expression {
        Expr::BinaryOp { op, left, right } if *op == wanted => {
            chain(wanted, left, found);
            chain(wanted, right, found);
        }
        _ => found.push(expression),
    }
}

fn halves(op: BinaryOp, operands: &[Arc<Expr>]) -> Option<Arc<Expr>> {
    match operands {
        [] => None,
        [one] => Some(Arc::clone(one)),
        more => {
            let (left, right) = more.split_at(more.len() / 2);
            Some(Arc::new(Expr::BinaryOp {
                op,
                left: halves(op, left)?,
                right: halves(op, right)?,
            }))
        }
    }
}
