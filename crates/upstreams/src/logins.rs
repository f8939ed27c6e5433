//! Logins to servers, and how they are kept alive.
//!
//! A login rests in the vault. It is read when its server is connected and renewed ahead of its end, by one at a time; what came back
//! is sealed before anybody is given it. Nothing here begins a login: that is a person's act.
//!
//! **Invariant: one renewal at a time.** An authorization server that rotates takes a second use of the same refresh token for theft.
//! Whoever waited finds what the one before got. Test `two_hundred_calls_at_the_end_of_a_token_renew_it_once`.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use audit::{Change, Ledger};
use oauth::{
    Login, Moment, Plain,
    renewal::{self, Outcome},
};
use secrets::Secret;
use tokio::{
    sync::{Mutex as Turn, RwLock},
    time::Instant,
};
use vocab::{Fault, FaultKind, Rule, ServerId, Stop, Violation};

use crate::{clerk::Clerk, provers::Provers, settings::WorkerSettings};

/// Whose login it is: the server's, which serves all callers, or one user's at that server. No two share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holder {
    pub server: ServerId,
    /// The user's: a namesake in another tenant is another user.
    pub tenant: Option<String>,
    pub user: Option<String>,
}

impl From<&ServerId> for Holder {
    fn from(server: &ServerId) -> Self {
        Self {
            server: server.clone(),
            tenant: None,
            user: None,
        }
    }
}

/// Reads the sealed login of a holder.
type Load = dyn Fn(&Holder) -> Result<Option<Secret>, String> + Send + Sync;
/// Writes it, if it is still the one that was read.
type Replace = dyn Fn(&Holder, &Secret, &Secret) -> Result<bool, String> + Send + Sync;

/// Reads what the platform says of its programs, from the file that it keeps it in.
type Assertion = dyn Fn(&str) -> Result<Secret, String> + Send + Sync;

/// Where logins rest, and what renewing them needs of the world.
#[derive(Clone)]
pub struct LoginStore {
    pub load: Arc<Load>,
    /// Puts the second in the place of the first, and says whether the first was still there. On the disk when it returns.
    pub replace: Arc<Replace>,
    /// Reads the assertion that a workload's login is asked for with.
    pub assertion: Arc<Assertion>,
    /// Seconds of the epoch.
    pub now: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Fills with random bytes.
    pub random: Arc<dyn Fn() -> [u8; 16] + Send + Sync>,
    /// The worker that makes the requests.
    pub clerk: WorkerSettings,
}

impl LoginStore {
    /// No logins at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            load: Arc::new(|_| Ok(None)),
            replace: Arc::new(|_, _, _| Err("there is nowhere to keep a login".to_owned())),
            assertion: Arc::new(|_| Err("there are no assertions here".to_owned())),
            now: Arc::new(|| 0),
            random: Arc::new(|| [0; 16]),
            clerk: WorkerSettings {
                program: Default::default(),
                args: Vec::new(),
                path: String::new(),
                total_bytes: 0,
            },
        }
    }
}

impl fmt::Debug for LoginStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoginStore")
    }
}

/// Where a server's login stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginState {
    /// Somebody must log in.
    Required,
    /// Until when its token lives, in seconds of the epoch, if that is known.
    LoggedIn { issuer: String, until: Option<u64> },
    /// The token still lives, and the authorization server gives no other.
    RenewalFailing { issuer: String, problem: String },
    /// The server wants more rights for something than the login has.
    ScopeRequired { issuer: String, scopes: String },
    /// The authorization server no longer knows the login.
    Expired { problem: String },
}

impl LoginState {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Required => "login_required",
            Self::LoggedIn { .. } => "connected",
            Self::RenewalFailing { .. } => "renewal_failing",
            Self::ScopeRequired { .. } => "scope_required",
            Self::Expired { .. } => "expired",
        }
    }

    /// A server that is not connected waits for a person, and not for its network.
    #[must_use]
    pub const fn keeps_out(&self) -> bool {
        self.needs_person() || matches!(self, Self::ScopeRequired { .. })
    }

    /// There is no token that could be sent.
    #[must_use]
    pub const fn needs_person(&self) -> bool {
        matches!(self, Self::Required | Self::Expired { .. })
    }
}

/// A token that can be sent.
pub(crate) struct Live {
    pub(crate) access: Secret,
    /// The number of the key that it is bound to.
    pub(crate) key: Option<u64>,
    /// When to renew it, if that is known.
    pub(crate) due: Option<Instant>,
    pub(crate) state: LoginState,
}

impl Live {
    fn is_due(&self) -> bool {
        let soon = Instant::now() + SHORTEST_PAUSE;
        self.due.is_some_and(|due| due <= soon)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// What a user's call is sent with.
#[derive(Debug)]
pub struct Shown {
    pub token: Secret,
    /// The number of the key that the token is bound to.
    pub key: Option<u64>,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum NoToken {
    /// A person must log in.
    Person(LoginState),
    /// It may be there after this time.
    Later { pause: Duration, problem: String },
}

/// A token that lives for less than this is not renewed ahead of its end: an authorization server that gives such ones would be asked
/// without end.
const SHORTEST_PAUSE: Duration = Duration::from_secs(2);

/// How long until a file is looked for again that is not there.
const FILE_PAUSE: Duration = Duration::from_secs(10);
/// How long an authorization server is left alone that takes no nonce of its own.
const NONCE_PAUSE: Duration = Duration::from_secs(60);

/// One server's turn, and how often in a row renewing failed.
#[derive(Debug, Default)]
struct Desk {
    failures: u32,
    /// The authorization server is not asked before this time, and why.
    closed: Option<(Instant, String)>,
    /// Renewed, and not yet on the disk; and what is there in its place.
    unsaved: Option<(Secret, Box<Login>)>,
    /// What the authorization server no longer takes: a refresh token, or what a machine shows.
    ended: Option<(Secret, String)>,
}

#[derive(Debug)]
pub struct Logins {
    store: LoginStore,
    ledger: Option<Ledger>,
    desks: Mutex<HashMap<Holder, Arc<Turn<Desk>>>>,
    provers: Provers,
    /// Each renewal under way holds it with others; a gate that stops takes it alone, and begins no other.
    under_way: Arc<RwLock<()>>,
}

impl Logins {
    #[must_use]
    pub fn new(store: LoginStore, ledger: Option<Ledger>) -> Self {
        Self {
            store,
            ledger,
            desks: Mutex::default(),
            provers: Provers::default(),
            under_way: Arc::default(),
        }
    }

    /// Returns when no renewal is under way, or after this time; from then on none begins. A gate that went before would lose the only
    /// token that can be renewed again.
    pub async fn settle(&self, within: Duration) {
        let alone = Arc::clone(&self.under_way).write_owned();
        match tokio::time::timeout(within, alone).await {
            Ok(alone) => std::mem::forget(alone),
            Err(_) => tracing::warn!("stopping although a login is being renewed"),
        }
    }

    /// The token of a server's login, renewed first if it has ended. `Ok(None)`: there is no login to this address.
    pub(crate) async fn token(
        self: &Arc<Self>,
        holder: &Holder,
        url: &str,
    ) -> Result<Option<Live>, NoToken> {
        let Some((_, login)) = self.load(holder, url).await? else {
            return Ok(None);
        };
        if login.is_alive((self.store.now)()) {
            return Ok(Some(self.live(holder, &login)));
        }
        let stale = login.access;
        self.renew(holder, url, &stale).await.map(Some)
    }

    /// A user's own token, renewed first if it is due. `Ok(None)`: the user has no login there.
    pub async fn of_user(
        self: &Arc<Self>,
        holder: &Holder,
        url: &str,
    ) -> Result<Option<Shown>, Stop> {
        let live = match self.token(holder, url).await {
            // Ahead of its end, so that no call of the user comes too late.
            Ok(Some(live)) if live.is_due() => {
                match self.renew(holder, url, &live.access).await {
                    // No other is given; this one is used for as long as it lives.
                    Err(NoToken::Person(LoginState::Expired { .. })) => Ok(Some(live)),
                    renewed => renewed.map(Some),
                }
            }
            outcome => outcome,
        };
        match live {
            Ok(live) => Ok(live.map(|live| Shown {
                token: live.access,
                key: live.key,
            })),
            Err(NoToken::Person(_)) => Err(Violation::new(
                Rule::LoginRequired,
                format!("the user's login at {} has ended", holder.server),
            )
            .with_hint("the user must log in again: `portcullis connect-account --login`")
            .into()),
            Err(NoToken::Later { problem, .. }) => {
                Err(Fault::new(FaultKind::Upstream, problem).into())
            }
        }
    }

    /// A newer token than `stale`. Whoever finds one there takes it.
    ///
    /// It goes on when nobody waits for it any more: an answer that is lost may be the only one that can be renewed again.
    pub(crate) async fn renew(
        self: &Arc<Self>,
        holder: &Holder,
        url: &str,
        stale: &Secret,
    ) -> Result<Live, NoToken> {
        let (logins, holder, url) = (Arc::clone(self), holder.clone(), url.to_owned());
        let stale = Secret::new(stale.expose().to_owned());
        let task = tokio::spawn(async move {
            let _under_way = Arc::clone(&logins.under_way).read_owned().await;
            logins.renewed(&holder, &url, &stale).await
        });
        task.await
            .unwrap_or_else(|error| Err(later(error.to_string())))
    }

    async fn renewed(&self, holder: &Holder, url: &str, stale: &Secret) -> Result<Live, NoToken> {
        let desk = self.desk(holder);
        let mut desk = desk.lock().await;
        if let Some((before, renewed)) = desk.unsaved.take() {
            return self.keep(holder, before, renewed, &mut desk).await;
        }
        let kept = self.load(holder, url).await?;
        let (sealed, login) = kept.ok_or(NoToken::Person(LoginState::Required))?;
        if login.access.expose() != stale.expose() && login.is_alive((self.store.now)()) {
            return Ok(self.live(holder, &login));
        }
        let assertion = match self.assertion(&login).await {
            Ok(assertion) => assertion,
            Err(problem) => return self.put_off(holder, login, FILE_PAUSE, problem, &mut desk),
        };
        if let Some((spent, problem)) = &desk.ended
            && spends(&login, assertion.as_ref()).expose() == spent.expose()
        {
            return Err(expired(problem));
        }
        if let Some((until, problem)) = &desk.closed
            && Instant::now() < *until
        {
            let pause = until.saturating_duration_since(Instant::now());
            return self.without(holder, login, pause, problem.clone());
        }
        self.ask(holder, sealed, (login, assertion), &mut desk)
            .await
    }

    async fn ask(
        &self,
        holder: &Holder,
        sealed: Secret,
        (login, assertion): (Login, Option<Secret>),
        desk: &mut Desk,
    ) -> Result<Live, NoToken> {
        let Some(near) = login.near() else {
            return Err(NoToken::Person(LoginState::Required));
        };
        let clerk = Clerk::start(self.store.clerk.clone(), near);
        let mut nonce = None;
        for _ in 0..2 {
            let request =
                renewal::request(&login, assertion.as_ref(), nonce.as_deref(), self.moment());
            let Ok(Some(request)) = request else {
                return Err(expired("it cannot be renewed"));
            };
            let answer = clerk.exchange(&request).await;
            match renewal::outcome(&login, &answer, desk.failures, (self.store.now)()) {
                Outcome::Nonce(wanted) => nonce = Some(wanted),
                Outcome::Renewed(renewed) => {
                    *desk = Desk::default();
                    return self.keep(holder, sealed, renewed, desk).await;
                }
                Outcome::Ended(problem) => {
                    let spent = Secret::new(spends(&login, assertion.as_ref()).expose().to_owned());
                    return Err(self.ended(holder, &login, spent, &problem, desk));
                }
                Outcome::ClientRefused(problem) => {
                    // The next login registers another client; trying this one again would only be refused again.
                    if let Some(without) = login.with_client_refused() {
                        self.replace(holder, &sealed, &without).await?;
                    }
                    let spent = Secret::new(spends(&login, assertion.as_ref()).expose().to_owned());
                    return Err(self.ended(holder, &login, spent, &problem, desk));
                }
                Outcome::Later { seconds, problem } => {
                    let problem = login.without_secrets(&problem.to_string());
                    let pause = Duration::from_secs(seconds);
                    return self.put_off(holder, login, pause, problem, desk);
                }
            }
        }
        let problem = "the authorization server asks for one nonce after the other".to_owned();
        self.put_off(holder, login, NONCE_PAUSE, problem, desk)
    }

    async fn assertion(&self, login: &Login) -> Result<Option<Secret>, String> {
        let Some(file) = login.assertion_file.clone() else {
            return Ok(None);
        };
        let read = Arc::clone(&self.store.assertion);
        tokio::task::spawn_blocking(move || read(&file))
            .await
            .map_err(|error| error.to_string())
            .and_then(|read| read)
            .map(Some)
    }

    /// The authorization server is left alone for a while.
    fn put_off(
        &self,
        holder: &Holder,
        login: Login,
        pause: Duration,
        problem: String,
        desk: &mut Desk,
    ) -> Result<Live, NoToken> {
        let seconds = pause.as_secs();
        tracing::warn!(server = %holder.server, %problem, seconds, "the login cannot be renewed now");
        desk.failures = desk.failures.saturating_add(1);
        desk.closed = Some((Instant::now() + pause, problem.clone()));
        self.without(holder, login, pause, problem)
    }

    /// What there was is used for as long as it lives.
    fn without(
        &self,
        holder: &Holder,
        login: Login,
        pause: Duration,
        problem: String,
    ) -> Result<Live, NoToken> {
        if !login.is_alive((self.store.now)()) {
            return Err(NoToken::Later { pause, problem });
        }
        Ok(Live {
            key: self.provers.keep(holder, &login),
            due: Some(Instant::now() + pause.max(SHORTEST_PAUSE)),
            state: LoginState::RenewalFailing {
                issuer: login.issuer,
                problem,
            },
            access: login.access,
        })
    }

    /// Sealed and synced first: a token that was handed out and then lost with its refresh token would end the login.
    async fn keep(
        &self,
        holder: &Holder,
        before: Secret,
        renewed: Box<Login>,
        desk: &mut Desk,
    ) -> Result<Live, NoToken> {
        match self.replace(holder, &before, &renewed).await {
            Ok(true) => {
                self.note("account.login_renewed", holder, &renewed.issuer);
                Ok(self.live(holder, &renewed))
            }
            // Somebody logged in anew meanwhile, or out: what they did stands.
            Ok(false) => match self.load(holder, &renewed.server).await? {
                Some((_, login)) => Ok(self.live(holder, &login)),
                None => Err(NoToken::Person(LoginState::Required)),
            },
            Err(why) => {
                // The authorization server may know no other any more, so it is not let go.
                desk.unsaved = Some((before, renewed));
                Err(why)
            }
        }
    }

    async fn replace(
        &self,
        holder: &Holder,
        before: &Secret,
        login: &Login,
    ) -> Result<bool, NoToken> {
        let (replace, holder) = (Arc::clone(&self.store.replace), holder.clone());
        let (before, sealed) = (Secret::new(before.expose().to_owned()), login.seal());
        tokio::task::spawn_blocking(move || replace(&holder, &before, &sealed))
            .await
            .map_err(|error| error.to_string())
            .and_then(|replaced| replaced)
            .map_err(later)
    }

    /// The login to this address, and the text that it rests in.
    async fn load(&self, holder: &Holder, url: &str) -> Result<Option<(Secret, Login)>, NoToken> {
        let (load, holder, url) = (Arc::clone(&self.store.load), holder.clone(), url.to_owned());
        let loaded = tokio::task::spawn_blocking(move || {
            let kept = load(&holder)?.and_then(|sealed| {
                let login = Login::open(&sealed, Plain::OnLoopback)?;
                login.is_for(&url).then_some((sealed, login))
            });
            Ok(kept)
        });
        loaded
            .await
            .map_err(|error| error.to_string())
            .and_then(|loaded| loaded)
            .map_err(later)
    }

    fn live(&self, holder: &Holder, login: &Login) -> Live {
        let now = (self.store.now)();
        let [spread, ..] = (self.store.random)();
        let due = renewal::due(login, spread).map(|at| at.saturating_sub(now));
        Live {
            access: Secret::new(login.access.expose().to_owned()),
            key: self.provers.keep(holder, login),
            due: due
                .map(|seconds| Instant::now() + Duration::from_secs(seconds).max(SHORTEST_PAUSE)),
            state: LoginState::LoggedIn {
                issuer: login.issuer.clone(),
                until: login.expires_at,
            },
        }
    }

    /// A proof for one request, to be sent with the token of this key.
    pub(crate) fn prove(
        &self,
        key: u64,
        method: &str,
        address: &str,
        nonce: Option<&str>,
    ) -> Option<Secret> {
        self.provers
            .prove(key, method, address, nonce, self.moment())
    }

    /// Records what became of a user's login. A server's own is recorded with its connection.
    fn note(&self, action: &str, holder: &Holder, issuer: &str) {
        let (Some(ledger), Some(user)) = (&self.ledger, &holder.user) else {
            return;
        };
        let change = Change {
            action,
            server: holder.server.as_str(),
            target: user,
            tenant: holder.tenant.as_deref().unwrap_or_default(),
            detail: issuer,
            ..Change::default()
        };
        // What is renewed is renewed; a ledger that does not work refuses the call itself.
        if let Err(error) = ledger.change(&change) {
            tracing::error!(%error, action, "this is not on the ledger");
        }
    }

    fn ended(
        &self,
        holder: &Holder,
        login: &Login,
        spent: Secret,
        problem: &oauth::Problem,
        desk: &mut Desk,
    ) -> NoToken {
        let problem = login.without_secrets(&problem.to_string());
        tracing::warn!(server = %holder.server, %problem, "the login has ended");
        self.note("account.login_ended", holder, &login.issuer);
        let outcome = expired(&problem);
        desk.ended = Some((spent, problem));
        outcome
    }

    fn moment(&self) -> Moment {
        Moment {
            now: (self.store.now)(),
            random: (self.store.random)(),
        }
    }

    fn desk(&self, holder: &Holder) -> Arc<Turn<Desk>> {
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(desks.entry(holder.clone()).or_default())
    }
}

/// What renewing a login shows: once refused it is not shown again.
fn spends<'a>(login: &'a Login, assertion: Option<&'a Secret>) -> &'a Secret {
    login
        .refresh
        .as_ref()
        .or(assertion)
        .unwrap_or(&login.access)
}

/// A call cannot go on without a login. The one who can help is not the agent, so it is told only that.
#[must_use]
pub fn login_required(detail: impl Into<String>) -> Stop {
    Violation::new(Rule::LoginRequired, detail)
        .with_hint("an operator must run `portcullis servers login`")
        .into()
}

fn later(problem: String) -> NoToken {
    NoToken::Later {
        pause: SHORTEST_PAUSE,
        problem,
    }
}

fn expired(problem: &str) -> NoToken {
    NoToken::Person(LoginState::Expired {
        problem: problem.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(expires_at: u64) -> Login {
        let sealed = serde_json::json!({
            "version": 1, "server": "https://up.example/mcp", "issuer": "https://id.example",
            "token_endpoint": "https://id.example/token", "client_id": "gate", "client_proof": "none",
            "client_is_dynamic": false, "redirects": "", "scopes": "use", "access": "token-1",
            "scheme": "Bearer", "is_machine": false, "obtained_at": 0, "expires_at": expires_at,
        });
        Login::open(&Secret::new(sealed.to_string()), Plain::OnLoopback).unwrap()
    }

    fn at(now: u64) -> LoginStore {
        LoginStore {
            now: Arc::new(move || now),
            ..LoginStore::none()
        }
    }

    /// Whatever an authorization server answers instead of a token, it is left alone for a while and the token there is used.
    #[tokio::test]
    async fn a_renewal_that_is_put_off_leaves_the_token_that_lives() {
        let holder = Holder::from(&ServerId::parse("up").unwrap());
        let (logins, mut desk) = (Logins::new(at(50), None), Desk::default());
        let put_off = |expires_at: u64, desk: &mut Desk| {
            let problem = "one nonce after the other".to_owned();
            logins.put_off(&holder, login(expires_at), NONCE_PAUSE, problem, desk)
        };
        let live = put_off(100, &mut desk).unwrap();
        assert_eq!(live.access.expose(), "token-1");
        assert_eq!(live.state.as_str(), "renewal_failing");
        assert!(desk.closed.is_some() && desk.failures == 1);
        let none = put_off(10, &mut desk).unwrap_err();
        assert!(matches!(none, NoToken::Later { .. }), "{none:?}");
    }

    #[tokio::test]
    async fn a_users_token_that_cannot_be_renewed_is_used_until_its_end() {
        let user = Holder {
            server: ServerId::parse("up").unwrap(),
            tenant: None,
            user: Some("alice".to_owned()),
        };
        for (now, is_alive) in [(99, true), (101, false)] {
            let store = LoginStore {
                load: Arc::new(|_| Ok(Some(login(100).seal()))),
                ..at(now)
            };
            let token = Arc::new(Logins::new(store, None))
                .of_user(&user, "https://up.example/mcp")
                .await;
            match token {
                Ok(token) => assert!(is_alive && token.unwrap().token.expose() == "token-1"),
                Err(stop) => assert!(!is_alive, "{stop:?}"),
            }
        }
    }
}
