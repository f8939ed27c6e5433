//! `portcullis token …`

use std::time::SystemTime;

use serde_json::json;

use super::{Screen, Trouble, record};
use crate::{
    cli::{Exit, args, render},
    home::Home,
    tokens::{Credential, NewCredential, Role, TokenError, Tokens, system_random, view_name},
};

pub(super) fn run(verb: &args::Token, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    if !matches!(verb, args::Token::List) {
        home.prepare()?;
    }
    let file = home.tokens_file();
    match verb {
        args::Token::New(args) => {
            let role = if args.operator { Role::Operator } else { Role::Client };
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
            let issued = Tokens::update(&file, |tokens| tokens.issue(new, SystemTime::now(), &mut system_random));
            let (credential, token) = issued.map_err(trouble)?;
            note(home, "credential.created", &credential)?;
            let mut document = shown(&credential);
            if let Some(object) = document.as_object_mut() {
                object.insert("token".to_owned(), json!(token.expose()));
            }
            let text =
                format!("{}\n\nThis is shown once. Revoke it with: portcullis token revoke {}\n", token.expose(), credential.id);
            screen.show(&document, &text)?;
        }
        args::Token::List => {
            let tokens = Tokens::load(&file).map_err(trouble)?;
            let documents: Vec<_> = tokens.list().iter().map(shown).collect();
            screen.show(&documents, &render::tokens(tokens.list(), screen.style))?;
        }
        args::Token::Revoke(args) => {
            let credential = Tokens::update(&file, |tokens| tokens.revoke(&args.id)).map_err(trouble)?;
            note(home, "credential.revoked", &credential)?;
            let text = format!("Revoked {} ({}).\n", credential.id, crate::cli::style::tame(&credential.name));
            screen.show(&shown(&credential), &text)?;
        }
    }
    Ok(Exit::Done)
}

/// On record at once where no gate runs; one that runs records what it applies.
fn note(home: &Home, action: &str, credential: &Credential) -> Result<(), Trouble> {
    let role = if credential.role == Role::Operator { "operator" } else { "client" };
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
