//! Jails for programs that are not ours, from both sides.
//!
//! This binary is its own jailer and its own prisoner: started with a role as first argument it plays one of them (or a gate run by an
//! ordinary user); started without, it runs the tests.
#![cfg(test)]

mod escapes;
mod figures;
mod living;
mod support;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["role:jailer"] => sandbox::jailer::run(),
        ["role:idle"] => ExitCode::SUCCESS,
        ["role:try", prey @ ..] => support::try_everything(prey),
        ["role:user", tests @ ..] => run_tests(tests),
        ["role:share", bytes] => living::share(bytes.parse().unwrap()),
        ["role:gate", home] => living::play_gate(home),
        // Who asks for a list is told of none, and `cargo xtask check` runs these by themselves.
        ["--list", ..] => ExitCode::SUCCESS,
        filters => run_tests(filters),
    }
}

fn run_tests(filters: &[&str]) -> ExitCode {
    let words: Vec<&&str> = filters
        .iter()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let chosen = escapes::TESTS
        .iter()
        .chain(living::TESTS)
        .chain(figures::TESTS)
        .filter(|(name, _)| words.is_empty() || words.iter().any(|w| name.contains(**w)));
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in chosen {
        let is_good = catch_unwind(test).is_ok();
        println!("test {name} ... {}", if is_good { "ok" } else { "FAILED" });
        passed += u32::from(is_good);
        failed += u32::from(!is_good);
    }
    if failed == 0 {
        println!("test result: ok. {passed} passed");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
