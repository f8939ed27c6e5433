//! Logins that no person makes: by what the platform says of the programs it runs.

use std::path::Path;

use testkit::guarded::Guarded;

use super::{SOON, assert_no_secret, echo, gate_before};
use crate::support::await_state;

fn write(file: &Path, assertion: &str) {
    std::fs::write(file, format!("{assertion}\n")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_platform_says_is_read_anew_for_each_token() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.workload = Some("first.assertion".to_owned()));
    let gate = gate_before(&guarded).await;
    let file = gate.home().join("platform.jwt");
    write(&file, "first.assertion");
    let file_name = file.to_str().unwrap();
    let options = ["servers", "login", "guarded", "--workload", file_name];
    // The server's word alone does not decide whom the assertion goes to.
    let said = gate.cli(&options).await.unwrap();
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(guarded.with(|books| books.asked), 0);
    let issuer = guarded.issuer();
    let options = [&options[..], &["--issuer", &issuer]].concat();
    let said = gate.cli(&options).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    await_state(&gate, "guarded", "connected", SOON).await;
    assert!(!echo(&gate).await.is_error);
    // The platform says it anew, and the one before is no longer good.
    guarded.with(|books| books.workload = Some("second.assertion".to_owned()));
    write(&file, "second.assertion");
    guarded.end_tokens();
    assert!(!echo(&gate).await.is_error);
    assert_no_secret(&guarded, &gate);
    // A refusal is final: no other grant is tried.
    guarded.with(|books| books.workload = Some("third.assertion".to_owned()));
    guarded.end_tokens();
    assert_eq!(echo(&gate).await.violation(), Some("LoginRequired"));
    guarded.with(|books| {
        let grants: Vec<&String> = books.granted.keys().collect();
        assert_eq!(grants, ["urn:ietf:params:oauth:grant-type:jwt-bearer"]);
        assert_eq!(books.granted.values().sum::<usize>(), 3);
    });
}
