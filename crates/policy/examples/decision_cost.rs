//! What a decision costs: `cargo run --release -p policy --example decision_cost`.
//!
//! A bundle of 100 policies for various tools, and calls with a kilobyte of arguments: one that only scopes decide, one that a
//! policy of the tool reads the arguments of, one by a caller not seen before.

use std::{
    hint::black_box,
    io::{self, Write},
    time::Instant,
};

use policy::cedar::{Act, Bundle, Decision, Principal, Question};
use vocab::{Effect, Level, Mark};

/// One permit for all, ten rules for all servers, and 89 for 89 tools, each with conditions of its own.
fn bundle() -> Option<Bundle> {
    let mut text = String::from("permit (principal, action, resource);\n");
    for hour in 0..10 {
        text.push_str(&format!(
            "@effect(\"ask\") permit (principal in Department::\"d{hour}\", action == Action::\"call\", resource)\n\
             when {{ resource.level >= 2 && context.time.hour == {hour} }};\n"
        ));
    }
    for tool in 0..89 {
        text.push_str(&format!(
            "forbid (principal, action == Action::\"call\", resource == Tool::\"s{}/t{tool}\")\n\
             when {{ context.label.secrecy > 1 && context.arguments.hasTag(\"path\") && context.arguments.getTag(\"path\") like \"/etc/*\" }}\n\
             unless {{ principal.is_operator }};\n",
            tool % 10
        ));
    }
    Bundle::load("bench", &[("bench.cedar".to_owned(), text)]).ok()
}

/// Nanoseconds for one run, the best of several rounds.
fn cost(mut run: impl FnMut(usize)) -> u128 {
    const RUNS: usize = 200;
    let mut best = u128::MAX;
    for round in 0..200 {
        let start = Instant::now();
        for at in 0..RUNS {
            run(round * RUNS + at);
        }
        best = best.min(start.elapsed().as_nanos() / RUNS as u128);
    }
    best
}

fn main() -> io::Result<()> {
    let bundle = bundle().ok_or_else(|| io::Error::other("the bundle does not load"))?;
    let rows: Vec<String> = (0..20)
        .map(|row| format!("{{\"id\":{row},\"name\":\"row number {row}\",\"ok\":true}}"))
        .collect();
    let arguments = format!(
        "{{\"path\":\"/srv/reports/2026/november.csv\",\"rows\":[{}]}}",
        rows.join(",")
    );
    let departments = ["eng".to_owned(), "d3".to_owned()];
    let question = Question {
        principal: Principal {
            caller: "cred-1",
            user: Some("alice"),
            agent: Some("claude"),
            departments: &departments,
            context: None,
            is_operator: false,
        },
        act: Act::Call,
        server: "s7",
        target: "t17",
        level: Level::Internal,
        effect: Effect::Consequential,
        is_open_world: false,
        arguments: arguments.as_bytes(),
        label: Mark::trusted(Level::Confidential),
        session_calls: 12,
        target_calls: 3,
        now_ms: 1_794_747_600_000,
        door: "mcp-http",
        provenance: None,
    };
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} policies, {} bytes of arguments",
        bundle.policy_count(),
        arguments.len()
    )?;
    let plain = Question {
        target: "t100",
        ..question
    };
    let read = cost(|_| {
        assert_eq!(
            black_box(bundle.decide(black_box(&question))),
            Decision::Allow
        )
    });
    writeln!(out, "policies of the tool read the arguments: {read} ns")?;
    let timed = cost(|_| {
        drop(black_box(bundle.decide(black_box(&Question {
            level: Level::Confidential,
            ..plain
        }))))
    });
    writeln!(out, "policies of all tools read the time:     {timed} ns")?;
    let constant = cost(|_| drop(black_box(bundle.decide(black_box(&plain)))));
    writeln!(
        out,
        "no policy reads the moment:              {constant} ns"
    )?;
    let names: Vec<String> = (0..40_000).map(|at| format!("cred-{at}")).collect();
    let fresh = cost(|at| {
        let caller = names.get(at).map_or("", String::as_str);
        drop(black_box(bundle.decide(&Question {
            principal: Principal {
                caller,
                ..question.principal
            },
            ..question
        })));
    });
    writeln!(out, "a caller not seen before:                {fresh} ns")
}
