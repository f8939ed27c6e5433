//! What servers and authorization servers say during a login.

use oauth::{
    Address, Answer, Challenge, Drawn, Flow, Grant, Login, Moment, Next, Plain, Plan, Redirects,
    ResourceChoice, Returned, Scopes, renewal,
};

const SERVER: &str = "https://mcp.example/mcp";
const REDIRECT: &str = "http://127.0.0.1:17878/oauth/callback";
const MOMENT: Moment = Moment {
    now: 1_800_000_000,
    random: [3; 16],
};

/// A login against whatever is answered: the first line is a challenge, every other one the next answer. Nobody is sent, and nothing
/// is posted, to an address without TLS; and a login that comes to its end can be sealed, opened, renewed and taken back.
pub fn oauth(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let challenge = lines
        .next()
        .and_then(|line| Challenge::parse(&String::from_utf8_lossy(line)));
    let Ok(server) = Address::parse(SERVER, Plain::Never) else {
        return;
    };
    let plan = Plan {
        server,
        challenge,
        grant: Grant::AuthorizationCode,
        issuer: None,
        endpoints: None,
        known_issuer: None,
        client: None,
        client_document: Some("https://gate.example/client.json".into()),
        registered: None,
        client_name: "Portcullis".into(),
        redirects: Redirects {
            all: vec![REDIRECT.into()],
            used: REDIRECT.into(),
        },
        scopes: None,
        had: Scopes::default(),
        scopes_max: None,
        resource: ResourceChoice::Auto,
        authorize_params: Vec::new(),
        assumes_pkce: data.len().is_multiple_of(2),
        older_discovery: data.len().is_multiple_of(3),
        uses_proofs: data.len().is_multiple_of(5),
    };
    let drawn = Drawn {
        verifier: [1; 32],
        state: [2; 32],
    };
    let Ok(mut flow) = Flow::begin(plan, &drawn, MOMENT.now) else {
        return;
    };
    // Every step is taken at most once for each place it looks in.
    for _ in 0..16 {
        let Ok(next) = flow.next(MOMENT) else { return };
        match next {
            Next::Send(request) => {
                assert!(request.to.url().starts_with("https://"), "asked in clear");
                let Some(line) = lines.next() else { return };
                if flow.answer(Ok(answer(line)), MOMENT.now).is_err() {
                    return;
                }
            }
            Next::Visit(visit) => {
                let url = visit.to.url();
                assert!(url.starts_with("https://"), "sent somebody in clear");
                assert!(
                    !url.contains(char::is_control) && url.contains("code_challenge_method=S256")
                );
                let state = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI";
                let line = lines.next().unwrap_or_default();
                let query = format!("{}&state={state}", String::from_utf8_lossy(line));
                let Some(returned) = Returned::parse(&query) else {
                    return;
                };
                if flow.returned(returned).is_err() {
                    return;
                }
            }
            Next::Done(login) => return kept(&login, lines.next().unwrap_or_default()),
        }
    }
    assert!(flow.next(MOMENT).is_err(), "a login without end");
}

/// The first byte is the status, the rest what was answered.
fn answer(line: &[u8]) -> Answer {
    let (status, json) = line.split_first().unwrap_or((&b'2', &[]));
    let status = match status {
        b'3' => 302,
        b'4' => 404,
        b'5' => 503,
        b'6' => 400,
        _ => 200,
    };
    Answer::new(status, Some(json.to_vec()))
}

fn kept(login: &Login, line: &[u8]) {
    assert!(login.is_for(SERVER), "a login for somebody else");
    let sealed = login.seal();
    let opened = Login::open(&sealed, Plain::Never);
    let again = opened.map(|login| login.seal().expose().to_owned());
    assert_eq!(
        again.as_deref(),
        Some(sealed.expose()),
        "kept is not what came"
    );
    let renewed = renewal::outcome(login, &Ok(answer(line)), 0, MOMENT.now);
    if let renewal::Outcome::Renewed(renewed) = renewed {
        assert!(renewed.issuer == login.issuer && renewed.token_endpoint == login.token_endpoint);
    }
    for request in login.revocations(MOMENT) {
        assert!(request.to.url().starts_with("https://"), "a token in clear");
    }
}
