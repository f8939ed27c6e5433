use super::*;

const GOOD: &str = "@id(\"all\") permit(principal, action, resource);\n";

fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn the_same_policies_have_the_same_version_wherever_they_are() {
    let here = dir(&[("rules.cedar", GOOD), ("notes.txt", "not a policy")]);
    let there = dir(&[("rules.cedar", GOOD)]);
    let version = |path: &Path| read(path).unwrap().version().to_owned();
    let (a, b) = (
        here.path().join("rules.cedar"),
        there.path().join("rules.cedar"),
    );
    assert_eq!(version(&a), version(&b));
    assert_eq!(
        read(here.path()).unwrap().policy_count(),
        1,
        "other files are not policies"
    );
    fs::write(
        &b,
        format!("{GOOD}// more\n@id(\"b\") forbid(principal, action, resource);\n"),
    )
    .unwrap();
    assert_ne!(version(&a), version(&b));
}

#[test]
fn a_mistake_is_named_with_the_file_a_person_can_open() {
    let dir = dir(&[
        ("a.cedar", GOOD),
        (
            "b.cedar",
            "@id(\"x\")\npermit(principal, action, resource) when { resource.colour == 1 };\n",
        ),
    ]);
    let error = read(dir.path()).unwrap_err().to_string();
    let file = dir.path().join("b.cedar").display().to_string();
    assert!(error.starts_with(&format!("{file}:2:")), "{error}");
    assert!(!error.contains("a.cedar"), "{error}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let empty = dir(&[]);
    assert!(
        read(empty.path())
            .unwrap_err()
            .to_string()
            .contains("no .cedar file")
    );
    assert!(
        read(&empty.path().join("gone.cedar"))
            .unwrap_err()
            .to_string()
            .contains("gone.cedar")
    );
    let large = dir(&[("a.cedar", &"/".repeat(MAX_FILE as usize + 1))]);
    assert!(
        read(large.path())
            .unwrap_err()
            .to_string()
            .contains("limit")
    );
}

#[test]
fn the_programs_own_bundles_go_by_name() {
    for name in keys::BUNDLES {
        let bundle = named(Path::new(name)).unwrap();
        assert_eq!(
            bundle.version(),
            load(&BundleSource::Shipped(name)).unwrap().version()
        );
    }
    assert_eq!(keys::BUNDLES, Bundle::STARTERS);
}
