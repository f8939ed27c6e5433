use crate::*;

#[test]
fn levels_parse_only_their_exact_names() {
    for level in Level::ALL {
        assert_eq!(level.as_str().parse::<Level>().unwrap(), level);
    }
    for wrong in ["public", "Public", "", "SECRET", " PUBLIC"] {
        assert!(wrong.parse::<Level>().is_err(), "{wrong:?}");
    }
}

#[test]
fn marks_form_a_lattice_and_survive_packing() {
    let all: Vec<Mark> = Level::ALL
        .into_iter()
        .flat_map(|secrecy| {
            [Integrity::Trusted, Integrity::Untrusted].map(|integrity| Mark { secrecy, integrity })
        })
        .collect();
    for &a in &all {
        assert_eq!(Mark::unpack(a.pack()), a);
        assert_eq!(a.join(a), a);
        for &b in &all {
            assert_eq!(a.join(b), b.join(a));
            assert!(a.join(b).secrecy >= a.secrecy && a.join(b).integrity >= b.integrity);
            for &c in &all {
                assert_eq!(a.join(b).join(c), a.join(b.join(c)));
            }
        }
    }
}

#[test]
fn a_label_includes_exactly_what_joining_does_not_change() {
    let ids = ["a", "b"].map(|id| ServerId::parse(id).unwrap());
    let mut all = vec![Label::default()];
    for mark in [0, 1, 3, 4, 5, 7].map(Mark::unpack) {
        all.extend(ids.clone().map(|id| Label::of(mark, id)));
        all.push(Label::of(mark, ids[0].clone()).join(&Label::of(mark, ids[1].clone())));
    }
    for one in &all {
        for other in &all {
            let joined = one.clone().join(other);
            assert_eq!(one.includes(other), joined == *one, "{one:?} {other:?}");
            assert!(joined.includes(one) && joined.includes(other));
        }
    }
}

#[test]
fn server_ids_follow_the_grammar() {
    for good in [
        "github",
        "a",
        "a-b",
        "a_b",
        "remote_api",
        "x9",
        &"a".repeat(64),
    ] {
        assert!(ServerId::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "a__b",
        "-a",
        "a-",
        "_a",
        "a_",
        "a-_b",
        "A",
        "a.b",
        "a b",
        "ü",
        "builtin",
        "mcp",
        &"a".repeat(65),
        "a\0",
        "a/b",
    ] {
        assert!(ServerId::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn no_two_pairs_meet_in_the_double_view() {
    // With ids that cannot end or start in a joiner, `server__tool` splits at the first `__` in one way only when the id has none.
    let id = ServerId::parse("github").unwrap();
    let name = View::Double.expose(&id, "my__tool");
    assert_eq!(split_double(&name), Some(("github", "my__tool")));
    assert_eq!(split_double("__x"), None);
    assert_eq!(split_double("x__"), None);
    assert_eq!(split_double("plain"), None);
}

#[test]
fn look_alike_tool_names_share_a_skeleton() {
    assert_eq!(skeleton("Read_File"), skeleton("read-file"));
    assert_eq!(skeleton("l1st"), skeleton("list"));
    assert_ne!(skeleton("read"), skeleton("write"));
    for (one, other) in [
        ("5ay", "say"),
        ("rnail", "mail"),
        ("vvrite", "write"),
        ("clelete", "delete"),
        ("rea_clir", "rea-dir"),
        ("2ip", "zip"),
        ("8ackup", "Backup"),
        ("comrnit", "Commit"),
        ("read__file", "read_file"),
        ("ReadFi1e", "readfile"),
    ] {
        assert_eq!(skeleton(one), skeleton(other), "{one} passes for {other}");
    }
    for number in 0..100 {
        let (one, next) = (format!("step_{number}"), format!("step_{}", number + 1));
        assert_ne!(skeleton(&one), skeleton(&next), "numbered names stay apart");
    }
}

/// Tools of servers that people use: none of them may be taken for another of its own server.
#[test]
fn no_real_server_has_names_that_look_alike() {
    const SERVERS: &[&str] = &[
        "read_file read_text_file read_media_file read_multiple_files write_file edit_file create_directory list_directory \
         list_directory_with_sizes directory_tree move_file search_files get_file_info list_allowed_directories",
        "create_entities create_relations add_observations delete_entities delete_observations delete_relations read_graph \
         search_nodes open_nodes",
        "git_status git_diff_unstaged git_diff_staged git_diff git_commit git_add git_reset git_log git_create_branch git_checkout \
         git_show git_branch git_init",
        "create_or_update_file search_repositories create_repository get_file_contents push_files create_issue create_pull_request \
         fork_repository create_branch list_commits list_issues update_issue add_issue_comment search_code search_issues search_users \
         get_issue get_pull_request list_pull_requests create_pull_request_review merge_pull_request get_pull_request_files \
         get_pull_request_status update_pull_request_branch get_pull_request_comments get_pull_request_reviews",
        "echo get-annotated-message get-env get-resource-links get-resource-reference get-structured-content get-sum get-tiny-image \
         gzip-file-as-resource simulate-research-query toggle-simulated-logging toggle-subscriber-updates trigger-elicitation-request \
         trigger-sampling-request trigger-long-running-operation",
        "browser_close browser_resize browser_console_messages browser_handle_dialog browser_evaluate browser_file_upload \
         browser_fill_form browser_install browser_press_key browser_type browser_navigate browser_navigate_back \
         browser_network_requests browser_take_screenshot browser_snapshot browser_click browser_drag browser_hover \
         browser_select_option browser_tabs browser_wait_for browser_mouse_click_xy browser_mouse_move_xy browser_mouse_drag_xy",
        "read_query write_query create_table list_tables describe_table append_insight",
        "slack_list_channels slack_post_message slack_reply_to_thread slack_add_reaction slack_get_channel_history \
         slack_get_thread_replies slack_get_users slack_get_user_profile",
        "search_emails read_email send_email draft_email modify_email delete_email list_email_labels batch_modify_emails \
         batch_delete_emails create_label update_label delete_label get_or_create_label",
        "brave_web_search brave_local_search brave_image_search brave_news_search brave_video_search brave_summarizer",
        "kubectl_get kubectl_describe kubectl_list kubectl_create kubectl_apply kubectl_delete kubectl_logs kubectl_scale \
         kubectl_patch kubectl_rollout kubectl_context exec_in_pod install_helm_chart upgrade_helm_chart uninstall_helm_chart",
        "get_current_time convert_time fetch sequentialthinking",
        "s3_get s3_put s3_list ec2_start ec2_stop list_v1 list_v2 md5 sha1 sha256 sha512 utf8_encode base64_decode level_6 level_8 x9 xg",
    ];
    for server in SERVERS {
        let names: Vec<&str> = server.split_whitespace().collect();
        let mut looks: Vec<String> = names.iter().map(|name| skeleton(name)).collect();
        looks.sort_unstable();
        looks.dedup();
        assert_eq!(looks.len(), names.len(), "{server}");
    }
}

#[test]
fn a_redacted_value_does_not_print() {
    let secret = Redacted::new("hunter2".to_owned());
    assert_eq!(format!("{secret:?}"), "[redacted]");
    assert_eq!(secret.expose(), "hunter2");
}

#[test]
fn every_rule_has_its_own_code_and_a_sentence() {
    let mut codes: Vec<_> = Rule::ALL.iter().map(|rule| rule.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Rule::ALL.len());
    assert!(
        Rule::ALL
            .iter()
            .all(|rule| !rule.sentence().is_empty() && !rule.sentence().ends_with('.'))
    );
}

#[test]
fn a_timeout_says_timeout() {
    assert!(
        Fault::new(FaultKind::Timeout, "")
            .public()
            .contains("timeout")
    );
}
