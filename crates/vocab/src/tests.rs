use crate::*;

#[test]
fn levels_parse_only_their_exact_names() {
    for level in Level::ALL {
        assert_eq!(level.as_str().parse::<Level>().unwrap(), level);
    }
    for wrong in ["public", "Public", "", "SECRET", " PUBLIC"] {
        assert!(wrong.parse::<Level>().is_err(), "{wrong:?}");
    }
}

#[test]
fn marks_form_a_lattice_and_survive_packing() {
    let all: Vec<Mark> = Level::ALL
        .into_iter()
        .flat_map(|secrecy| [Integrity::Trusted, Integrity::Untrusted].map(|integrity| Mark { secrecy, integrity }))
        .collect();
    for &a in &all {
        assert_eq!(Mark::unpack(a.pack()), a);
        assert_eq!(a.join(a), a);
        for &b in &all {
            assert_eq!(a.join(b), b.join(a));
            assert!(a.join(b).secrecy >= a.secrecy && a.join(b).integrity >= b.integrity);
            for &c in &all {
                assert_eq!(a.join(b).join(c), a.join(b.join(c)));
            }
        }
    }
}

#[test]
fn server_ids_follow_the_grammar() {
    for good in ["github", "a", "a-b", "a_b", "remote_api", "x9", &"a".repeat(64)] {
        assert!(ServerId::parse(good).is_ok(), "{good}");
    }
    for bad in
        ["", "a__b", "-a", "a-", "_a", "a_", "a-_b", "A", "a.b", "a b", "ü", "builtin", "mcp", &"a".repeat(65), "a\0", "a/b"]
    {
        assert!(ServerId::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn no_two_pairs_meet_in_the_double_view() {
    // With ids that cannot end or start in a joiner, `server__tool` splits at the first `__` in one way only when the id has none.
    let id = ServerId::parse("github").unwrap();
    let name = View::Double.expose(&id, "my__tool");
    assert_eq!(split_double(&name), Some(("github", "my__tool")));
    assert_eq!(split_double("__x"), None);
    assert_eq!(split_double("x__"), None);
    assert_eq!(split_double("plain"), None);
}

#[test]
fn look_alike_tool_names_share_a_skeleton() {
    assert_eq!(skeleton("Read_File"), skeleton("read-file"));
    assert_eq!(skeleton("l1st"), skeleton("list"));
    assert_ne!(skeleton("read"), skeleton("write"));
}

#[test]
fn a_redacted_value_does_not_print() {
    let secret = Redacted::new("hunter2".to_owned());
    assert_eq!(format!("{secret:?}"), "[redacted]");
    assert_eq!(secret.expose(), "hunter2");
}

#[test]
fn every_rule_has_its_own_code_and_a_sentence() {
    let mut codes: Vec<_> = Rule::ALL.iter().map(|rule| rule.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Rule::ALL.len());
    assert!(Rule::ALL.iter().all(|rule| !rule.sentence().is_empty() && !rule.sentence().ends_with('.')));
}

#[test]
fn a_timeout_says_timeout() {
    assert!(Fault::new(FaultKind::Timeout, "").public().contains("timeout"));
}
