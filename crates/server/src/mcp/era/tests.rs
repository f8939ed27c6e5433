use wire::mcp::Revision;

use super::{Choice, Signs, negotiate};

/// Every combination of the four signs, against the table in words.
#[test]
fn every_row_of_the_table() {
    for meta_version in [false, true] {
        for header_version in [
            None,
            Some("2026-07-28"),
            Some("2025-11-25"),
            Some("2025-03-26"),
            Some("v999.0.0"),
            Some(""),
        ] {
            for session in [false, true] {
                for initialize in [false, true] {
                    let chosen = Choice::of(Signs {
                        meta_version,
                        header_version,
                        session,
                        initialize,
                    });
                    let unknown = matches!(header_version, Some("v999.0.0" | ""));
                    let expected = if meta_version || header_version == Some("2026-07-28") {
                        Choice::Modern
                    } else if initialize {
                        Choice::Handshake
                    } else if unknown {
                        Choice::UnknownVersion
                    } else if session {
                        Choice::Session
                    } else {
                        Choice::Nothing
                    };
                    assert_eq!(
                        chosen, expected,
                        "{meta_version} {header_version:?} {session} {initialize}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_revision_asked_for_is_given_if_it_has_a_handshake() {
    for revision in [
        Revision::V2025_03_26,
        Revision::V2025_06_18,
        Revision::V2025_11_25,
    ] {
        assert_eq!(negotiate(revision.as_str(), false), revision);
        assert_eq!(negotiate(revision.as_str(), true), revision);
    }
    for other in ["2026-07-28", "2030-01-01", "", "1.0"] {
        assert_eq!(negotiate(other, false), Revision::V2025_11_25, "{other}");
    }
    assert_eq!(negotiate("2024-11-05", false), Revision::V2025_03_26);
    assert_eq!(negotiate("2024-11-05", true), Revision::V2024_11_05);
}
