//! How many copies of subschemas the compiler makes.
//!
//! What a dynamic reference means depends on the documents passed on the way to it, so the compiler keeps a subschema apart for every
//! way through embedded documents (`$id`) that leads to it. A few dozen documents that refer to each other have more ways through them
//! than there is time. This walks as the compiler does and stops at a limit.

use std::collections::{HashMap, HashSet};

use super::{SchemaProblem, Step};

const MOST_COPIES: usize = 10_000;

/// The documents passed so far: the one passed last, and the way before it. Zero is no document at all.
type Way = usize;

pub(super) fn limit(steps: &[Step]) -> Result<(), SchemaProblem> {
    let mut ways: HashMap<(Way, usize), Way> = HashMap::new();
    let mut copies: HashSet<(usize, Way)> = HashSet::new();
    let mut under_way = vec![false; steps.len()];
    // What is being walked: a subschema, the way to it, and how many of its edges have been taken.
    let mut path: Vec<(usize, Way, usize)> = vec![(0, 0, 0)];
    while let Some((at, way, taken)) = path.last_mut() {
        let (at, way) = (*at, *way);
        let Some(step) = steps.get(at) else { break };
        let references = step.references.iter().map(|to| (*to, true));
        let mut edges = references.chain(
            step.in_place
                .iter()
                .chain(&step.down)
                .map(|to| (*to, false)),
        );
        let Some((to, is_reference)) = edges.nth(*taken) else {
            if let Some(mark) = under_way.get_mut(at) {
                *mark = false;
            }
            path.pop();
            continue;
        };
        *taken += 1;
        if let Some(mark) = under_way.get_mut(at) {
            *mark = true;
        }
        let leaves = steps
            .get(to)
            .is_some_and(|target| target.document != step.document);
        let next = if is_reference && (way == 0 || leaves) {
            let fresh = ways.len() + 1;
            *ways.entry((way, step.document)).or_insert(fresh)
        } else {
            way
        };
        if under_way.get(to) == Some(&false) && copies.insert((to, next)) {
            if copies.len() > MOST_COPIES {
                return Err(SchemaProblem::Entangled { limit: MOST_COPIES });
            }
            path.push((to, next, 0));
        }
    }
    Ok(())
}
