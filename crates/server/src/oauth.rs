//! The door as an OAuth 2.1 protected resource: who issues tokens for it (RFC 9728), and how it asks for one, for another scope, or for
//! a proof (RFC 6750, RFC 9449).
//!
//! Whether a token is good is the gate's to say; here its answer becomes a status and a challenge.

use gateway::{Caller, Presented, Unaccepted, settings::OAuth};
use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use vocab::ErrorCode;
use wire::write::{self, Object};

use crate::{
    door::Door,
    guard::{self, Stranger},
    reply::{self, Body, Reply, refusal},
    route::{Route, route},
};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// What proofs may be signed with.
const PROOF_ALGORITHMS: [&str; 4] = ["ES256", "EdDSA", "RS256", "PS256"];
/// How soon to try again when a provider's keys are not at hand.
const RETRY_SECONDS: u64 = 5;

/// Who an access token stands for, as the gate sees it.
pub(crate) async fn caller(
    door: &Door,
    parts: &Parts,
    token: &str,
    as_bound: bool,
) -> Result<Caller, Stranger> {
    let Some(oauth) = door.gate.oauth() else {
        let reply = reply::unauthenticated("Unknown or revoked credential");
        return Err(Stranger {
            reason: "unknown credential",
            reply,
        });
    };
    let presented = Presented {
        token,
        as_bound,
        proof: guard::single(&parts.headers, "dpop"),
        method: parts.method.as_str(),
        path: parts.uri.path(),
    };
    door.gate
        .identify_access(&presented)
        .await
        .map_err(|unaccepted| refused(&oauth, parts, &unaccepted))
}

fn refused(oauth: &OAuth, parts: &Parts, unaccepted: &Unaccepted) -> Stranger {
    let say = |status, error, scopes: &[&str], sentence: &str| {
        Challenge {
            oauth,
            parts,
            error,
            scopes,
            sentence,
        }
        .reply(status)
    };
    let needed: Vec<&str> = oauth.scopes.iter().map(String::as_str).collect();
    let (reason, reply) = match unaccepted {
        Unaccepted::Token(sentence) => (
            "access token",
            say(StatusCode::UNAUTHORIZED, "invalid_token", &needed, sentence),
        ),
        Unaccepted::Proof(sentence) => (
            "proof of possession",
            say(
                StatusCode::UNAUTHORIZED,
                "invalid_dpop_proof",
                &needed,
                sentence,
            ),
        ),
        Unaccepted::Scope(scopes) => {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let sentence = format!("The access token needs the scope `{}`", scopes.join(" "));
            (
                "scope",
                say(
                    StatusCode::FORBIDDEN,
                    "insufficient_scope",
                    &scopes,
                    &sentence,
                ),
            )
        }
        Unaccepted::Unavailable(detail) => {
            tracing::warn!(detail, "an access token could not be looked at");
            let sentence = "The keys of the identity provider cannot be had at the moment";
            let mut reply = refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                ErrorCode::UpstreamUnavailable,
                sentence,
            );
            reply
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_SECONDS.into());
            ("identity provider", reply)
        }
    };
    Stranger { reason, reply }
}

/// The client must present a credential; where to get one, if there is a place.
pub(crate) fn unauthenticated(door: &Door, parts: &Parts, sentence: &str) -> Reply {
    match door.gate.oauth() {
        None => reply::unauthenticated(sentence),
        Some(oauth) => {
            let needed: Vec<&str> = oauth.scopes.iter().map(String::as_str).collect();
            Challenge {
                oauth: &oauth,
                parts,
                error: "",
                scopes: &needed,
                sentence,
            }
            .reply(StatusCode::UNAUTHORIZED)
        }
    }
}

/// Says where to get a credential, on a reply that is in its door's own words.
pub(crate) fn ask_for_token(door: &Door, parts: &Parts, reply: &mut Reply) {
    let Some(oauth) = door.gate.oauth() else {
        return;
    };
    let needed: Vec<&str> = oauth.scopes.iter().map(String::as_str).collect();
    Challenge {
        oauth: &oauth,
        parts,
        error: "",
        scopes: &needed,
        sentence: "",
    }
    .add_to(reply);
}

/// An operator's path was refused to somebody whose provider could make them one: says which scope would.
pub(crate) fn ask_for_operator_scope(
    door: &Door,
    caller: &Caller,
    parts: &Parts,
    reply: &mut Reply,
) {
    if reply.status() != StatusCode::FORBIDDEN
        || caller.is_operator()
        || !caller.id().starts_with("oauth:")
    {
        return;
    }
    let Some(oauth) = door.gate.oauth() else {
        return;
    };
    let scopes = oauth.all_scopes();
    if scopes.len() == oauth.scopes.len() {
        return;
    }
    let sentence = "This path needs an operator's scope";
    Challenge {
        oauth: &oauth,
        parts,
        error: "insufficient_scope",
        scopes: &scopes,
        sentence,
    }
    .add_to(reply);
}

/// What a client is asked for.
struct Challenge<'a> {
    oauth: &'a OAuth,
    parts: &'a Parts,
    /// Empty where nothing was presented yet.
    error: &'a str,
    scopes: &'a [&'a str],
    sentence: &'a str,
}

impl Challenge<'_> {
    fn reply(&self, status: StatusCode) -> Reply {
        let mut reply = refusal(status, ErrorCode::PermissionDenied, self.sentence);
        self.add_to(&mut reply);
        reply
    }

    fn add_to(&self, reply: &mut Reply) {
        let proofs = self.oauth.proofs.as_str();
        let headers = reply.headers_mut();
        headers.remove(header::WWW_AUTHENTICATE);
        if proofs != "required"
            && let Ok(value) = HeaderValue::try_from(self.text("Bearer", ""))
        {
            headers.append(header::WWW_AUTHENTICATE, value);
        }
        if proofs != "off" {
            let algorithms = format!(", algs=\"{}\"", PROOF_ALGORITHMS.join(" "));
            if let Ok(value) = HeaderValue::try_from(self.text("DPoP", &algorithms)) {
                headers.append(header::WWW_AUTHENTICATE, value);
            }
        }
    }

    fn text(&self, scheme: &str, more: &str) -> String {
        let path = match route(self.parts.uri.path()) {
            // Its own path, so that whoever reads the metadata finds the resource they asked for.
            Route::Mcp(_) if self.oauth.path().is_empty() => self.parts.uri.path(),
            _ => self.oauth.path(),
        };
        let mut text = format!(
            "{scheme} resource_metadata=\"{}{WELL_KNOWN}{path}\"",
            self.oauth.origin()
        );
        if !self.scopes.is_empty() {
            text.push_str(&format!(", scope=\"{}\"", self.scopes.join(" ")));
        }
        if !self.error.is_empty() {
            let plain = |c: &char| (c.is_ascii_graphic() || *c == ' ') && !matches!(c, '"' | '\\');
            let description: String = self.sentence.chars().filter(plain).collect();
            text.push_str(&format!(
                ", error=\"{}\", error_description=\"{description}\"",
                self.error
            ));
        }
        text.push_str(more);
        text
    }
}

/// Who issues tokens for this door, for the door as a whole and for each of its paths.
pub(crate) fn metadata(door: &Door, parts: &Parts) -> Reply {
    let Some(oauth) = door.gate.oauth() else {
        return reply::not_found();
    };
    let Some(path) = parts.uri.path().strip_prefix(WELL_KNOWN) else {
        return reply::not_found();
    };
    if !path.is_empty() && path != oauth.path() && !matches!(route(path), Route::Mcp(_)) {
        return reply::not_found();
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return reply::wrong_method("GET, HEAD");
    }
    let mut reply = reply::json(StatusCode::OK, Body::whole(document(&oauth)));
    reply.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("max-age=60"),
    );
    reply
}

fn document(oauth: &OAuth) -> Vec<u8> {
    let issuers: Vec<&str> = oauth
        .issuers
        .iter()
        .map(|issuer| issuer.issuer.as_str())
        .collect();
    let mut out = Object::new();
    out.str("resource", &oauth.resource)
        .raw("authorization_servers", &list(&issuers));
    out.raw("scopes_supported", &list(&oauth.all_scopes()))
        .raw("bearer_methods_supported", &list(&["header"]));
    out.str("resource_name", "Portcullis");
    if oauth.proofs.as_str() != "off" {
        out.raw(
            "dpop_signing_alg_values_supported",
            &list(&PROOF_ALGORITHMS),
        );
        out.bool(
            "dpop_bound_access_tokens_required",
            oauth.proofs.as_str() == "required",
        );
    }
    out.finish()
}

fn list(texts: &[&str]) -> Vec<u8> {
    let quoted: Vec<Vec<u8>> = texts.iter().map(|text| write::quoted(text)).collect();
    [b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat()
}
