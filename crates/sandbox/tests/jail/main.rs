//! The jail, from both sides.
//!
//! This binary is its own process under test: started with a role as first argument it plays the worker (or a gate run
//! by an ordinary user); started without, it runs the tests.
#![cfg(test)]

mod inside;
mod outside;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [role, aims @ ..] if role.starts_with("role:") => inside::play(role, aims),
        filters => run_tests(filters),
    }
}

fn run_tests(filters: &[&str]) -> ExitCode {
    let words: Vec<&&str> = filters
        .iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let chosen = outside::TESTS
        .iter()
        .filter(|(name, _)| words.is_empty() || words.iter().any(|w| name.contains(**w)));
    let mut failed = 0;
    for (name, test) in chosen {
        let passed = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        failed += u32::from(!passed);
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
