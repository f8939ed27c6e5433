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

    /// A fuzzer's first minute, without a fuzzer: lines of the corpus, cut, doubled, swapped and damaged.
    #[test]
    fn what_must_hold_of_logins_holds_for_damaged_answers() {
        let files: Vec<Vec<u8>> = corpus("oauth")
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect();
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed >> 33).unwrap() % below.max(1)
        };
        for _ in 0..20_000 {
            let mut text = files[draw(files.len())].clone();
            for _ in 0..=draw(4) {
                let at = draw(text.len());
                let other = &files[draw(files.len())];
                match draw(5) {
                    0 => text.truncate(at),
                    1 => text.insert(at, b"\n\"\\{}[],:x0\x00\xff"[draw(13)]),
                    2 if !text.is_empty() => text[at] ^= 1 << draw(8),
                    3 if !text.is_empty() => drop(text.remove(at)),
                    _ => text.extend_from_slice(&other[draw(other.len())..]),
                }
            }
            fuzzing::oauth(&text);
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
