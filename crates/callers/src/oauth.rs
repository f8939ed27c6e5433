//! Callers who come with an access token of an identity provider the operator named.
//!
//! The provider says who somebody is; what they may do is decided here as for everybody else. A caller made this way is known by issuer
//! and subject, not by the token: a new token is the same caller, with the same label. A token that is bound to a key counts only with
//! a proof of that key, and no proof counts twice.
//!
//! This must never accept a token for another resource, look at a key the token brought along, or fetch anything itself: keys come
//! through the worker, from the address the operator wrote.
//!
//! **Invariant: a caller of an identity provider is issuer and subject.** Tests
//! `a_new_token_is_the_same_caller_with_the_same_label`, `tokens_that_are_not_for_this_gate_are_refused`.

mod keys;

use std::sync::Arc;

use identity::{
    Freshness, JwsError, TokenCache,
    access::{self, Access, AccessError, Expect},
    dpop,
};
use sha2::{Digest, Sha256};
use vocab::View;

pub use self::keys::Fetch;
use self::keys::Keys;
use crate::{
    Credential, Role,
    caller::VOUCHED,
    settings::{Issuer, OAuth, ProofDemand, Proofs},
};

/// Access tokens whose signature is not verified again.
const KEPT_TOKENS: usize = 16_384;

/// An access token as it was presented.
#[derive(Debug, Clone, Copy)]
pub struct Presented<'a> {
    pub token: &'a str,
    /// It came as `Authorization: DPoP …`, not as a bearer.
    pub as_bound: bool,
    /// The `DPoP` header.
    pub proof: Option<&'a str>,
    pub method: &'a str,
    pub path: &'a str,
}

/// Why a token makes nobody a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unaccepted {
    /// The token itself; the sentence may be shown.
    Token(String),
    /// The proof that must come with it.
    Proof(String),
    /// It is good, but not for this: it lacks some of these scopes.
    Scope(Vec<String>),
    /// The provider's keys cannot be had at the moment.
    Unavailable(String),
}

/// What is known of tokens and proofs, whichever providers are in force.
pub struct Providers {
    cache: TokenCache<Access>,
    proofs: Proofs,
}

/// The providers of one configuration, with the keys that go with them.
#[derive(Default)]
pub struct ProviderSet {
    oauth: Option<Arc<OAuth>>,
    providers: Vec<Arc<Provider>>,
}

struct Provider {
    issuer: Issuer,
    /// How its subjects are told from those of others, in ids.
    short: String,
    keys: Keys,
}

impl std::fmt::Debug for Providers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Providers").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ProviderSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderSet")
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

impl ProviderSet {
    /// The set of these providers. One that stays as it was keeps its keys.
    #[must_use]
    pub fn follow(&self, oauth: Option<&Arc<OAuth>>) -> Self {
        let known = |issuer: &Issuer| {
            let mut known = self.providers.iter();
            known
                .find(|provider| provider.issuer == *issuer)
                .map(Arc::clone)
        };
        let new = |issuer: &Issuer| Arc::new(Provider::new(issuer.clone()));
        let issuers = oauth.iter().flat_map(|oauth| &oauth.issuers);
        Self {
            oauth: oauth.cloned(),
            providers: issuers
                .map(|issuer| known(issuer).unwrap_or_else(|| new(issuer)))
                .collect(),
        }
    }

    #[must_use]
    pub fn settings(&self) -> Option<Arc<OAuth>> {
        self.oauth.clone()
    }

    /// Does an id belong to somebody of a provider that is named?
    #[must_use]
    pub fn vouch_for(&self, id: &str) -> bool {
        self.providers
            .iter()
            .any(|provider| id.starts_with(&provider.prefix()))
    }

    /// Fetches keys that are due; called every so often.
    pub async fn tend(&self, fetch: &impl Fetch, mono_ms: u64) {
        for provider in &self.providers {
            provider.keys.refresh_if_old(fetch, mono_ms).await;
        }
    }

    /// What an operator should know: per provider its keys, how old they are, and why they could not be renewed.
    #[must_use]
    pub fn status(&self, mono_ms: u64) -> Option<api::OAuth> {
        let oauth = self.oauth.as_ref()?;
        Some(api::OAuth {
            resource: oauth.resource.clone(),
            dpop: oauth.proofs.as_str().to_owned(),
            issuers: self
                .providers
                .iter()
                .map(|provider| provider.keys.status(&provider.issuer.issuer, mono_ms))
                .collect(),
        })
    }
}

impl Providers {
    #[must_use]
    pub fn new(proofs: Proofs) -> Self {
        Self {
            cache: TokenCache::new(KEPT_TOKENS),
            proofs,
        }
    }

    /// Keeps the list of spent proofs short.
    pub fn tidy(&self, now_ms: u64) {
        self.proofs.replay.sweep(now_ms);
        if let Err(error) = (self.proofs.tidy)(&self.proofs.replay) {
            tracing::warn!(%error, "the list of spent proofs cannot be written anew; it grows");
        }
    }

    /// Whom an access token stands for, if a provider the operator named issued it for this gate.
    pub async fn accept(
        &self,
        set: &ProviderSet,
        presented: &Presented<'_>,
        fetch: &impl Fetch,
        now_ms: u64,
        mono_ms: u64,
    ) -> Result<Credential, Unaccepted> {
        let refused = |text: &str| Unaccepted::Token(text.to_owned());
        let oauth = set
            .oauth
            .as_ref()
            .ok_or_else(|| refused("Unknown or revoked credential"))?;
        let claimed = access::claimed_issuer(presented.token)
            .ok_or_else(|| refused("Unknown or revoked credential"))?;
        let provider = set
            .providers
            .iter()
            .find(|provider| provider.issuer.issuer == claimed);
        let provider = provider.ok_or_else(|| {
            refused("The access token comes from an issuer that is not accepted here")
        })?;
        let access = self
            .verified(oauth, provider, presented.token, fetch, now_ms, mono_ms)
            .await?;
        let missing = oauth.scopes.iter().any(|scope| !access.has_scope(scope));
        if missing {
            return Err(Unaccepted::Scope(oauth.scopes.clone()));
        }
        self.check_binding(oauth, &access, presented, now_ms)?;
        provider.credential(&access)
    }

    /// The token's word, if a key of its provider signed it for us. An unknown key is looked for once more.
    async fn verified(
        &self,
        oauth: &OAuth,
        provider: &Provider,
        token: &str,
        fetch: &impl Fetch,
        now_ms: u64,
        mono_ms: u64,
    ) -> Result<Arc<Access>, Unaccepted> {
        let audience = provider
            .issuer
            .audience
            .as_deref()
            .unwrap_or(&oauth.resource);
        let expect = Expect {
            issuer: &provider.issuer.issuer,
            audience,
        };
        for last in [false, true] {
            let keys = provider
                .keys
                .current(fetch, mono_ms)
                .await
                .map_err(Unaccepted::Unavailable)?;
            match access::verify_cached(&self.cache, token, &keys, &expect, now_ms) {
                Ok(access) => return Ok(access),
                Err(AccessError::Signed(JwsError::UnknownKey))
                    if !last && provider.keys.look_again(fetch, mono_ms).await => {}
                Err(error) => return Err(Unaccepted::Token(sentence(&error))),
            }
        }
        Err(Unaccepted::Token(sentence(&AccessError::Signed(
            JwsError::UnknownKey,
        ))))
    }

    fn check_binding(
        &self,
        oauth: &OAuth,
        access: &Access,
        presented: &Presented<'_>,
        now_ms: u64,
    ) -> Result<(), Unaccepted> {
        let refused = |text: &str| Err(Unaccepted::Token(text.to_owned()));
        match (&access.bound_to, oauth.proofs) {
            (None, ProofDemand::Required) => {
                return refused(
                    "This resource takes only access tokens that are bound to a key (DPoP)",
                );
            }
            (None, _) if presented.as_bound => {
                return refused("The access token is not bound to a key; send it as a bearer");
            }
            (None, _) => return Ok(()),
            // Taking it without a proof would make a bearer of it again.
            (Some(_), ProofDemand::Off) => {
                return refused(
                    "The access token is bound to a key, and this resource takes no proofs",
                );
            }
            (Some(_), _) if !presented.as_bound => {
                return refused("The access token is bound to a key; send it as `DPoP`");
            }
            (Some(_), _) => {}
        }
        let (Some(bound_to), Some(proof)) = (&access.bound_to, presented.proof) else {
            return Err(Unaccepted::Proof(
                "Send one proof in the `DPoP` header".to_owned(),
            ));
        };
        // A proxy in front may have given the door another path; what clients know is the resource.
        let url = match presented.path {
            "/mcp" if !oauth.path().is_empty() => oauth.resource.clone(),
            path => format!("{}{path}", oauth.origin()),
        };
        let request = dpop::Request {
            method: presented.method,
            url: &url,
            access_token: presented.token,
            bound_to,
        };
        dpop::verify(proof, &request, PROOF_WINDOW, &self.proofs.replay, now_ms)
            .map_err(|error| Unaccepted::Proof(sentence(&error)))
    }
}

/// Clients' clocks are worse than servers'.
pub const PROOF_WINDOW: Freshness = Freshness::new(300);

impl Provider {
    fn new(issuer: Issuer) -> Self {
        let digest = Sha256::digest(issuer.issuer.as_bytes());
        let short = digest
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self {
            short,
            keys: Keys::new(&issuer.keys),
            issuer,
        }
    }

    fn prefix(&self) -> String {
        format!("{VOUCHED}{}:", self.short)
    }

    /// Who the token stands for, as the rest of the gate knows callers.
    fn credential(&self, access: &Access) -> Result<Credential, Unaccepted> {
        let issuer = &self.issuer;
        let named = |claim: &Option<String>| claim.as_deref().and_then(|claim| access.claim(claim));
        let user = match &issuer.user_claim {
            None => access.subject.clone(),
            Some(_) => named(&issuer.user_claim).ok_or_else(|| {
                Unaccepted::Token("The access token lacks the claim that names its user".to_owned())
            })?,
        };
        let tenant = match &issuer.tenant_claim {
            None => None,
            // Without it, its holder would see what belongs to no tenant, which is more than the operator meant.
            Some(_) => Some(named(&issuer.tenant_claim).ok_or_else(|| {
                Unaccepted::Token(
                    "The access token lacks the claim that names its tenant".to_owned(),
                )
            })?),
        };
        let departments = issuer
            .departments_claim
            .as_deref()
            .map(|claim| access.claim_list(claim))
            .unwrap_or_default();
        let words = [
            Some(&access.subject),
            Some(&user),
            tenant.as_ref(),
            access.client.as_ref(),
        ];
        let printable = |text: &str| text.chars().all(|c| !c.is_control());
        if !words
            .into_iter()
            .flatten()
            .chain(&departments)
            .all(|text| printable(text))
        {
            return Err(Unaccepted::Token(
                "The access token names somebody with characters that cannot be shown".to_owned(),
            ));
        }
        let is_operator = issuer
            .operator_scope
            .as_deref()
            .is_some_and(|scope| access.has_scope(scope));
        Ok(Credential {
            id: format!("{}{}", self.prefix(), access.subject),
            name: user.clone(),
            role: if is_operator {
                Role::Operator
            } else {
                Role::Client
            },
            view: View::Double,
            grants: Vec::new(),
            user: Some(user),
            departments,
            agent: access.client.clone(),
            tenant,
            context: None,
            digest: [0; 32],
        })
    }
}

/// For clients: a sentence with a capital.
fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut characters = text.chars();
    characters
        .next()
        .map(|first| first.to_uppercase().chain(characters).collect())
        .unwrap_or_default()
}
