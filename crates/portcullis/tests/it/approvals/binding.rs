//! What a yes is for, how long it holds, and what it outlives.

use super::*;

/// An answer is given once, and makes one call however often it is given and however many ask.
#[tokio::test]
async fn one_approval_is_one_execution() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    let again = yard
        .gate
        .cli(&["approvals", "approve", &id(&waiting[0])])
        .await
        .unwrap();
    let (status, body) = post(
        &yard.gate,
        &format!("approvals/{}/approve", id(&waiting[0])),
        &json!({"reason": "x"}),
    )
    .await;
    assert!(
        again.code != Some(0) && status != 200,
        "answered twice: {again:?}, {status} {body}"
    );
    assert!(!is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), 1);
    let late = yard
        .gate
        .cli(&["approvals", "deny", &id(&waiting[0])])
        .await
        .unwrap();
    assert_ne!(late.code, Some(0), "{late:?}");
    // The same call again is another call.
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(yard.paid(), 1);
    done(&yard.gate, &["approvals", "deny", &id(&waiting[0])]).await;
    assert!(is_refused(&asking.answer().await.unwrap()));
    let all = told(&yard.gate, &["approvals", "list", "--all"])
        .await
        .to_string();
    assert!(all.contains("used") && all.contains("denied"), "{all}");
}

/// Two who ask for the very same thing at once have two questions, or share one that is good for one of them.
#[tokio::test]
async fn two_identical_calls_do_not_share_one_yes() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let (first, second) = (pay(&agent, "carol"), pay(&agent, "carol"));
    eventually("a pending approval", SOON, || async {
        let all = listed(&yard.gate, "approvals", "approvals").await;
        if all.is_empty() {
            Err("none".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    tokio::time::sleep(A_WHILE).await;
    let waiting = listed(&yard.gate, "approvals", "approvals").await;
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    eventually("one of them to be made", SOON, || async {
        if yard.paid() == 1 {
            Ok(())
        } else {
            Err(yard.paid().to_string())
        }
    })
    .await;
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(yard.paid(), 1, "one yes made two calls");
    for waiting in listed(&yard.gate, "approvals", "approvals")
        .await
        .iter()
        .filter(|one| one["state"] == "pending")
    {
        done(&yard.gate, &["approvals", "deny", &id(waiting)]).await;
    }
    let answers = [
        first.answer().await.unwrap(),
        second.answer().await.unwrap(),
    ];
    assert_eq!(
        answers.iter().filter(|answer| !is_refused(answer)).count(),
        1,
        "{answers:?}"
    );
    assert_eq!(yard.paid(), 1);
}

/// Unanswered is no, and a yes that comes too late is none.
#[tokio::test]
async fn an_approval_expires() {
    let yard = Yard::open("approvals: { expiry: 1s }\n").await;
    let token = yard.influenced("alice").await;
    for revision in REVISIONS {
        let agent = Client::connect_as(&yard.target(&token), revision, json!({}), &[])
            .await
            .unwrap();
        let asking = pay(&agent, "carol");
        let waiting = yard.pending(1).await;
        let answer = asking.answer().await.unwrap();
        assert!(is_refused(&answer), "{revision}: {answer}");
        assert_eq!(
            violation(&answer),
            Some("ApprovalExpired"),
            "{revision}: {answer}"
        );
        let late = yard
            .gate
            .cli(&["approvals", "approve", &id(&waiting[0])])
            .await
            .unwrap();
        assert_ne!(late.code, Some(0), "{late:?}");
    }
    assert_eq!(yard.paid(), 0);
}

/// Waiting for a person has no other clock: the server's own call budget does not run.
#[tokio::test]
async fn waiting_for_a_person_spends_no_call_budget() {
    let web = shifty(Shown::usual()).await;
    let bank = shifty(Shown::tools([tool("pay", "Pays somebody")])).await;
    let yaml = yaml(&web, &bank, "observe", "").replace(
        "classification: INTERNAL,",
        "classification: INTERNAL, timeout: 500ms,",
    );
    let yard = Yard {
        gate: gate(&yaml).await,
        web,
        bank,
        more: "",
    };
    yard.connected().await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Legacy)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(yard.pending(1).await.len(), 1, "it still waits");
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    let answer = asking.answer().await.unwrap();
    assert!(!is_refused(&answer), "{answer}");
}

/// A crash between question and answer: the question is still there, and its answer good for the call asked again.
#[tokio::test]
async fn a_question_outlives_a_crash() {
    let mut yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let before = yard.pending(1).await;
    yard.crash().await;
    assert!(asking.answer().await.is_err(), "the connection is gone");
    let after = yard.pending(1).await;
    assert_eq!(id(&before[0]), id(&after[0]));
    done(
        &yard.gate,
        &[
            "approvals",
            "approve",
            &id(&after[0]),
            "--reason",
            "still fine",
        ],
    )
    .await;
    yard.crash().await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    assert_allowed(
        &agent.call(PAY, json!({"text": "carol"})).await.unwrap(),
        "carol",
    );
    assert_eq!(yard.paid(), 1);
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    assert_eq!(yard.paid(), 1, "it was good once");
    done(&yard.gate, &["approvals", "deny", &id(&waiting[0])]).await;
    assert!(is_refused(&asking.answer().await.unwrap()));
}

/// What is bound to an approval; each is changed after the yes and before the call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Arguments,
    Label,
    Definition,
    Bundle,
    Caller,
    Tool,
}

/// Approved, then any one bound field changed: what was approved is not what is asked, so it is not done.
#[tokio::test]
async fn a_yes_is_for_nothing_else() {
    for bound in [
        Bound::Arguments,
        Bound::Label,
        Bound::Definition,
        Bound::Bundle,
        Bound::Caller,
        Bound::Tool,
    ] {
        let mut yard = Yard::open("").await;
        let (alice, bob) = (yard.influenced("alice").await, yard.influenced("bob").await);
        let agent = Client::plain(&yard.target(&alice), Era::Modern)
            .await
            .unwrap();
        let asking = pay(&agent, "carol");
        let waiting = yard.pending(1).await;
        yard.crash().await;
        assert!(asking.answer().await.is_err(), "the connection is gone");
        done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
        change(&yard, bound, &alice).await;
        let agent = if bound == Bound::Caller { &bob } else { &alice };
        let agent = Client::plain(&yard.target(agent), Era::Modern)
            .await
            .unwrap();
        let whom = if bound == Bound::Arguments {
            "carol "
        } else {
            "carol"
        };
        let tool = if bound == Bound::Tool {
            "bank__pay_all"
        } else {
            PAY
        };
        let asking = agent.start(
            "tools/call",
            json!({"name": tool, "arguments": {"text": whom}}),
        );
        // Refused, or asked about anew: not made.
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(
            yard.bank.count("tools/call"),
            usize::from(bound == Bound::Label),
            "{bound:?} was not bound"
        );
        for waiting in listed(&yard.gate, "approvals", "approvals")
            .await
            .iter()
            .filter(|one| one["state"] == "pending")
        {
            done(&yard.gate, &["approvals", "deny", &id(waiting)]).await;
        }
        let answer = asking.answer().await.unwrap();
        assert!(is_refused(&answer), "{bound:?}: {answer}");
        assert_eq!(yard.paid(), 0, "{bound:?}");
    }
}

async fn change(yard: &Yard, bound: Bound, token: &str) {
    match bound {
        Bound::Arguments | Bound::Caller => {}
        Bound::Label => {
            let agent = Client::plain(&yard.target(token), Era::Modern)
                .await
                .unwrap();
            assert_allowed(
                &agent
                    .call("bank__say", json!({"text": "secret"}))
                    .await
                    .unwrap(),
                "secret",
            );
        }
        Bound::Definition => {
            yard.bank
                .change(|shown| shown.tools[0]["description"] = json!("Pays somebody twice"));
            yard.bank.announce("tools");
            await_definition(&yard.gate, "bank", "tool", "pay", "changed").await;
            done(
                &yard.gate,
                &["servers", "approve", "bank", "--reason", "fine by me"],
            )
            .await;
        }
        Bound::Bundle => {
            reconfigure(
                &yard.gate,
                &yaml(&yard.web, &yard.bank, "balanced", yard.more),
            )
            .await;
            yard.connected().await;
        }
        Bound::Tool => {
            yard.bank
                .change(|shown| shown.tools.push(tool("pay_all", "Pays everybody")));
            yard.bank.announce("tools");
            await_definition(&yard.gate, "bank", "tool", "pay_all", "new").await;
            done(
                &yard.gate,
                &["servers", "approve", "bank", "--reason", "fine by me"],
            )
            .await;
        }
    }
}

/// The same while the call waits: what the person was shown is no longer so when they say yes.
#[tokio::test]
async fn a_yes_to_something_that_changed_meanwhile_is_none() {
    for bound in [Bound::Label, Bound::Definition, Bound::Bundle] {
        let yard = Yard::open("").await;
        let alice = yard.influenced("alice").await;
        let agent = Client::plain(&yard.target(&alice), Era::Legacy)
            .await
            .unwrap();
        let asking = pay(&agent, "carol");
        let waiting = yard.pending(1).await;
        change(&yard, bound, &alice).await;
        // The gate may already have withdrawn the question.
        let _answered = yard
            .gate
            .cli(&["approvals", "approve", &id(&waiting[0])])
            .await
            .unwrap();
        tokio::time::sleep(A_WHILE).await;
        for waiting in listed(&yard.gate, "approvals", "approvals")
            .await
            .iter()
            .filter(|one| one["state"] == "pending")
        {
            done(&yard.gate, &["approvals", "deny", &id(waiting)]).await;
        }
        let answer = asking.answer().await.unwrap();
        assert!(is_refused(&answer), "{bound:?}: {answer}");
        assert_eq!(yard.paid(), 0, "{bound:?}");
    }
}

/// A question does not hold up the session's other calls, nor anybody else's.
#[tokio::test]
async fn a_question_delays_nobody() {
    let yard = Yard::open("").await;
    let alice = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&alice), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    let other = tokio::time::timeout(SOON, agent.call("news__say", json!({"text": "news"})))
        .await
        .expect("it waits for nobody");
    assert_allowed(&other.unwrap(), "news");
    done(&yard.gate, &["approvals", "deny", &id(&waiting[0])]).await;
    assert!(is_refused(&asking.answer().await.unwrap()));
}

/// `off` does not ask, `block` does not ask either.
#[tokio::test]
async fn untrusted_influence_is_the_operators_choice() {
    for (choice, violation) in [("off", None), ("block", Some("UntrustedInfluence"))] {
        let web = shifty(Shown::usual()).await;
        let bank = shifty(Shown::tools([
            tool("pay", "Pays somebody"),
            tool("say", "Answers"),
        ]))
        .await;
        let yaml = yaml(&web, &bank, "observe", "").replace(
            "untrusted_influence: ask",
            &format!("untrusted_influence: {choice}"),
        );
        let yard = Yard {
            gate: gate(&yaml).await,
            web,
            bank,
            more: "",
        };
        yard.connected().await;
        let token = yard.influenced("alice").await;
        let agent = Client::plain(&yard.target(&token), Era::Modern)
            .await
            .unwrap();
        let called = agent.call(PAY, json!({"text": "carol"})).await.unwrap();
        assert_eq!(called.violation(), violation, "{choice}: {}", called.answer);
        assert_eq!(yard.paid(), usize::from(violation.is_none()), "{choice}");
        assert_allowed(
            &agent
                .call("bank__say", json!({"text": "reading goes on"}))
                .await
                .unwrap(),
            "reading goes on",
        );
        let fresh = new_token(&yard.gate, "fresh", &[]).await;
        let fresh = Client::plain(&yard.target(&fresh), Era::Modern)
            .await
            .unwrap();
        assert_allowed(
            &fresh.call(PAY, json!({"text": "carol"})).await.unwrap(),
            "carol",
        );
    }
}
