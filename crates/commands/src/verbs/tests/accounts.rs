//! Changes by hand are recorded, and accounts are kept.

use audit::Filter;

use super::*;

fn changes(home: &Home) -> Vec<String> {
    let records = audit::read(
        &home.ledger,
        Filter {
            kind: "change".into(),
            ..Filter::default()
        },
    )
    .unwrap();
    let told = records
        .map(Result::unwrap)
        .filter(|record| record.door == "cli");
    told.map(|record| {
        format!(
            "{} {} {} {:?} by {}",
            record.action, record.server, record.detail, record.reason, record.user
        )
    })
    .collect()
}

#[test]
fn without_a_gate_changes_are_recorded_with_who_and_why() {
    let house = House::new();
    assert_eq!(
        house
            .run("portcullis servers classify demo-web INTERNAL --reason reviewed")
            .0,
        0
    );
    assert_eq!(
        house
            .run("portcullis servers block demo-web --reason leaks")
            .1,
        "Server demo-web blocked in HOME/portcullis.yaml.\n"
    );
    assert_eq!(
        house
            .run("portcullis servers block demo-web --reason leaks")
            .0,
        0,
        "nothing changes, so nothing is recorded"
    );
    let (_, resolved) = load(&house.home.config_file()).unwrap();
    assert_eq!(configured(&resolved)[1].blocked.as_deref(), Some("leaks"));
    assert_eq!(house.run("portcullis servers unblock demo-web").0, 0);
    assert_eq!(house.run("portcullis servers disable demo-web").0, 0);
    assert_eq!(
        house.run("portcullis servers block demo-wed --reason x").0,
        2
    );
    let who = changes(&house.home)
        .first()
        .unwrap()
        .rsplit_once(" by ")
        .unwrap()
        .1
        .to_owned();
    assert!(!who.is_empty());
    let told: Vec<_> = changes(&house.home)
        .iter()
        .map(|line| line.replace(&format!(" by {who}"), ""))
        .collect();
    assert_eq!(
        told,
        [
            "server.state demo-web CLASSIFIED INTERNAL \"reviewed\"",
            "server.state demo-web BLOCKED \"leaks\"",
            "server.state demo-web unblocked \"\"",
            "server.disabled demo-web  \"\"",
        ]
    );
}

#[test]
fn what_cannot_be_recorded_is_not_done() {
    let house = House::new();
    house.home.prepare().unwrap();
    let before = std::fs::read_to_string(house.home.config_file()).unwrap_or_default();
    std::fs::remove_dir_all(&house.home.ledger).unwrap();
    std::fs::write(&house.home.ledger, "in the way").unwrap();
    let (exit, text) = house.run("portcullis servers block demo-web --reason leaks");
    assert_ne!(exit, 0, "{text}");
    let after = std::fs::read_to_string(house.home.config_file()).unwrap_or_default();
    assert!(before == after || !after.contains("blocked:"), "{after}");
}

#[test]
fn accounts_are_listed_and_removed_apart_from_other_secrets() {
    let house = House::new();
    house.home.prepare().unwrap();
    let vault = secrets::Vault::in_home(house.home.vault(), secrets::os_entropy());
    let server = vocab::ServerId::parse("github").unwrap();
    vault
        .set(
            &home::accounts::name(&server, None, "alice@example.com").unwrap(),
            &secrets::Secret::new("token".to_owned()),
        )
        .unwrap();
    vault
        .set("github-pat", &secrets::Secret::new("other".to_owned()))
        .unwrap();
    assert_eq!(
        house.run("portcullis connect-account --list").1,
        "SERVER  USER\ngithub  alice@example.com\n"
    );
    assert_eq!(house.run("portcullis secret list").1, "github-pat\n");
    assert_eq!(
        house.run("portcullis connect-account github --user bob --remove"),
        (
            2,
            "bob has no account at github; `portcullis connect-account --list` shows them"
                .to_owned()
        )
    );
    assert_eq!(
        house
            .run("portcullis connect-account github --user alice@example.com --remove")
            .1,
        "The account of alice@example.com at github is forgotten.\n"
    );
    assert_eq!(vault.names().unwrap(), ["github-pat"]);
    assert!(changes(&house.home)[0].starts_with("account.removed github"));
}

#[test]
fn a_namesake_in_another_tenant_has_an_account_of_its_own() {
    let house = House::new();
    house.home.prepare().unwrap();
    let vault = secrets::Vault::in_home(house.home.vault(), secrets::os_entropy());
    let server = vocab::ServerId::parse("github").unwrap();
    for tenant in [None, Some("acme")] {
        let name = home::accounts::name(&server, tenant, "alice").unwrap();
        let token = secrets::Secret::new("token".to_owned());
        vault.set(&name, &token).unwrap();
    }
    let (_, listed) = house.run("portcullis connect-account --list");
    assert!(listed.starts_with("SERVER  USER   TENANT\n"), "{listed}");
    assert_eq!(
        house
            .run("portcullis connect-account github --user alice --tenant acme --remove")
            .0,
        0
    );
    assert_eq!(vault.names().unwrap(), ["account.github.alice"]);
}

#[test]
fn a_server_that_is_removed_takes_its_users_accounts_along() {
    let house = House::new();
    house.home.prepare().unwrap();
    first_config(&house.home).unwrap();
    let vault = secrets::Vault::in_home(house.home.vault(), secrets::os_entropy());
    for name in [
        "account.demo-web.alice",
        "account.demo-web.acme.bob",
        "account.other.alice",
    ] {
        let token = secrets::Secret::new("token".to_owned());
        vault.set(name, &token).unwrap();
    }
    let (exit, said) = house.run("portcullis servers remove demo-web");
    assert_eq!(exit, 0, "{said}");
    assert_eq!(vault.names().unwrap(), ["account.other.alice"]);
    let removed = changes(&house.home);
    let removed = removed
        .iter()
        .filter(|line| line.starts_with("account.removed demo-web"));
    assert_eq!(removed.count(), 2);
}

#[test]
fn an_account_needs_a_server_that_can_have_one() {
    let house = House::new();
    first_config(&house.home).err();
    house.home.prepare().unwrap();
    first_config(&house.home).unwrap();
    assert_eq!(
        house.run("portcullis connect-account demo-wen --user alice"),
        (
            2,
            "there is no server `demo-wen`; did you mean `demo-web`?".to_owned()
        )
    );
    assert_eq!(
        house.run("portcullis connect-account demo-web --user alice"),
        (
            2,
            "`demo-web` is a program of this machine; only servers with a `url` have accounts"
                .to_owned()
        )
    );
}
