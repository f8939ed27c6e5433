//! Opening the person's browser.
//!
//! **Invariant: an address is an argument and nothing else.** It was parsed and written anew, so it begins with `http`; no shell sees
//! it. Test `an_address_is_one_argument_and_never_an_option`.

use std::process::{Command, Stdio};

use oauth::Address;

/// Opens an address with the person's own browser. False if there is none here.
pub(super) fn open(address: &Address) -> bool {
    let chosen = std::env::var("BROWSER")
        .ok()
        .filter(|chosen| !chosen.trim().is_empty());
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let program = match chosen {
        Some(chosen) => chosen,
        None if cfg!(target_os = "macos") => "open".to_owned(),
        None if has_screen => "xdg-open".to_owned(),
        None => return false,
    };
    let Some((program, args)) = command(&program, address) else {
        return false;
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().is_ok()
}

/// The program, and its arguments with the address as the last.
fn command<'a>(chosen: &'a str, address: &'a Address) -> Option<(&'a str, Vec<&'a str>)> {
    let mut words = chosen.split_whitespace();
    let program = words.next()?;
    Some((program, words.chain([address.url()]).collect()))
}

#[cfg(test)]
mod tests {
    use oauth::{Address, Plain};

    #[test]
    fn an_address_is_one_argument_and_never_an_option() {
        for hostile in [
            "https://a/;touch%20x",
            "https://a/$(touch%20x)",
            "https://a/&calc.exe",
            "https://a/'--help'",
            "https://--help/",
        ] {
            let address = Address::parse(hostile, Plain::Never).unwrap();
            let (program, args) = super::command("my-browser --new", &address).unwrap();
            assert_eq!((program, args.len(), args[0]), ("my-browser", 2, "--new"));
            assert!(args[1].starts_with("https://") && !args[1].contains(char::is_whitespace));
        }
        for refused in [
            "-x",
            "javascript:1",
            "file:///x",
            "https://a/ b",
            "https://a/\nb",
        ] {
            assert!(
                Address::parse(refused, Plain::OnLoopback).is_err(),
                "{refused}"
            );
        }
    }
}
