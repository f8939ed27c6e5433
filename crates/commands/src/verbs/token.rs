//! `portcullis token …`

use std::{path::Path, time::SystemTime};

use config::finding::nearest;
use home::{
    Home,
    tokens::{
        self, Credential, NewCredential, Role, TokenError, TokenText, Tokens, system_random,
        view_name,
    },
};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use crate::{args, record, render, snippets, verbs::clients};

pub fn run(
    verb: &args::Token,
    given_home: Option<&Path>,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    if !matches!(verb, args::Token::List) {
        home.prepare().map_err(Trouble::failed)?;
    }
    let file = home.tokens_file();
    match verb {
        args::Token::New(args) => {
            let role = match args.operator {
                true => Role::Operator,
                false => args.role.unwrap_or_default(),
            };
            let new = NewCredential {
                view: args.view.into(),
                grants: args.grant.clone(),
                user: args.user.clone(),
                departments: args.department.clone(),
                agent: args.agent.clone(),
                tenant: args.tenant.clone(),
                context: args.context.clone(),
                ..NewCredential::plain(&args.name, role)
            };
            let warnings = doubts(home, args);
            let issued = Tokens::update(&file, |tokens| {
                tokens.issue(new, SystemTime::now(), &mut system_random)
            });
            let (credential, token) = issued.map_err(trouble)?;
            note(home, "credential.created", &credential)?;
            if args.keep {
                tokens::keep(home, &credential.id, &token).map_err(trouble)?;
            }
            warnings.iter().for_each(|warning| screen.warn(warning));
            let mut document = shown(&credential);
            if let Some(object) = document.as_object_mut() {
                object.insert("token".to_owned(), json!(token.expose()));
                object.insert("warnings".to_owned(), json!(warnings));
            }
            let mut text = issued_text(args, &credential, &token);
            if let Some(client) = &args.client {
                let options = if args.keep {
                    vec!["--as".to_owned(), args.name.clone()]
                } else {
                    Vec::new()
                };
                let (stdio, http) =
                    clients::forms(client, given_home, home, &options, token.expose());
                let forms = if args.keep { stdio } else { http };
                text.push_str(&format!("\n{}", snippets::render(&forms)));
            }
            screen.show(&document, &text)?;
        }
        args::Token::List => {
            let tokens = Tokens::load(&file).map_err(trouble)?;
            let documents: Vec<_> = tokens.list().iter().map(shown).collect();
            screen.show(&documents, &render::tokens(tokens.list(), screen.style))?;
        }
        args::Token::Revoke(args) => {
            let credential =
                Tokens::update(&file, |tokens| tokens.revoke(&args.id)).map_err(trouble)?;
            note(home, "credential.revoked", &credential)?;
            tokens::forget(home, &credential.id).map_err(trouble)?;
            let text = format!(
                "Revoked {} ({}).\n",
                credential.id,
                terminal::style::tame(&credential.name)
            );
            screen.show(&shown(&credential), &text)?;
        }
    }
    Ok(Exit::Done)
}

fn issued_text(args: &args::TokenNew, credential: &Credential, token: &TokenText) -> String {
    let (token, id) = (token.expose(), &credential.id);
    let name = snippets::shell(&credential.name);
    let mut text =
        format!("{token}\n\nThis is shown once. Revoke it with: portcullis token revoke {id}\n");
    if args.keep {
        text.push_str(&format!("It is kept in the home too: portcullis connect --as {name}, portcullis call --as {name} TOOL\n"));
    }
    match (&args.client, args.operator, args.keep) {
        (Some(_), ..) | (None, true, _) => {}
        (None, false, true) => {
            text.push_str(&format!("What to paste into your client: portcullis clients show CLIENT --as {name}\n"))
        }
        (None, false, false) => {
            text.push_str("What to paste into your client: portcullis clients show CLIENT, with this token for TOKEN\n")
        }
    }
    text
}

/// What is accepted and is probably not what was meant.
fn doubts(home: &Home, args: &args::TokenNew) -> Vec<String> {
    let mut doubts = Vec::new();
    let known = Tokens::load(&home.tokens_file());
    let namesakes: Vec<String> = known
        .iter()
        .flat_map(Tokens::list)
        .filter(|credential| credential.name == args.name && !credential.revoked)
        .map(|credential| credential.id.clone())
        .collect();
    if !namesakes.is_empty() {
        let ids = namesakes.join(", ");
        doubts.push(format!(
            "`{}` is also the name of {ids}; verbs that take a name will ask for an id",
            args.name
        ));
    }
    // A file that cannot be read is complained about by other verbs.
    let Ok((_, resolved)) = crate::files::of_home(home) else {
        return doubts;
    };
    let hint = |name: &str, among: Vec<&str>| {
        nearest(name, among.into_iter())
            .map(|name| format!("; did you mean `{name}`?"))
            .unwrap_or_default()
    };
    if let Some(context) = args.context.as_deref()
        && !resolved.contexts.iter().any(|known| known.name == context)
    {
        let hint = hint(
            context,
            resolved
                .contexts
                .iter()
                .map(|known| known.name.as_str())
                .collect(),
        );
        doubts.push(format!("there is no security context `{context}` in portcullis.yaml, so its calls will be refused{hint}"));
    }
    for (grant, server) in args
        .grant
        .iter()
        .filter_map(|grant| Some((grant, vocab::split_double(grant)?.0)))
    {
        if resolved.server(server).is_none() {
            let hint = hint(
                server,
                resolved
                    .servers
                    .iter()
                    .map(|known| known.id.as_str())
                    .collect(),
            );
            doubts.push(format!(
                "the grant `{grant}` is of no use: there is no server `{server}`{hint}"
            ));
        }
    }
    doubts
}

/// On record at once where no gate runs; one that runs records what it applies.
fn note(home: &Home, action: &str, credential: &Credential) -> Result<(), Trouble> {
    let role = credential.role;
    let detail = format!("{role} `{}`", credential.name);
    let change = audit::Change {
        action,
        door: "cli",
        target: &credential.id,
        agent: credential.agent.as_deref().unwrap_or_default(),
        detail: &detail,
        ..audit::Change::default()
    };
    record::by_hand(home, &change).map_err(|_| {
        let id = &credential.id;
        Trouble::failed(format!("the credential {id} is changed and that could not be recorded; see `portcullis audit verify`"))
    })
}

fn trouble(error: TokenError) -> Trouble {
    match error {
        TokenError::Grant(_)
        | TokenError::Name
        | TokenError::Holder(_)
        | TokenError::Unknown(_)
        | TokenError::Ambiguous { .. } => Trouble::usage(error),
        _ => Trouble::failed(error),
    }
}

/// Everything but the hash.
fn shown(credential: &Credential) -> serde_json::Value {
    json!({
        "id": credential.id,
        "name": credential.name,
        "created": credential.created,
        "role": credential.role,
        "view": view_name(credential.view),
        "grants": credential.grants,
        "user": credential.user,
        "departments": credential.departments,
        "agent": credential.agent,
        "tenant": credential.tenant,
        "context": credential.context,
        "revoked": credential.revoked,
    })
}
