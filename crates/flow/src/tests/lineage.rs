use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use vocab::{Label, Level, Mark};

use super::{CONFIDENTIAL, id};
use crate::{
    Session, Step,
    lineage::{Node, backward, forward, tip},
};

/// Calls of one session as they overlap: each is weighed, may show a part and be answered, and shows its result at last.
#[derive(Debug, Clone, Copy)]
enum Op {
    Begin,
    /// Shows something of the n-th call that is under way.
    Show(usize),
    /// The n-th call that is under way is answered by the client: weighed again.
    Answer(usize),
    /// The n-th call that is under way ends, with or without having shown anything.
    End(usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Begin),
        (0usize..6).prop_map(Op::Show),
        (0usize..6).prop_map(Op::Answer),
        (0usize..6).prop_map(Op::End),
    ]
}

/// What really happened: which results had been shown when a call was weighed last.
struct Told {
    nodes: Vec<Node>,
    influences: BTreeMap<String, BTreeSet<String>>,
    head: String,
    /// Every head there was, from the first.
    heads: Vec<String>,
}

fn node(step: &Step) -> Node {
    Node {
        id: step.call().to_owned(),
        after: step.after().to_string(),
        follows: step.follows().to_string(),
        session: "c1".into(),
        epoch: step.epoch(),
        server: "notes".into(),
        target: "read".into(),
        level: Level::Confidential,
        digest: String::new(),
        ms: 0,
    }
}

fn tell(ops: &[Op]) -> Told {
    let session = Arc::new(Session::new());
    let mut under_way: Vec<Step> = Vec::new();
    let (mut shown, mut heads) = (BTreeSet::new(), vec![String::new()]);
    let mut told = Told {
        nodes: Vec::new(),
        influences: BTreeMap::new(),
        head: String::new(),
        heads: Vec::new(),
    };
    let ends: Vec<Op> = (0..ops.len()).map(|_| Op::End(0)).collect();
    for (n, op) in ops.iter().chain(&ends).enumerate() {
        match *op {
            Op::Begin => {
                let step = Step::new(&format!("c{n:03}"), &session);
                session.weigh_step(Level::Restricted, &step).unwrap();
                told.influences
                    .insert(step.call().to_owned(), shown.clone());
                under_way.push(step);
            }
            Op::Show(n) => {
                let Some(step) = under_way.get(n) else {
                    continue;
                };
                drop(session.absorb_step(&Label::of(CONFIDENTIAL, id("notes")), step));
                if shown.insert(step.call().to_owned()) {
                    heads.push(step.call().to_owned());
                }
            }
            Op::Answer(n) => {
                let Some(step) = under_way.get(n) else {
                    continue;
                };
                session.weigh_step(Level::Restricted, step).unwrap();
                let influences = shown
                    .iter()
                    .filter(|id| *id != step.call())
                    .cloned()
                    .collect();
                told.influences.insert(step.call().to_owned(), influences);
            }
            Op::End(n) if n < under_way.len() => {
                // A call that failed before anything was shown has no place among the results, but it had influences.
                told.nodes.push(node(&under_way.remove(n)));
            }
            Op::End(_) => {}
        }
    }
    assert!(under_way.is_empty());
    told.head = session.head().to_string();
    told.heads = heads;
    told
}

fn ids(nodes: &[Node]) -> BTreeSet<String> {
    nodes.iter().map(|node| node.id.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Backward finds exactly what had been shown before, however calls overlapped, and forward is its inverse.
    #[test]
    fn backward_is_what_was_shown_and_forward_its_inverse(ops in prop::collection::vec(any_op(), 0..60)) {
        let told = tell(&ops);
        let lookup = |id: &str| told.nodes.iter().find(|node| node.id == id).cloned();
        for node in &told.nodes {
            let trace = backward(&node.id, lookup, 1000);
            prop_assert!(trace.is_complete());
            prop_assert_eq!(&ids(&trace.nodes), &told.influences[&node.id], "backward of {}", &node.id);
            let onward = forward(&node.id, &told.nodes, 1000);
            prop_assert!(onward.is_complete());
            let expected = told.influences.iter().filter(|(_, influences)| influences.contains(&node.id));
            prop_assert_eq!(ids(&onward.nodes), expected.map(|(id, _)| id.clone()).collect(), "forward of {}", &node.id);
        }
    }

    /// From any head that was once saved, the nodes recorded since lead to the last one.
    #[test]
    fn the_tip_is_found_from_any_saved_head(ops in prop::collection::vec(any_op(), 0..60)) {
        let told = tell(&ops);
        let shown: Vec<Node> = told.nodes.iter().filter(|node| told.heads.contains(&node.id)).cloned().collect();
        for head in &told.heads {
            prop_assert_eq!(tip(head, &shown), &told.head);
        }
    }
}

#[test]
fn results_asked_for_side_by_side_are_both_found() {
    let session = Arc::new(Session::new());
    let steps = ["a", "b"].map(|call| Step::new(call, &session));
    for step in &steps {
        session.weigh_step(Level::Restricted, step).unwrap();
    }
    for step in &steps {
        drop(session.absorb_step(&Label::of(Mark::default(), id("s")), step));
    }
    let after = Step::new("c", &session);
    session.weigh_step(Level::Restricted, &after).unwrap();
    drop(session.absorb_step(&Label::of(Mark::default(), id("s")), &after));
    let nodes: Vec<Node> = steps.iter().chain([&after]).map(node).collect();
    let lookup = |id: &str| nodes.iter().find(|node| node.id == id).cloned();
    let found: Vec<String> = backward("c", lookup, 10)
        .nodes
        .into_iter()
        .map(|node| node.id)
        .collect();
    assert_eq!(found, ["b", "a"], "newest first");
    assert!(
        backward("b", lookup, 10).nodes.is_empty(),
        "it was on its way before `a` was shown"
    );
}

#[test]
fn a_trace_that_is_not_whole_says_so() {
    let step = |id: &str, after: &str| Node {
        id: id.into(),
        after: after.into(),
        follows: after.into(),
        ..bare()
    };
    let nodes = [step("b", "a"), step("c", "b"), step("d", "c")];
    let lookup = |id: &str| nodes.iter().find(|node| node.id == id).cloned();
    let trace = backward("d", lookup, 10);
    assert_eq!(
        (
            trace.nodes.len(),
            trace.missing.as_slice(),
            trace.is_complete()
        ),
        (2, ["a".to_owned()].as_slice(), false)
    );
    let trace = backward("d", lookup, 1);
    assert!(trace.is_cut && trace.nodes.len() == 1);
    assert_eq!(backward("x", lookup, 10).missing, ["x"]);
    assert!(forward("b", &nodes, 1).is_cut);
    assert_eq!(forward("x", &nodes, 10).missing, ["x"]);
}

/// Records are data: links in a circle must not hang a trace.
#[test]
fn links_in_a_circle_end() {
    let step = |id: &str, after: &str| Node {
        id: id.into(),
        after: after.into(),
        follows: after.into(),
        ..bare()
    };
    let nodes = [step("a", "c"), step("b", "a"), step("c", "b")];
    let lookup = |id: &str| nodes.iter().find(|node| node.id == id).cloned();
    assert_eq!(backward("a", lookup, 10).nodes.len(), 2);
    assert_eq!(forward("a", &nodes, 10).nodes.len(), 2);
    assert!(["a", "b", "c"].contains(&tip("a", &nodes)));
}

fn bare() -> Node {
    Node {
        id: String::new(),
        after: String::new(),
        follows: String::new(),
        session: String::new(),
        epoch: 0,
        server: String::new(),
        target: String::new(),
        level: Level::Public,
        digest: String::new(),
        ms: 0,
    }
}
