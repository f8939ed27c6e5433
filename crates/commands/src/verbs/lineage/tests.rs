use crate::verbs::lineage::*;

fn call(name: &str, second: u8) -> ShownCall {
    ShownCall {
        call: name.to_owned(),
        time: format!("2026-11-15T11:02:{second:02}.000Z"),
        caller: "1f2e3d4c".to_owned(),
        server: "notes".to_owned(),
        tool: "read".to_owned(),
        verdict: "permitted".to_owned(),
        label: "PUBLIC".to_owned(),
        label_after: "CONFIDENTIAL".to_owned(),
    }
}

#[test]
fn a_lineage_on_the_screen() {
    let found = Lineage {
        call: call("d", 7),
        forward: false,
        calls: vec![call("c", 4), call("b", 3), call("a", 1)],
        whole: true,
    };
    assert_eq!(
        render(&found, Style::PLAIN),
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
    let first = Lineage {
        call: call("a", 1),
        calls: Vec::new(),
        ..found
    };
    assert!(
        render(&first, Style::PLAIN).ends_with("\nNothing: the session had read nothing before.\n")
    );
    let cut = Lineage {
        forward: true,
        whole: false,
        ..first
    };
    assert!(render(&cut, Style::PLAIN).ends_with(
        "There is more, which this ledger does not have, or which is too long to show.\n"
    ));
}
