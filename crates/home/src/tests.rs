use std::os::unix::fs::PermissionsExt as _;

use crate::*;

fn environment<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    |name| {
        pairs
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| OsString::from(value))
    }
}

#[test]
fn home_option_holds_everything() {
    let home = Home::at(Path::new("/h"));
    assert_eq!(home.config_file(), Path::new("/h/portcullis.yaml"));
    assert_eq!(home.tokens_file(), Path::new("/h/state/tokens.json"));
    assert_eq!(home.ledger, Path::new("/h/ledger"));
    assert_eq!(home.socket(), Path::new("/h/run/gate.sock"));
}

#[test]
fn xdg_directories_and_their_fallbacks() {
    let home = Home::from_environment(environment(&[("HOME", "/u")])).unwrap();
    assert_eq!(
        home.config_file(),
        Path::new("/u/.config/portcullis/portcullis.yaml")
    );
    assert_eq!(home.state, Path::new("/u/.local/state/portcullis"));
    assert_eq!(home.ledger, Path::new("/u/.local/state/portcullis/ledger"));
    assert_eq!(home.run, Path::new("/u/.local/state/portcullis/run"));
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().to_str().unwrap();
    let set = [
        ("HOME", "/u"),
        ("XDG_CONFIG_HOME", "/c"),
        ("XDG_STATE_HOME", "relative"),
        ("XDG_RUNTIME_DIR", run),
    ];
    let home = Home::from_environment(environment(&set)).unwrap();
    assert_eq!(home.config, Path::new("/c/portcullis"));
    assert_eq!(
        home.state,
        Path::new("/u/.local/state/portcullis"),
        "a relative path is ignored"
    );
    assert_eq!(home.run, dir.path().join("portcullis"));
    assert!(matches!(
        Home::from_environment(environment(&[])),
        Err(HomeError::Nowhere)
    ));
}

#[test]
fn prepared_directories_are_the_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("new/home"));
    home.prepare().unwrap();
    home.prepare().unwrap();
    for path in [&home.config, &home.state, &home.ledger, &home.run] {
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o700,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_home_others_can_write_to_is_refused_with_the_fix() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(&dir.path().join("h"));
    home.prepare().unwrap();
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o770)).unwrap();
    let message = home.prepare().unwrap_err().to_string();
    assert!(
        message.ends_with(&format!(
            "fix it with: chmod go-w '{}'",
            home.state.display()
        )),
        "{message}"
    );
}

#[test]
fn what_is_not_a_usable_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("state"), "a file").unwrap();
    assert!(
        matches!(Home::at(dir.path()).prepare(), Err(HomeError::NotDirectory(path)) if path.ends_with("state"))
    );
    let long = Home::at(&dir.path().join("x".repeat(120)));
    assert!(matches!(long.prepare(), Err(HomeError::TooLong(_))));
}
