//! `portcullis servers login|logout`: a person lets the gate in at a server.
//!
//! The command line does this itself, with a clerk of its own: the gate never opens a browser, and a login can be made before the gate
//! runs. What it ends with is sealed in the vault, where the gate finds it and keeps it alive.

mod browser;
mod callback;
mod grant;

use std::time::{Duration, Instant};

use config::Resolved;
use gateway::{Clerk, settings::Holder};
use home::{
    Home,
    logins::{self, now},
    worker,
};
use oauth::{
    Address, Authorization, Challenge, Client, Configured, Drawn, Flow, Login, Moment, Near, Next,
    Plain, Plan, Problem, Redirects, ResourceChoice, Scopes, SigningKey, sets_parameter,
};
use secrets::{Secret, SecretRef, Vault, os_entropy};
use serde_json::json;
use terminal::{Exit, Screen, Trouble, style::tame};
use vocab::ServerId;

use crate::{args, files, line::Line, record, verbs::secret};
use callback::Visit;

/// What a server is told without a token, to hear where its tokens come from; and what it is asked, if that is no secret.
const GREETING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"portcullis","version":"0"}}}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#;
/// The name that people read at the authorization server.
const CLIENT_NAME: &str = "Portcullis";
/// How long a gate is waited for that connects the server.
const CONNECTED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// A gate that was told begins within this time.
const BEGUN: Duration = Duration::from_secs(1);
/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);

pub(in crate::verbs) fn login(
    args: &args::Login,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let holder = Holder::from(&server_id(&args.id)?);
    let made = make(&holder, &args.how, home, screen)?;
    let id = &holder.server;
    note(home, "server.login", id.as_str(), &made.issuer)?;
    keep(&holder, &made, home)?;
    tell_gate(id.as_str(), home, screen);
    let connected = connected(id.as_str(), home);
    let mut text = format!(
        "{id} is logged in at {}. {}\n",
        tame(&made.issuer),
        lasts(&made)
    );
    if let Some(server) = &connected {
        text.push_str(&format!(
            "It is connected: {} tools, {} to review.\n",
            server.tools, server.quarantined
        ));
    }
    screen.show(
        &json!({
            "server": id.as_str(), "issuer": made.issuer, "scopes": made.scopes.to_string(), "until": made.expires_at,
            "renews": made.refresh.is_some() || made.is_machine, "connected": connected.is_some(),
            "tools": connected.map(|server| server.tools),
        }),
        &text,
    )?;
    Ok(Exit::Done)
}

/// Seals a login in the vault.
pub(in crate::verbs) fn keep(holder: &Holder, login: &Login, home: &Home) -> Result<(), Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    logins::save(&vault, holder, login).map_err(secret::trouble)
}

/// Leads a person through a login, for the server or for a user of it. Nothing is kept yet.
pub(in crate::verbs) fn make(
    holder: &Holder,
    how: &args::LoginOptions,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Login, Trouble> {
    home.prepare().map_err(Trouble::failed)?;
    let (_, resolved) = files::of_home(home)?;
    let server = find(holder, &resolved)?;
    let id = &holder.server;
    let vault = Vault::in_home(home.vault(), os_entropy());
    let before = logins::load(&vault, holder)
        .map_err(secret::trouble)?
        .filter(|login| login.is_for(server.text()));
    let known = known_issuer(&vault, holder, before.as_ref(), &server)?;
    // What the gate saw is about the server's own login.
    let seen = seen_by_gate(id.as_str(), home).filter(|_| holder.user.is_none());
    let wanted = seen.as_ref().and_then(|login| login.scopes.as_deref());
    let wanted = wanted.and_then(|scopes| Scopes::parse(scopes).ok());
    let redirect = format!("http://127.0.0.1:{}/oauth/callback", how.port);
    let visit = Visit::begin(how, redirect.clone())?;
    let runtime = home::answers::runtime()?;
    runtime.block_on(async {
        let near = near(&server, how)?;
        let clerk = Clerk::start(worker::clerk(&resolved).map_err(Trouble::failed)?, near);
        let mut challenge = knock(&clerk, &server, id, seen.is_some()).await?;
        if let Some(scopes) = wanted {
            let more = challenge.get_or_insert_default();
            more.scope = Some(scopes);
            more.error = Some("insufficient_scope".to_owned());
        }
        let before = (before, known.clone());
        let plan = plan(how, server.clone(), challenge, redirect, before, home).await?;
        run(plan, &clerk, known.as_deref(), &visit, how, screen).await
    })
}

/// The authorization server of the holder's last login; for a user's first, that of the server's own login at the same address.
fn known_issuer(
    vault: &Vault,
    holder: &Holder,
    before: Option<&Login>,
    server: &Address,
) -> Result<Option<String>, Trouble> {
    if before.is_some() || holder.user.is_none() {
        return Ok(before.map(|login| login.issuer.clone()));
    }
    let shared = logins::load(vault, &Holder::from(&holder.server)).map_err(secret::trouble)?;
    Ok(shared
        .filter(|login| login.is_for(server.text()))
        .map(|login| login.issuer))
}

pub(in crate::verbs) fn logout(
    args: &args::ServerName,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let id = server_id(&args.id)?;
    let holder = Holder::from(&id);
    let Some(login) = kept(&holder, home)? else {
        return Err(Trouble::usage(format!("there is no login at {id}")));
    };
    note(home, "server.logout", id.as_str(), &login.issuer)?;
    let Some((asked, revoked)) = end(&holder, home)? else {
        return Err(Trouble::usage(format!("there is no login at {id}")));
    };
    let there = match (asked, revoked) {
        (0, _) => {
            "The authorization server offers no way to take tokens back; they end by themselves."
        }
        (asked, revoked) if asked == revoked => "The authorization server took its tokens back.",
        _ => {
            "The authorization server did not say that it took its tokens back; they end by themselves."
        }
    };
    screen.show(
        &json!({ "server": id.as_str(), "done": "logged out", "revoked": revoked }),
        &format!("The login at {id} is forgotten. {there}\n"),
    )?;
    tell_gate(id.as_str(), home, screen);
    Ok(Exit::Done)
}

/// A server that is removed takes its login along.
pub(in crate::verbs) fn forget(id: &ServerId, home: &Home) -> Result<(), Trouble> {
    let holder = Holder::from(id);
    let Some(login) = kept(&holder, home)? else {
        return Ok(());
    };
    note(home, "server.logout", id.as_str(), &login.issuer)?;
    end(&holder, home).map(drop)
}

fn kept(holder: &Holder, home: &Home) -> Result<Option<Login>, Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    logins::load(&vault, holder).map_err(secret::trouble)
}

/// Forgets a login and asks the authorization server to take its tokens back: how many it was asked for, and how many it took.
pub(in crate::verbs) fn end(
    holder: &Holder,
    home: &Home,
) -> Result<Option<(usize, usize)>, Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    let Some(login) = logins::load(&vault, holder).map_err(secret::trouble)? else {
        return Ok(None);
    };
    let (_, resolved) = files::of_home(home)?;
    let requests = login.revocations(moment()?);
    // Forgotten first: whether the authorization server answers changes nothing about that.
    logins::forget(&vault, holder).map_err(secret::trouble)?;
    let (Some(near), Ok(settings)) = (login.near(), worker::clerk(&resolved)) else {
        return Ok(Some((requests.len(), 0)));
    };
    let revoked = home::answers::runtime()?.block_on(async {
        let clerk = Clerk::start(settings, near);
        let mut revoked = 0;
        for request in &requests {
            let answer = clerk.exchange(request).await;
            revoked += usize::from(answer.is_ok_and(|answer| answer.status == 200));
        }
        revoked
    });
    Ok(Some((requests.len(), revoked)))
}

fn server_id(text: &str) -> Result<ServerId, Trouble> {
    ServerId::parse(text)
        .map_err(|error| Trouble::usage(format!("`{text}` cannot be a server's id: {error}")))
}

/// The server's address, if it is one that can be logged in to.
fn find(holder: &Holder, resolved: &Resolved) -> Result<Address, Trouble> {
    let name = holder.server.as_str();
    let entry = resolved
        .server(name)
        .ok_or_else(|| Trouble::usage(format!("there is no server `{name}`")))?;
    let Some(url) = entry.url() else {
        return Err(Trouble::usage(format!(
            "`{name}` is a program of this machine; only servers with a `url` have logins"
        )));
    };
    if holder.user.is_none() && entry.login_address().is_none() {
        return Err(Trouble::usage(format!(
            "the entry of `{name}` has a credential already; remove its `bearer` or header to log in instead"
        )));
    }
    Address::parse(url, Plain::OnLoopback)
        .map_err(|error| Trouble::usage(format!("`{name}` cannot be logged in to: {error}")))
}

/// Hosts that the operator typed may be anywhere; those a server names only where the server itself could be.
fn near(server: &Address, how: &args::LoginOptions) -> Result<Near, Trouble> {
    let mut near = Near::to(server);
    if let Some(provider) = grant::provider(how)? {
        near = near.and(&provider);
    }
    let Some(issuer) = &how.issuer else {
        return Ok(near);
    };
    let issuer = Address::parse(issuer, Plain::OnLoopback)
        .map_err(|error| Trouble::usage(format!("--issuer: {error}")))?;
    Ok(near.and(&issuer))
}

/// Hears what the server says to whoever has no token. Some greet everybody and refuse only what comes after.
async fn knock(
    clerk: &Clerk,
    server: &Address,
    id: &ServerId,
    is_wanted: bool,
) -> Result<Option<Challenge>, Trouble> {
    let mut status = 0;
    for words in [GREETING, QUESTION] {
        let heard = clerk.knock(server.url(), words).await.map_err(|error| {
            Trouble::new(Exit::Upstream, format!("{id} cannot be reached: {error}"))
        })?;
        match heard {
            (401 | 403, challenge) => return Ok(challenge.as_deref().and_then(Challenge::parse)),
            (heard, _) if status == 0 || !(200..300).contains(&status) => status = heard,
            _ => {}
        }
    }
    match status {
        _ if is_wanted => Ok(None),
        200..300 => Err(Trouble::usage(format!(
            "{id} lets everybody in (HTTP {status}); it needs no login"
        ))),
        _ => Err(Trouble::new(
            Exit::Upstream,
            format!("{id} answers with HTTP {status}, which is no wish for a login"),
        )),
    }
}

async fn plan(
    how: &args::LoginOptions,
    server: Address,
    challenge: Option<Challenge>,
    redirect: String,
    (before, known_issuer): (Option<Login>, Option<String>),
    home: &Home,
) -> Result<Plan, Trouble> {
    let scopes = |text: &Option<String>| {
        text.as_deref()
            .map(|text| Scopes::parse(&text.replace(',', " ")))
            .transpose()
            .map_err(|error| Trouble::usage(format!("--scopes: {error}")))
    };
    let had = before
        .as_ref()
        .filter(|_| challenge.as_ref().is_some_and(Challenge::wants_scope))
        .map(|login| login.scopes.clone());
    if let Some((name, _)) = how.param.iter().find(|(name, _)| sets_parameter(name)) {
        return Err(Trouble::usage(format!(
            "--param {name}: the login itself sets this parameter"
        )));
    }
    let (registered, given) = clients(how, before, home).await?;
    let grant = grant::grant(how, home).await?;
    Ok(Plan {
        server,
        challenge,
        grant,
        issuer: how.issuer.clone(),
        endpoints: None,
        known_issuer,
        client: given,
        client_document: how.client_document.clone(),
        registered,
        client_name: CLIENT_NAME.to_owned(),
        redirects: Redirects {
            all: vec![redirect.clone()],
            used: redirect,
        },
        scopes: scopes(&how.scopes)?,
        had: had.unwrap_or_default(),
        scopes_max: None,
        resource: match how.resource.as_deref() {
            None => ResourceChoice::Auto,
            Some("none") => ResourceChoice::None,
            Some(named) => ResourceChoice::Named(named.to_owned()),
        },
        authorize_params: how.param.clone(),
        assumes_pkce: how.assume_pkce,
        older_discovery: how.older_discovery,
        uses_proofs: true,
    })
}

/// The client that a registration gave before, and the one that the operator registered: typed now, or with the last login.
async fn clients(
    how: &args::LoginOptions,
    before: Option<Login>,
    home: &Home,
) -> Result<(Option<Client>, Option<Configured>), Trouble> {
    if let Some(id) = &how.client_id {
        let key = reveal(how.client_key.as_deref(), home).await?;
        let key = key.map(|key| SigningKey::parse(key.expose())).transpose();
        let given = Configured {
            id: id.clone(),
            secret: reveal(how.client_secret.as_deref(), home).await?,
            key: key.map_err(|error| Trouble::usage(format!("--client-key: {error}")))?,
            method: None,
            bound_to: None,
        };
        return Ok((None, Some(given)));
    }
    let Some(client) = before.map(|login| login.client) else {
        return Ok((None, None));
    };
    if client.is_dynamic || how.client_document.as_ref() == Some(&client.id) {
        return Ok((Some(client), None));
    }
    Ok((None, Some(Configured::from(client))))
}

async fn reveal(reference: Option<&str>, home: &Home) -> Result<Option<Secret>, Trouble> {
    let Some(reference) = reference else {
        return Ok(None);
    };
    SecretRef::parse(reference).map_err(Trouble::usage)?;
    let value = home.secrets().reveal(reference).await;
    let value = value.map_err(Trouble::failed)?;
    Ok(Some(Secret::new(value.expose().clone())))
}

/// From the first request to the tokens.
async fn run(
    plan: Plan,
    clerk: &Clerk,
    known: Option<&str>,
    visit: &Visit,
    how: &args::LoginOptions,
    screen: &mut Screen<'_>,
) -> Result<Login, Trouble> {
    let mut drawn = Drawn {
        verifier: [0; 32],
        state: [0; 32],
    };
    fill(&mut drawn.verifier)?;
    fill(&mut drawn.state)?;
    let own = how.older_discovery.then(|| plan.server.origin());
    let mut flow = Flow::begin(plan, &drawn, now()).map_err(|problem| trouble(&problem))?;
    loop {
        let next = flow.next(moment()?).map_err(|problem| trouble(&problem))?;
        if let Some(before) = known.filter(|before| flow.issuer().is_some_and(|now| now != *before))
            && !how.accept_issuer
        {
            return Err(Trouble::new(
                Exit::Refused,
                format!(
                    "the server names another authorization server than before: it was `{}`, and now it is `{}`. If you expect that, say --accept-issuer",
                    tame(before),
                    tame(flow.issuer().unwrap_or_default())
                ),
            ));
        }
        if let Some(issuer) = flow.issuer().filter(|now| Some(*now) != known)
            && own.as_deref() != Some(issuer)
            && hands_secret_unseen(how)
        {
            return Err(Trouble::usage(format!(
                "the server says that its tokens come from `{}`. What lets a machine in goes only to an authorization server that you name: if it belongs there, say --issuer {}",
                tame(issuer),
                tame(issuer)
            )));
        }
        match next {
            Next::Send(request) => {
                let answer = clerk.exchange(&request).await;
                flow.answer(answer, now())
                    .map_err(|problem| trouble(&problem))?;
            }
            Next::Visit(authorization) => {
                announce(&authorization, how, screen)?;
                visit.wait(&mut flow, &authorization, PATIENCE)?;
            }
            Next::Done(login) => return Ok(*login),
        }
    }
}

/// No person sees whom the secret goes to, so the word of the server alone must not decide it.
const fn hands_secret_unseen(how: &args::LoginOptions) -> bool {
    let hands_over = how.client_secret.is_some() || how.workload.is_some();
    how.is_without_person() && hands_over && how.issuer.is_none()
}

/// Says where to go, on standard error, so that what the verb answers stays apart.
fn announce(
    to: &Authorization,
    how: &args::LoginOptions,
    screen: &Screen<'_>,
) -> Result<(), Trouble> {
    let scopes = match to.scopes.is_empty() {
        true => "those the server gives by itself".to_owned(),
        false => to.scopes.to_string(),
    };
    let client = match to.is_new_client {
        true => "registered there now",
        false => "known there",
    };
    screen.say(&format!(
        "  authorization server   {}\n  scopes                 {}\n  client                 {} ({client})\n\nOpen this address: {}\n\nWaiting on 127.0.0.1:{}. If the browser is on another machine, paste the address you end at.\n",
        tame(&to.issuer),
        tame(&scopes),
        tame(&to.client_id),
        to.to.url(),
        how.port,
    ));
    let issuer = Address::parse(&to.issuer, Plain::OnLoopback);
    if !issuer.is_ok_and(|issuer| issuer.same_origin(&to.to)) {
        screen.say(&format!(
            "The page is at {}, and not at the authorization server itself. Let Portcullis in only if both belong to whom you expect.\n",
            to.to.origin()
        ));
    }
    if !how.no_browser && !browser::open(&to.to) {
        screen.say("No browser was found here; open the address yourself.\n");
    }
    Ok(())
}

fn lasts(login: &Login) -> &'static str {
    match (
        login.refresh.is_some() || login.is_machine,
        login.expires_at,
    ) {
        (true, _) => "The login renews itself.",
        (false, None) => "The authorization server does not say how long it lasts.",
        (false, Some(_)) => {
            "It cannot be renewed: the authorization server gave no refresh token. Log in again when it has ended."
        }
    }
}

/// What was refused is told apart from what could not be reached.
fn trouble(problem: &Problem) -> Trouble {
    let exit = match problem {
        Problem::Refused { .. } | Problem::OtherIssuer | Problem::OtherState => Exit::Refused,
        Problem::ClientNeeded { .. } | Problem::CodeAlone | Problem::Scopes(_) => Exit::Usage,
        _ => Exit::Upstream,
    };
    Trouble::new(exit, problem.to_string())
}

/// What the server wanted of a running gate.
fn seen_by_gate(id: &str, home: &Home) -> Option<api::Login> {
    let mut line = Line::as_operator(home).ok()?;
    super::one(&mut line, id).ok()?.login
}

/// A running gate connects again with what is in the vault now.
fn tell_gate(id: &str, home: &Home, screen: &mut Screen<'_>) {
    if let Ok(mut line) = Line::as_operator(home)
        && let Err(trouble) = line.ask_for(api::ask::RetryServer, id, &api::Nothing {})
    {
        screen.warn(&format!("the gate was not told: {}", trouble.message));
    }
}

/// The server, once a running gate has connected it. Without a gate, or if it takes long, nobody waits.
fn connected(id: &str, home: &Home) -> Option<api::Server> {
    let mut line = Line::as_operator(home).ok()?;
    let (begun, mut is_trying) = (Instant::now(), false);
    while begun.elapsed() < CONNECTED {
        let server = super::one(&mut line, id).ok()?;
        let has_login = server.login.as_ref();
        let has_login = has_login.is_some_and(|login| login.state == "connected");
        match server.state {
            api::ServerState::Connected if has_login => return Some(server),
            // As it was before the gate was told, or again.
            api::ServerState::Failed if is_trying || begun.elapsed() > BEGUN => return None,
            api::ServerState::Failed => {}
            _ => is_trying = true,
        }
        std::thread::sleep(LOOK);
    }
    None
}

fn moment() -> Result<Moment, Trouble> {
    let mut random = [0; 16];
    fill(&mut random)?;
    Ok(Moment { now: now(), random })
}

fn fill(bytes: &mut [u8]) -> Result<(), Trouble> {
    getrandom::fill(bytes)
        .map_err(|error| Trouble::failed(format!("the system gave no randomness: {error}")))
}

/// Records a login or its end; a running gate records it when it connects.
fn note(home: &Home, action: &str, server: &str, issuer: &str) -> Result<(), Trouble> {
    record::by_hand(
        home,
        &audit::Change {
            action,
            door: "cli",
            server,
            detail: issuer,
            ..audit::Change::default()
        },
    )
}
