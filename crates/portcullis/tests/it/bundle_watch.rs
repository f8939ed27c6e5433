//! Policy files are watched like the configuration is: picked up when they are good, and again when they are repaired.

use std::time::Duration;

use testkit::gate::Gate;

use crate::support::{eventually, gate};

const SOON: Duration = Duration::from_secs(10);
const GOOD: &str = "@id(\"all\")\npermit (principal, action, resource);\n";

async fn bundle(gate: &Gate) -> String {
    gate.status().await.unwrap()["bundle"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

async fn until(gate: &Gate, what: &str, is_so: impl Fn(&str) -> bool) -> String {
    eventually(what, SOON, || async {
        let now = bundle(gate).await;
        if is_so(&now) {
            Ok(now)
        } else {
            Err(format!("it is {now}"))
        }
    })
    .await
}

#[tokio::test]
async fn policies_are_noticed_and_so_is_their_repair() {
    let gate = gate("mcp_servers: {}\n").await;
    assert!(bundle(&gate).await.starts_with("balanced@"));
    let rules = gate.home().join("rules");
    std::fs::create_dir(&rules).unwrap();
    let file = rules.join("a.cedar");
    std::fs::write(&file, "permit (principal, action").unwrap();
    gate.write_config("policy: { bundle: ./rules }\nmcp_servers: {}\n")
        .unwrap();
    eventually("the mistake to be told", SOON, || async {
        if gate.output().contains("a.cedar:1:") {
            Ok(())
        } else {
            Err(gate.output())
        }
    })
    .await;
    assert!(
        bundle(&gate).await.starts_with("balanced@"),
        "a bad bundle changes nothing"
    );

    std::fs::write(&file, GOOD).unwrap();
    let first = until(&gate, "the repair to be noticed", |now| {
        now.starts_with("rules@")
    })
    .await;
    std::fs::write(
        rules.join("b.cedar"),
        "@id(\"none\")\nforbid (principal, action, resource) when { context.session_calls > 5 };\n",
    )
    .unwrap();
    let second = until(&gate, "another file to be noticed", |now| now != first).await;
    std::fs::remove_file(rules.join("b.cedar")).unwrap();
    assert_eq!(
        until(&gate, "its going to be noticed", |now| now != second).await,
        first,
        "the same policies, the same version"
    );

    gate.write_config("mcp_servers: {}\n").unwrap();
    until(&gate, "the program's own bundle", |now| {
        now.starts_with("balanced@")
    })
    .await;
}
