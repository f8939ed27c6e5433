//! Visits: people at the console, in a browser.
//!
//! A visit begins with a code that the person's own command line asked for, and is known by a cookie, of which the digest is kept. A
//! cookie lets its holder look. To act, the browser also signs with a key that it cannot give away, or the person types a fresh code.
//!
//! Invariant: a code opens once, and a cookie alone changes nothing. Tests `a_code_opens_once_and_not_for_long`,
//! `a_cookie_alone_does_not_act`.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use identity::VerifyingKey;
use secrets::Entropy;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use vocab::Redacted;

use crate::caller::{Caller, Role};

/// How long a code may lie around.
const CODE_MS: u64 = 60_000;
/// Codes that are open at once; a further one takes the place of the oldest.
const MAX_CODES: usize = 32;
/// Wrong codes until all open ones are void: somebody is guessing.
const MAX_WRONG: u32 = 5;
/// Visits of one credential; a further one ends the oldest.
const MAX_PER_CALLER: usize = 8;
/// Visits of everybody.
const MAX_VISITS: usize = 128;
/// How far the browser's clock may be from ours where it signs.
const SIGNED_MS: u64 = 300_000;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// How long a visit may stand idle, and last at most. Who can change things is asked to come again sooner.
const fn lasts(role: Role) -> (u64, u64) {
    match role {
        Role::Client | Role::Runtime | Role::Viewer => (12 * HOUR, 7 * 24 * HOUR),
        Role::Approver | Role::Operator => (30 * MINUTE, 12 * HOUR),
    }
}

/// Why somebody at the console is not let in, or not let act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOpened {
    /// No open code is like this one.
    UnknownCode,
    /// What should be a public key is none.
    BadKey,
    /// The system gives no random numbers.
    NoEntropy,
    /// The form is not of this visit.
    ForeignForm,
    /// Neither signed by this browser nor confirmed with a fresh code.
    Unsigned,
}

impl NotOpened {
    /// The sentence for the person.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::UnknownCode => {
                "This code is not known, was used, or is older than a minute. Run `portcullis console` for another."
            }
            Self::BadKey => "The browser's key cannot be read. Run `portcullis console` again.",
            Self::NoEntropy => "The system gives no random numbers, so nobody can log in.",
            Self::ForeignForm => {
                "This form is from another login. Go back, load the page again, and send it once more."
            }
            Self::Unsigned => {
                "This browser has not signed what it sent. Type a fresh code of `portcullis console --code` into the form."
            }
        }
    }
}

/// A person at the console: evidence that a cookie was shown which a code began.
#[derive(Debug, Clone)]
pub struct Visitor {
    pub caller: Caller,
    /// What this visit may do; never more than its credential may.
    pub role: Role,
    /// What the list of visits calls it; opens nothing.
    pub id: String,
    pub since_ms: u64,
    pub seen_ms: u64,
    /// Whether its browser signs what it sends.
    pub signs: bool,
    cookie: [u8; 32],
    form: [u8; 16],
}

impl Visitor {
    /// A text for this visit's forms, another one each time so that compression tells nothing of it.
    pub fn form_token(&self, entropy: &Entropy) -> Option<String> {
        let mut mask = [0; 16];
        entropy(&mut mask).ok()?;
        let masked = self.form.iter().zip(mask).map(|(byte, mask)| byte ^ mask);
        Some(hex(mask.into_iter().chain(masked)))
    }

    /// Whether a form that came back is of this visit.
    #[must_use]
    pub fn is_own_form(&self, token: &str) -> bool {
        let Some(bytes) = unhex(token).filter(|bytes| bytes.len() == 32) else {
            return false;
        };
        let (mask, masked) = bytes.split_at(16);
        let form: Vec<u8> = mask.iter().zip(masked).map(|(a, b)| a ^ b).collect();
        form.ct_eq(&self.form).into()
    }
}

/// What shows that a form was sent by the browser that logged in, or by the person at the command line.
#[derive(Debug, Clone, Copy)]
pub enum Proof<'a> {
    Signature {
        /// What was signed: method, path, digest of the form and time.
        message: &'a [u8],
        signature: &'a [u8],
        at_ms: u64,
    },
    Code(&'a str),
}

struct OpenCode {
    digest: [u8; 32],
    caller: Caller,
    role: Role,
    until_ms: u64,
}

struct Visit {
    caller: Caller,
    role: Role,
    id: String,
    key: Option<VerifyingKey>,
    form: [u8; 16],
    since_ms: u64,
    seen_ms: u64,
    /// The last moment that was signed; an earlier one is a repetition.
    signed_ms: u64,
}

impl Visit {
    fn is_over(&self, now_ms: u64) -> bool {
        let (idle, most) = lasts(self.role);
        now_ms.saturating_sub(self.seen_ms) > idle
            || now_ms.saturating_sub(self.since_ms) > most
            || !self.caller.is_active()
            || !self.caller.may(self.role)
    }

    fn visitor(&self, cookie: [u8; 32]) -> Visitor {
        Visitor {
            caller: self.caller.clone(),
            role: self.role,
            id: self.id.clone(),
            since_ms: self.since_ms,
            seen_ms: self.seen_ms,
            signs: self.key.is_some(),
            cookie,
            form: self.form,
        }
    }
}

#[derive(Default)]
struct Held {
    codes: Vec<OpenCode>,
    wrong: u32,
    /// By the digest of the cookie.
    visits: HashMap<[u8; 32], Visit>,
}

/// Every code and every visit of one gate. They end with it.
pub struct Visits {
    entropy: Entropy,
    held: Mutex<Held>,
}

impl std::fmt::Debug for Visits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visits").finish_non_exhaustive()
    }
}

impl Visits {
    #[must_use]
    pub fn new(entropy: Entropy) -> Self {
        Self {
            entropy,
            held: Mutex::default(),
        }
    }

    #[must_use]
    pub fn entropy(&self) -> &Entropy {
        &self.entropy
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn random<const N: usize>(&self) -> Result<[u8; N], NotOpened> {
        let mut bytes = [0; N];
        (self.entropy)(&mut bytes).map_err(|_| NotOpened::NoEntropy)?;
        Ok(bytes)
    }

    /// A code for somebody who has shown a credential where no browser can: on the gate's own socket.
    pub fn code(
        &self,
        caller: &Caller,
        role: Role,
        now_ms: u64,
    ) -> Result<Redacted<String>, NotOpened> {
        let text = readable(self.random::<13>()?);
        let mut held = self.held();
        held.codes.retain(|code| code.until_ms > now_ms);
        if held.codes.len() >= MAX_CODES {
            held.codes.remove(0);
        }
        held.codes.push(OpenCode {
            digest: digest(&text),
            caller: caller.clone(),
            role: role.min(caller.role()),
            until_ms: now_ms + CODE_MS,
        });
        Ok(Redacted::new(text))
    }

    /// Begins a visit, and gives its cookie. `key` is the browser's public key as `SubjectPublicKeyInfo`; without one every act needs a
    /// fresh code.
    pub fn open(
        &self,
        code: &str,
        key: Option<&[u8]>,
        now_ms: u64,
    ) -> Result<(Redacted<String>, Visitor), NotOpened> {
        let key = key
            .map(VerifyingKey::parse)
            .transpose()
            .map_err(|_| NotOpened::BadKey)?;
        let (cookie, form, id) = (
            hex(self.random::<32>()?),
            self.random()?,
            hex(self.random::<4>()?),
        );
        let mut held = self.held();
        let code = held.spend(code, now_ms).ok_or(NotOpened::UnknownCode)?;
        held.visits.retain(|_, visit| !visit.is_over(now_ms));
        held.make_room(code.caller.id());
        let visit = Visit {
            caller: code.caller,
            role: code.role,
            id,
            key,
            form,
            since_ms: now_ms,
            seen_ms: now_ms,
            signed_ms: 0,
        };
        let name = digest(&cookie);
        let visitor = visit.visitor(name);
        held.visits.insert(name, visit);
        Ok((Redacted::new(cookie), visitor))
    }

    /// Whose cookie this is. Looking keeps the visit from standing idle.
    pub fn find(&self, cookie: &str, now_ms: u64) -> Option<Visitor> {
        let name = digest(cookie);
        let mut held = self.held();
        let visit = held.visits.get_mut(&name)?;
        if visit.is_over(now_ms) {
            held.visits.remove(&name);
            return None;
        }
        visit.seen_ms = now_ms;
        Some(visit.visitor(name))
    }

    /// Whether a visit that was found is still in force; for streams, which look again and again and are not a person's looking.
    #[must_use]
    pub fn lasts(&self, visitor: &Visitor, now_ms: u64) -> bool {
        let held = self.held();
        let visit = held.visits.get(&visitor.cookie);
        visit.is_some_and(|visit| !visit.is_over(now_ms))
    }

    /// Whether this visitor really sent this form.
    pub fn prove(&self, visitor: &Visitor, proof: Proof<'_>, now_ms: u64) -> Result<(), NotOpened> {
        let mut held = self.held();
        match proof {
            Proof::Code(code) => {
                let code = held.spend(code, now_ms).ok_or(NotOpened::UnknownCode)?;
                // Somebody else's code says nothing of this person.
                let is_own = code.caller.id() == visitor.caller.id();
                is_own.then_some(()).ok_or(NotOpened::UnknownCode)
            }
            Proof::Signature {
                message,
                signature,
                at_ms,
            } => {
                let visit = held
                    .visits
                    .get_mut(&visitor.cookie)
                    .ok_or(NotOpened::Unsigned)?;
                let is_fresh = at_ms.abs_diff(now_ms) <= SIGNED_MS && at_ms > visit.signed_ms;
                let key = visit.key.as_ref().filter(|_| is_fresh);
                if !key.is_some_and(|key| key.verifies(message, signature)) {
                    return Err(NotOpened::Unsigned);
                }
                visit.signed_ms = at_ms;
                Ok(())
            }
        }
    }

    /// Ends a visit by its id. `None`: there is none.
    pub fn end(&self, id: &str) -> Option<Visitor> {
        let mut held = self.held();
        let name = *held.visits.iter().find(|(_, visit)| visit.id == id)?.0;
        held.visits.remove(&name).map(|visit| visit.visitor(name))
    }

    /// Those that last, the newest first.
    pub fn list(&self, now_ms: u64) -> Vec<Visitor> {
        let mut held = self.held();
        held.visits.retain(|_, visit| !visit.is_over(now_ms));
        let mut all: Vec<_> = held
            .visits
            .iter()
            .map(|(name, visit)| visit.visitor(*name))
            .collect();
        all.sort_by_key(|visitor| std::cmp::Reverse(visitor.since_ms));
        all
    }
}

impl Held {
    /// Takes an open code. After a few wrong ones nothing is open any more.
    fn spend(&mut self, code: &str, now_ms: u64) -> Option<OpenCode> {
        let wanted = digest(&code.trim().to_ascii_lowercase());
        self.codes.retain(|code| code.until_ms > now_ms);
        let found = self
            .codes
            .iter()
            .position(|code| code.digest.ct_eq(&wanted).into());
        match found {
            Some(at) => {
                self.wrong = 0;
                Some(self.codes.remove(at))
            }
            None => {
                self.wrong += 1;
                if self.wrong >= MAX_WRONG {
                    self.codes.clear();
                    self.wrong = 0;
                }
                None
            }
        }
    }

    fn make_room(&mut self, caller: &str) {
        let of = |visit: &Visit| visit.caller.id() == caller;
        while self.visits.values().filter(|visit| of(visit)).count() >= MAX_PER_CALLER {
            self.end_oldest(&of);
        }
        while self.visits.len() >= MAX_VISITS {
            self.end_oldest(&|_| true);
        }
    }

    fn end_oldest(&mut self, among: &dyn Fn(&Visit) -> bool) {
        let oldest = self
            .visits
            .iter()
            .filter(|(_, visit)| among(visit))
            .min_by_key(|(_, visit)| visit.seen_ms)
            .map(|(name, _)| *name);
        if let Some(name) = oldest {
            self.visits.remove(&name);
        }
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// 100 bits in signs that nobody takes for each other, in groups of five.
fn readable(bytes: [u8; 13]) -> String {
    const SIGNS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
    let mut number = bytes
        .iter()
        .fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    let mut text = String::with_capacity(23);
    for at in 0..20 {
        if at > 0 && at % 5 == 0 {
            text.push('-');
        }
        let sign = SIGNS.get((number & 31) as usize).copied();
        text.push(char::from(sign.unwrap_or(b'a')));
        number >>= 5;
    }
    text
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes
        .into_iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) || text.len() > 128 {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests;
