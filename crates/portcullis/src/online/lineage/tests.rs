use super::*;

#[test]
fn a_lineage_on_the_screen() {
    let calls = crate::lineage::tests::story();
    let of = calls.get("d").unwrap();
    assert_eq!(
        render(of, &calls.back("d"), false, Style::PLAIN),
        "\
CALL  TIME                 CALLER    VERDICT    TOOL        SESSION
d     2026-11-15 11:02:07  1f2e3d4c  permitted  notes/read  PUBLIC → CONFIDENTIAL

What may have influenced it, latest first
CALL  TIME                 CALLER    VERDICT    TOOL        SESSION
c     2026-11-15 11:02:04  1f2e3d4c  permitted  notes/read  PUBLIC → CONFIDENTIAL
b     2026-11-15 11:02:03  1f2e3d4c  permitted  notes/read  PUBLIC → CONFIDENTIAL
a     2026-11-15 11:02:01  1f2e3d4c  permitted  notes/read  PUBLIC → CONFIDENTIAL
"
    );
    let first = calls.get("a").unwrap();
    assert!(
        render(first, &calls.back("a"), false, Style::PLAIN)
            .ends_with("\nNothing: the session had read nothing before.\n")
    );
    let cut = Walk {
        calls: Vec::new(),
        whole: false,
    };
    assert!(render(first, &cut, true, Style::PLAIN).ends_with(
        "There is more, which this ledger does not have, or which is too long to show.\n"
    ));
}
