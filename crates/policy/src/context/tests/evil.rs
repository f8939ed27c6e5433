//! Names and commands that only look like what is allowed.

use super::*;

#[test]
fn a_wildcard_needs_its_dot_and_one_more_character() {
    let all = tool("fs.*");
    assert!(all.matches("fs.read") && all.matches("fs.create.dir"));
    for name in [
        "fs", "fs.", "fsx.read", "FS.read", "xfs.read", "fs_read", "", " fs.read",
    ] {
        assert!(!all.matches(name), "{name:?}");
    }
    assert!(tool("github__*").matches("github__push") && !tool("github__*").matches("github__"));
    assert!(tool("*").matches("anything") && !ToolPattern::default().matches(""));
    for text in [
        "",
        "fs*",
        "*.read",
        "fs.*.read",
        "fs.re*",
        "**",
        "fs read",
        "fs:read",
        ".*",
        "__*",
        "*x",
    ] {
        assert!(ToolPattern::parse(text).is_err(), "{text:?}");
    }
}

fn cargo() -> World {
    World::of(context(
        vec![Capability {
            subcommand_allowlist: by_command(&[
                ("cargo", &["build", "test"]),
                ("git", &["status"]),
            ]),
            ..capability("cmd.run")
        }],
        &[],
    ))
}

#[test]
fn a_command_is_exactly_what_is_listed() {
    let world = cargo();
    for command in [
        "bash",
        "/usr/bin/cargo",
        "./cargo",
        "cargo ",
        " cargo",
        "CARGO",
        "cargo build",
        "cargo;sh",
        "сargo",
        "cargo\\u0000",
        "../cargo",
    ] {
        let arguments = format!(r#"{{"command":"{command}","args":["build"]}}"#);
        let refused = world.rule("cmd.run", &arguments);
        assert_eq!(refused, Some(Rule::CommandNotAllowed), "{command:?}");
    }
    for blank in ["", " ", "\\t\\n"] {
        let refused = world.rule(
            "cmd.run",
            &format!(r#"{{"command":"{blank}","args":["build"]}}"#),
        );
        assert_eq!(
            refused, None,
            "{blank:?} is a missing command, which is for Shape to refuse"
        );
        let elsewhere = world.rule(
            "cmd.run",
            &format!(r#"{{"command":"{blank}","script":"sh"}}"#),
        );
        assert_eq!(
            elsewhere,
            Some(Rule::CommandNotAllowed),
            "{blank:?} hides no other command"
        );
    }
    for beside in [
        r#"{"inputResponses":{"q":{"content":{"command":"sh"}}}}"#,
        r#"{"_meta":{"x":[{"argv":["sh"]}]}}"#,
    ] {
        let refused = world.rule(
            "cmd.run",
            &format!(r#"{{"command":"cargo","args":["build"],"_params":{beside}}}"#),
        );
        assert_eq!(refused, Some(Rule::CommandNotAllowed), "{beside}");
    }
}

#[test]
fn the_first_argument_is_the_subcommand_whatever_it_is() {
    let world = cargo();
    let refused = [
        ("cargo", r#"["publish"]"#),
        ("cargo", "[]"),
        (
            "cargo",
            r#"["--config","build.rustc-wrapper=\"sh\"","build"]"#,
        ),
        ("cargo", r#"["+nightly","build"]"#),
        ("cargo", r#"["-Zunstable","build"]"#),
        ("cargo", r#"["build;publish"]"#),
        ("cargo", r#"["BUILD"]"#),
        ("cargo", r#"[" build"]"#),
        ("cargo", r#"["", "build"]"#),
        ("git", r#"["-c","core.fsmonitor=sh","status"]"#),
        ("git", r#"["-C","/etc","status"]"#),
        ("git", r#"["--exec-path=/tmp","status"]"#),
    ];
    for (command, args) in refused {
        let arguments = format!(r#"{{"command":"{command}","args":{args}}}"#);
        assert_eq!(
            world.rule("cmd.run", &arguments),
            Some(Rule::SubcommandNotAllowed),
            "{arguments}"
        );
    }
}

#[test]
fn a_list_of_subcommands_for_all_commands() {
    let world = World::of(context(
        vec![Capability {
            command_allowlist: Some(vec!["git".to_owned(), "cargo".to_owned()]),
            subcommand_allowlist: Some(Subcommands::ForAll(vec![
                "status".to_owned(),
                "build".to_owned(),
            ])),
            ..capability("cmd.run")
        }],
        &[],
    ));
    assert_eq!(
        world.rule("cmd.run", r#"{"command":"git","args":["build"]}"#),
        None
    );
    assert_eq!(
        world.rule("cmd.run", r#"{"command":"git","args":["push"]}"#),
        Some(Rule::SubcommandNotAllowed)
    );
    assert_eq!(
        world.rule("cmd.run", r#"{"command":"npm","args":["build"]}"#),
        Some(Rule::CommandNotAllowed)
    );
}

#[test]
fn denials_hold_however_the_argument_is_written() {
    let world = World::of(context(
        vec![capability("*")],
        &[
            "cmd.run:rm",
            "cmd.run:git push",
            "fs.read:/etc/*",
            "fs.read:/workspace/.env",
            "web.fetch:*.evil.com",
            "web.fetch:127.0.0.1",
            "email.*:evil.com",
        ],
    ));
    let denied = [
        ("cmd.run", r#"{"command":"rm","args":["-rf","/"]}"#),
        ("cmd.run", r#"{"command":"/bin/rm"}"#),
        ("cmd.run", r#"{"command":"git","args":["push","-f"]}"#),
        ("fs.read", r#"{"path":"/etc/passwd"}"#),
        ("fs.read", r#"{"path":"//etc/./ssh/sshd_config"}"#),
        ("fs.read", r#"{"path":".env"}"#),
        ("fs.read", r#"{"path":["a",".env"]}"#),
        ("web.fetch", r#"{"url":"https://a.b.EVIL.com./x"}"#),
        ("web.fetch", r#"{"url":"http://0x7f000001/"}"#),
        ("web.fetch", r#"{"url":"http://[::ffff:7f00:1]/"}"#),
        (
            "email.send",
            r#"{"to":"good@good.com, x <y@sub.evil.com>"}"#,
        ),
        // However it is written: what cannot be read is denied too.
        ("cmd.run", r#"{"command":" rm "}"#),
        ("cmd.run", r#"{"command":["rm"]}"#),
        ("cmd.run", r#"{"command":"git","args":["-C","/x","push"]}"#),
        ("cmd.run", r#"{"command":"git","args":"push"}"#),
        ("web.fetch", r#"{"url":"http://good@x.evil.com/"}"#),
        ("web.fetch", r#"{"url":"http://x.ev%69l.com/"}"#),
        ("web.fetch", r#"{"url":"http:x.evil.com"}"#),
        ("email.send", r#"{"to":"\"a@good.com\"@evil.com"}"#),
        ("email.send", r#"{"raw":"VG86IGFAZXZpbC5jb20="}"#),
    ];
    for (tool, arguments) in denied {
        assert_eq!(
            world.rule(tool, arguments),
            Some(Rule::ToolExplicitlyDenied),
            "{tool} {arguments}"
        );
    }
    let fine = [
        ("cmd.run", r#"{"command":"rmdir"}"#),
        ("cmd.run", r#"{"command":"git","args":["pull"]}"#),
        ("cmd.run", r#"{"command":"git"}"#),
        ("email.read", r#"{"from":"someone@evil.com"}"#),
        ("fs.read", r#"{"path":"/etcetera/passwd"}"#),
        ("fs.write", r#"{"path":"/etc/passwd"}"#),
        ("web.fetch", r#"{"url":"https://notevil.com"}"#),
        ("web.fetch", r#"{"url":"https://evil.com"}"#),
    ];
    for (tool, arguments) in fine {
        assert_eq!(world.rule(tool, arguments), None, "{tool} {arguments}");
    }
    for text in [
        "fs.read:",
        "fs.read:../x",
        "web.fetch:http://x",
        ":rm",
        "fs*:x",
        "cmd.run: rm",
    ] {
        assert!(Denial::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_tool_of_somebody_elses_is_bounded_whatever_it_calls_its_arguments() {
    let bounded = Capability {
        path_allowlist: paths(&["/workspace"]),
        domain_allowlist: domains(&["docs.rs"]),
        ..capability("*")
    };
    let world = World::of(context(
        vec![bounded],
        &["files__read:/etc/*", "fetch__get:evil.com"],
    ));
    let outside = [
        r#"{"source":"/etc/passwd","destination":"/workspace/x"}"#,
        r#"{"options":{"deep":["/workspace/a","/srv/keys/id"]}}"#,
        r#"{"anything":"~/.ssh/id"}"#,
        r#"{"anything":"file:///etc/passwd"}"#,
    ];
    for arguments in outside {
        assert_eq!(
            world.rule("files__move_file", arguments),
            Some(Rule::PathOutsideBoundary),
            "{arguments}"
        );
    }
    assert_eq!(
        world.rule("files__move_file", r#"{"a":"/workspace/../etc"}"#),
        Some(Rule::PathTraversalAttempt)
    );
    for arguments in [
        r#"{"url":"evil.com"}"#,
        r#"{"link":"//evil.com"}"#,
        r#"{"text":"see https://evil.com/x"}"#,
    ] {
        assert!(
            world.rule("fetch__page", arguments).is_some(),
            "{arguments}"
        );
    }
    assert_eq!(
        world.rule(
            "fetch__page",
            r#"{"url":"https://docs.rs/x","save":"/workspace/x"}"#
        ),
        None
    );
    assert_eq!(
        world.rule("notes__add", r#"{"text":"no path, no address"}"#),
        None
    );
    assert_eq!(
        world.rule(
            "email.send",
            r#"{"to":"a@docs.rs","attachments":["/etc/passwd"]}"#
        ),
        Some(Rule::PathOutsideBoundary)
    );
    let denied = World::of(context(
        vec![capability("*")],
        &["files__read:/etc/*", "fetch__get:evil.com"],
    ));
    assert_eq!(
        denied.rule("files__read", r#"{"where":"//etc/./passwd"}"#),
        Some(Rule::ToolExplicitlyDenied)
    );
    assert_eq!(
        denied.rule("fetch__get", r#"{"where":"https://evil.com/x"}"#),
        Some(Rule::ToolExplicitlyDenied)
    );
    assert_eq!(
        denied.rule("fetch__get", r#"{"where":"https://fine.com/x"}"#),
        None
    );
}

#[test]
fn a_relative_path_is_the_gates_own_or_nothing() {
    let files = Capability {
        path_allowlist: paths(&["/workspace"]),
        ..capability("fs.*")
    };
    let world = World::of(context(vec![files], &[]));
    let arguments = Json::parse(br#"{"path":"etc/shadow"}"#, Limits::default()).unwrap();
    let at = |server| {
        let scope = Scope {
            context: &world.context,
            agent: None,
            ceilings: &world.ceilings,
            session_patterns: None,
        };
        let call = Call {
            tool: "fs.read",
            aliases: &[],
            server,
            arguments: Some(arguments),
            calls_so_far: 0,
            tool_calls_so_far: 0,
        };
        first(&examine(scope, &call)).map(|violation| violation.rule)
    };
    assert_eq!(at(Some("built-in")), None);
    assert_eq!(at(Some("files")), Some(Rule::PathOutsideBoundary));
}

#[test]
fn nothing_hides_behind_null_a_list_or_a_brace() {
    let files = Capability {
        path_allowlist: paths(&["/workspace"]),
        ..capability("*")
    };
    let world = World::of(context(vec![files], &[]));
    for arguments in [
        r#"{"path":"/workspace","pattern":"{/etc/*,x}"}"#,
        r#"{"path":"/workspace","pattern":["/etc/*"]}"#,
    ] {
        assert_eq!(
            world.rule("fs.glob", arguments),
            Some(Rule::PathOutsideBoundary),
            "{arguments}"
        );
    }
    let late = r#"{"command":"x","timeout_secs":null,"timeout":99999}"#;
    assert_eq!(
        world.rule("cmd.run", late),
        Some(Rule::ExecTimeoutCeilingExceeded)
    );
    let mail = Capability {
        domain_allowlist: domains(&["good.com"]),
        ..capability("email.*")
    };
    let world = World::of(context(vec![mail], &[]));
    let nested = r#"{"to":"a@good.com","message":{"bcc":["b@evil.com"]}}"#;
    assert_eq!(
        world.rule("email.send", nested),
        Some(Rule::DomainNotAllowed)
    );
}

/// A call to a server of somebody else's.
fn foreign(world: &World, tool: &str, aliases: &[&str], arguments: &str) -> Option<Rule> {
    world
        .foreign(tool, aliases, arguments)
        .map(|violation| violation.rule)
}

#[test]
fn a_tool_with_names_in_several_families_keeps_the_bounds_of_each() {
    let run = ["run", "up__run", "fs.run", "cmd.run", "web.run"];
    let others = |asked: &str| {
        run.iter()
            .copied()
            .filter(|name| *name != asked)
            .collect::<Vec<_>>()
    };
    let bounded = World::of(context(
        vec![
            Capability {
                path_allowlist: paths(&["/workspace"]),
                ..capability("fs.*")
            },
            Capability {
                command_allowlist: Some(vec!["ls".to_owned()]),
                ..capability("cmd.run")
            },
        ],
        &["cmd.run:rm"],
    ));
    let rm = r#"{"command":"rm","args":["-rf","/"],"path":"/workspace"}"#;
    assert_eq!(
        foreign(&bounded, "fs.run", &others("fs.run"), rm),
        Some(Rule::ToolExplicitlyDenied)
    );
    let bash = r#"{"command":"bash","path":"/workspace"}"#;
    assert_eq!(
        foreign(&bounded, "fs.run", &others("fs.run"), bash),
        Some(Rule::CommandNotAllowed)
    );
    assert_eq!(
        foreign(
            &bounded,
            "fs.run",
            &others("fs.run"),
            r#"{"path":"/workspace"}"#
        ),
        None,
        "no command, no bound"
    );

    let open = World::of(context(
        vec![capability("*")],
        &[
            "cmd.run:rm",
            "fs.read:/workspace/.env",
            "web.fetch:evil.com",
        ],
    ));
    for asked in ["up__run", "web.run", "fs.run", "run"] {
        assert_eq!(
            foreign(&open, asked, &others(asked), r#"{"command":"rm"}"#),
            Some(Rule::ToolExplicitlyDenied),
            "{asked}"
        );
    }
    let read = ["up__read", "cmd.read", "fs.read"];
    assert_eq!(
        foreign(&open, "web.read", &read, r#"{"path":"/workspace/.env"}"#),
        Some(Rule::ToolExplicitlyDenied)
    );
    let fetch = ["fs.fetch", "web.fetch"];
    assert_eq!(
        foreign(&open, "up__fetch", &fetch, r#"{"url":"http://evil.com"}"#),
        Some(Rule::ToolExplicitlyDenied)
    );
    assert_eq!(
        foreign(&open, "up__fetch", &fetch, r#"{"url":"http://good.com"}"#),
        None
    );

    let mut node = World::of(context(vec![capability("*")], &[]));
    node.ceilings.subcommand_allowlist = by_command(&[("cargo", &["build"])]);
    assert_eq!(
        foreign(
            &node,
            "up__run",
            &others("up__run"),
            r#"{"command":"bash"}"#
        ),
        Some(Rule::CommandNotAllowed)
    );
    assert_eq!(
        foreign(
            &node,
            "up__run",
            &others("up__run"),
            r#"{"command":"cargo","args":["build"]}"#
        ),
        None
    );
    assert_eq!(
        foreign(
            &node,
            "fs.read",
            &["cmd.read"],
            r#"{"path":"/workspace/a"}"#
        ),
        None,
        "it runs nothing"
    );

    let texts = World::of(context(vec![capability("*")], &["up__echo:secret"]));
    assert_eq!(
        foreign(
            &texts,
            "up__echo",
            &["fs.echo", "cmd.echo"],
            r#"{"text":"secret"}"#
        ),
        Some(Rule::ToolExplicitlyDenied)
    );
}

#[test]
fn what_an_argument_is_called_hides_nothing() {
    let world = World::of(context(
        vec![
            Capability {
                path_allowlist: paths(&["/workspace"]),
                ..capability("fs.*")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                ..capability("web.*")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                ..capability("email.*")
            },
            Capability {
                command_allowlist: Some(vec!["ls".to_owned()]),
                ..capability("cmd.*")
            },
        ],
        &[],
    ));
    let ask = |tool: &str, given: &str, key: &str, value: &str| {
        foreign(
            &world,
            tool,
            &[],
            &format!(r#"{{{given},"{key}":"{value}"}}"#),
        )
    };
    for key in [
        "Bcc",
        "CC",
        "To",
        "bcc_recipients",
        "bccRecipients",
        "notify",
        "Reply-To",
    ] {
        assert_eq!(
            ask("email.send", r#""to":"a@example.com""#, key, "x@evil.com"),
            Some(Rule::DomainNotAllowed),
            "{key}"
        );
        assert_eq!(
            ask(
                "email.send",
                r#""to":"a@example.com""#,
                key,
                "x@example.com"
            ),
            None,
            "{key}"
        );
    }
    assert_eq!(
        ask(
            "email.send",
            r#""to":"a@example.com""#,
            "body",
            "write to x@evil.com"
        ),
        None,
        "that is content"
    );
    for key in [
        "URL",
        "Url",
        "callback_url",
        "target_url",
        "image_url",
        "webhook",
        "next",
    ] {
        let evil = ask(
            "web.fetch",
            r#""url":"https://example.com""#,
            key,
            "https://evil.com/a",
        );
        assert_eq!(evil, Some(Rule::DomainNotAllowed), "{key}");
    }
    assert_eq!(
        ask(
            "web.fetch",
            r#""url":"https://example.com""#,
            "host",
            "evil.com"
        ),
        Some(Rule::DomainNotAllowed)
    );
    assert_eq!(
        ask(
            "web.post",
            r#""url":"https://example.com""#,
            "body",
            "see https://evil.com"
        ),
        None,
        "that is content"
    );
    for key in [
        "PATH", "Path", "fileName", "uri", "location", "base_dir", "workdir", "path2", "anything",
    ] {
        let outside = ask("fs.read", r#""path":"/workspace/a""#, key, "/etc/passwd");
        assert_eq!(outside, Some(Rule::PathOutsideBoundary), "{key}");
        assert_eq!(
            ask("fs.read", r#""path":"/workspace/a""#, key, "/workspace/b"),
            None,
            "{key}"
        );
    }
    for key in ["name", "subpath", "base"] {
        let climbing = ask("fs.read", r#""path":"/workspace/a""#, key, "b/../../../etc");
        assert_eq!(climbing, Some(Rule::PathTraversalAttempt), "{key}");
    }
    assert_eq!(
        ask(
            "fs.write",
            r#""path":"/workspace/a""#,
            "content",
            "/etc/passwd"
        ),
        None,
        "that is content"
    );
    for key in ["cmd", "script", "Command", "shell"] {
        assert_eq!(
            ask("cmd.run", r#""command":"ls""#, key, "rm -rf /"),
            Some(Rule::CommandNotAllowed),
            "{key}"
        );
    }
}

#[test]
fn nor_does_how_deep_it_lies_or_that_it_is_a_name_itself() {
    let world = World::of(context(
        vec![
            Capability {
                path_allowlist: paths(&["/workspace"]),
                ..capability("fs.*")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                ..capability("web.*")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                ..capability("email.*")
            },
        ],
        &[],
    ));
    for files in [
        r#"["/etc/passwd",1]"#,
        r#"[["/etc/passwd"]]"#,
        r#"{"/etc/passwd":"x"}"#,
        r#"[{"a":{"b":["/etc/passwd"]}}]"#,
    ] {
        for key in ["files", "anything"] {
            let arguments = format!(r#"{{"path":"/workspace/a","{key}":{files}}}"#);
            assert_eq!(
                foreign(&world, "fs.write", &[], &arguments),
                Some(Rule::PathOutsideBoundary),
                "{arguments}"
            );
        }
    }
    for urls in [
        r#"[["https://evil.com"]]"#,
        r#"{"https://evil.com":1}"#,
        r#"["https://evil.com",null]"#,
    ] {
        let arguments = format!(r#"{{"url":"https://example.com","links":{urls}}}"#);
        assert_eq!(
            foreign(&world, "web.fetch", &[], &arguments),
            Some(Rule::DomainNotAllowed),
            "{arguments}"
        );
    }
    let arguments = r#"{"to":"a@example.com","groups":{"x@evil.com":true}}"#;
    assert_eq!(
        foreign(&world, "email.send", &[], arguments),
        Some(Rule::DomainNotAllowed)
    );
}

#[test]
fn without_a_list_paths_are_free_unless_they_climb() {
    let world = World::of(context(vec![capability("*")], &["fs.read:/workspace/.env"]));
    assert_eq!(
        foreign(&world, "fs.write", &[], r#"{"path":"notes/a"}"#),
        None
    );
    assert_eq!(
        foreign(&world, "fs.write", &[], r#"{"path":"notes/../../a"}"#),
        Some(Rule::PathTraversalAttempt)
    );
    let relative = foreign(&world, "fs.read", &[], r#"{"path":".env"}"#);
    assert_eq!(
        relative,
        Some(Rule::ToolExplicitlyDenied),
        "which file that is, only the server knows"
    );
}

#[test]
fn a_list_of_commands_bounds_a_tool_of_no_family_too() {
    let list = Capability {
        command_allowlist: Some(vec!["ls".to_owned()]),
        ..capability("box__*")
    };
    let world = World::of(context(vec![list], &[]));
    assert_eq!(
        foreign(&world, "box__run", &[], r#"{"command":"rm"}"#),
        Some(Rule::CommandNotAllowed)
    );
    assert_eq!(
        foreign(&world, "box__run", &[], r#"{"script":"rm"}"#),
        Some(Rule::CommandNotAllowed),
        "no command can be seen"
    );
    assert_eq!(
        foreign(&world, "box__run", &[], r#"{"command":"ls"}"#),
        None
    );
}
