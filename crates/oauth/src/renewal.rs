//! Keeping a login alive: when to renew it, with which request, and what the answer means.
//!
//! **Invariant: only the authorization server's own word ends a login.** Whatever else goes wrong, the login stays and is tried again.
//! Test `only_invalid_grant_ends_a_login`.

use secrets::Secret;

use crate::{
    Exchange, Login, Problem, Request, Step,
    flow::JWT_BEARER,
    token::{Asking, Moment, read, wanted_nonce},
};

/// The longest pause between two tries, and the longest that an authorization server may ask for.
const LONGEST_PAUSE: u64 = 60;
const LONGEST_ASKED: u64 = 3600;
/// A login is renewed at the latest so long before its end.
const AHEAD: u64 = 60;

/// When to renew, in seconds of the epoch: after four fifths of its life, or a minute before the end, whichever is earlier, and never
/// in the first half. `spread` moves it by up to a tenth, so that many do not come at once. `None`: its end is not known, or it cannot be
/// renewed.
#[must_use]
pub fn due(login: &Login, spread: u8) -> Option<u64> {
    if login.refresh.is_none() && !login.is_machine {
        return None;
    }
    let life = login.expires_at?.saturating_sub(login.obtained_at);
    let early = (life / 5 * 4).min(life.saturating_sub(AHEAD));
    let tenth = early / 10;
    // From a tenth earlier to a tenth later, but never past the last minute.
    let moved = early.saturating_sub(tenth) + u64::from(spread) * 2 * tenth / 255;
    let latest = life.saturating_sub(AHEAD).max(life / 2);
    Some(login.obtained_at + moved.clamp(life / 2, latest))
}

/// The request that renews it, with the assertion of its file if it has one. `None`: it cannot be renewed, only made anew.
pub fn request(
    login: &Login,
    assertion: Option<&Secret>,
    nonce: Option<&str>,
    moment: Moment,
) -> Result<Option<Request>, Problem> {
    let scopes = login.scopes.to_string();
    let mut pairs = match (&login.refresh, assertion) {
        (Some(refresh), _) => vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.expose()),
        ],
        (None, Some(assertion)) if login.is_machine => vec![
            ("grant_type", JWT_BEARER),
            ("assertion", assertion.expose()),
        ],
        // Another grant than the one that made it is not tried.
        (None, None) if login.is_machine && login.assertion_file.is_none() => {
            vec![("grant_type", "client_credentials")]
        }
        (None, _) => return Ok(None),
    };
    if login.refresh.is_none() && !login.scopes.is_empty() {
        pairs.push(("scope", &scopes));
    }
    if let Some(resource) = &login.resource {
        pairs.push(("resource", resource));
    }
    let asking = Asking {
        step: Step::Renewal,
        to: &login.token_endpoint,
        client: &login.client,
        pairs,
        key: login.key.as_ref(),
        nonce,
    };
    asking.request(moment).map(Some)
}

/// What the answer means.
#[derive(Debug)]
pub enum Outcome {
    /// To be sealed before anybody is given its token.
    Renewed(Box<Login>),
    /// Ask once more, with this nonce in the proof.
    Nonce(String),
    /// The authorization server no longer knows it. A person must log in.
    Ended(Problem),
    /// The authorization server no longer knows the client.
    ClientRefused(Problem),
    /// Try again after so many seconds; the token that is there is used meanwhile.
    Later { seconds: u64, problem: Problem },
}

/// `tried` counts the tries before this one that ended in [`Outcome::Later`].
#[must_use]
pub fn outcome(login: &Login, exchange: &Exchange, tried: u32, now: u64) -> Outcome {
    let pause = 2u64.saturating_pow(tried.min(6)).min(LONGEST_PAUSE);
    let answer = match exchange {
        Ok(answer) => answer,
        Err(why) => {
            let problem = Problem::Unreachable {
                step: Step::Renewal,
                place: login.token_endpoint.shown(),
                why: crate::theirs(why),
            };
            return Outcome::Later {
                seconds: pause,
                problem,
            };
        }
    };
    // Without a key there is no proof that a nonce could be in.
    if login.key.is_some()
        && let Some(nonce) = wanted_nonce(answer)
    {
        return Outcome::Nonce(nonce);
    }
    let (step, place) = (Step::Renewal, &login.token_endpoint);
    let tokens = read(answer, step, place, login.key.is_some());
    let renewed = tokens.and_then(|tokens| {
        login
            .with(tokens, now)
            .ok_or_else(|| Problem::unusable(step, place, "it cannot be kept"))
    });
    match renewed {
        Ok(login) => Outcome::Renewed(Box::new(login)),
        Err(problem) => match answer.error().as_deref() {
            Some("invalid_grant") => Outcome::Ended(problem),
            Some("invalid_client" | "unauthorized_client") => Outcome::ClientRefused(problem),
            _ => Outcome::Later {
                seconds: answer
                    .retry_after
                    .unwrap_or(0)
                    .min(LONGEST_ASKED)
                    .max(pause),
                problem,
            },
        },
    }
}
