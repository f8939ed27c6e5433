//! What operators see of volumes and do on them, by the verbs of `portcullis volume`.

use serde_json::json;

use super::{done, label, other, tainted_yard};
use crate::{
    operator::{self, told},
    support::records,
};

#[tokio::test]
async fn an_operator_sees_files_with_their_labels_and_every_deed_is_on_record() {
    let (gate, tainted, _secret) = tainted_yard().await;
    done(
        &tainted,
        "fs.write",
        json!({"path": "d/plans", "content": "the plans"}),
    )
    .await;
    let volumes = told(&gate, &["volume", "list"]).await;
    assert_eq!(
        (
            &volumes[0]["name"],
            &volumes[0]["mount"],
            &volumes[0]["used_files"]
        ),
        (&json!("workspace"), &json!("/workspace"), &json!(2)),
        "{volumes}"
    );
    let shown = operator::done(&gate, &["volume", "show", "workspace"]).await;
    assert!(shown.stdout.contains("CONFIDENTIAL"), "{shown:?}");
    let entries = told(&gate, &["volume", "ls", "workspace", "d"]).await;
    assert_eq!(
        (&entries[0]["name"], &entries[0]["label"]),
        (&json!("plans"), &json!("CONFIDENTIAL")),
        "{entries}"
    );
    let read = operator::done(&gate, &["volume", "cat", "workspace", "d/plans"]).await;
    assert_eq!(read.stdout, "the plans");
    let put = gate
        .cli_with_input(&["volume", "put", "workspace", "notes/today"], "rain")
        .await
        .unwrap();
    assert_eq!(put.code, Some(0), "{put:?}");
    let reader = other(&gate, "reader", &[]).await;
    assert_eq!(
        done(&reader, "fs.read", json!({"path": "notes/today"}))
            .await
            .0,
        "rain"
    );
    assert_eq!(label(&reader).await, "PUBLIC", "an operator's own words");
    operator::done(
        &gate,
        &["volume", "label", "workspace", "notes/today", "INTERNAL"],
    )
    .await;
    let second = other(&gate, "second", &[]).await;
    done(&second, "fs.read", json!({"path": "notes/today"})).await;
    assert_eq!(label(&second).await, "INTERNAL");
    operator::done(
        &gate,
        &["volume", "rm", "workspace", "notes", "--recursive"],
    )
    .await;
    assert!(!gate.home().join("state/volumes/workspace/notes").exists());
    for (args, wanted) in [
        (
            &["volume", "cat", "workspace", "gone"][..],
            "there is no `gone`",
        ),
        (
            &["volume", "ls", "nowhere"][..],
            "there is no volume `nowhere`",
        ),
        (&["volume", "cat", "workspace", "../state.db"][..], "`..`"),
        (
            &["volume", "label", "workspace", "d", "RESTRICTED"][..],
            "CONFIDENTIAL",
        ),
    ] {
        let said = gate.cli(args).await.unwrap();
        assert_ne!(said.code, Some(0), "{args:?}: {said:?}");
        assert!(said.stderr.contains(wanted), "{args:?}: {said:?}");
    }
    let records = records(&gate).await;
    for action in [
        "volume.read",
        "volume.put",
        "volume.labelled",
        "volume.removed",
    ] {
        let found = records.iter().find(|record| record["action"] == action);
        let found = found.unwrap_or_else(|| panic!("{action} is not on record"));
        assert!(
            found["detail"].as_str().unwrap().starts_with("workspace: "),
            "{found}"
        );
    }
}
