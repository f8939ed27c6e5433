//! Every file of `fuzz/corpus` through the function the fuzzer calls with it.

#[cfg(test)]
mod corpora {
    use std::{fs, path::Path};

    fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../fuzz/corpus")
            .join(target);
        let entries = fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(
            files.len() >= 10,
            "the corpus of `{target}` has only {} files",
            files.len()
        );
        files
            .into_iter()
            .map(|file| (file.display().to_string(), fs::read(&file).unwrap()))
            .collect()
    }

    fn run(target: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
        for (name, bytes) in corpus(target) {
            let outcome = std::panic::catch_unwind(|| check(&bytes));
            assert!(
                outcome.is_ok(),
                "{name} breaks the target `{target}`; see above"
            );
        }
    }

    #[test]
    fn every_target_holds_on_its_corpus() {
        for (target, check) in fuzzing::TARGETS {
            run(target, check);
        }
    }

    #[test]
    fn every_corpus_and_every_program_has_a_target() {
        let fuzz_directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let mut known: Vec<String> = fuzzing::TARGETS
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .chain(["config".to_owned()])
            .collect();
        known.sort();
        let names = |directory: &str| {
            let entries = fs::read_dir(fuzz_directory.join(directory)).unwrap();
            let mut names: Vec<_> = entries
                .map(|entry| {
                    entry
                        .unwrap()
                        .path()
                        .file_stem()
                        .unwrap()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("corpus"), known);
        assert_eq!(names("fuzz_targets"), known);
    }
}
