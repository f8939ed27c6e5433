//! The configuration files the fuzzer starts from, through the same function it calls.

use std::{fs, path::Path};

use crate::support::workspace;

#[test]
fn every_configuration_of_the_corpus_is_judged_without_a_crash() {
    let mut seen = 0;
    for entry in fs::read_dir(workspace().join("fuzz/corpus/config")).unwrap() {
        let file = entry.unwrap().path();
        let bytes = fs::read(&file).unwrap();
        let outcome = std::panic::catch_unwind(|| {
            fuzzing::config(&bytes, |text| {
                config::parse(Path::new("portcullis.yaml"), text)
                    .map(drop)
                    .map_err(|report| report.to_string())
            });
        });
        assert!(
            outcome.is_ok(),
            "{} breaks the target; see above",
            file.display()
        );
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} files");
}
