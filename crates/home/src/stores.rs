//! Secrets from stores elsewhere: the KV engine (version 2) of OpenBao and Vault, asked through a clerk of each store's own.
//!
//! A value is read when it is spent and is not written anywhere. What was read may be spent again for a while if the store does not answer, and
//! never after the store said no. The login's token lives in memory only.
//!
//! **Invariant: a store that cannot be read keeps what needs it down, and nothing else.** Tests `a_store_that_is_away_keeps_only_its_servers_down`,
//! `what_a_store_refuses_is_not_taken_from_memory`.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use config::{
    Resolved,
    stores::{StoreAuth, StoreSpec},
};
use gateway::{
    Clerk,
    settings::{ServerSpec, Text, Transport, WorkerSettings},
};
use oauth::{Address, Answer, Body, Method, Near, Plain, Request, Step};
use secrets::{Lease, Leasing, Resolver, Secret, SecretError, SecretRef, Store, Vault, os_entropy};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{Home, worker};

/// The largest token of a pod's account that is read.
const MOST_JWT: u64 = 16 << 10;

/// The home's own secrets, and those of its stores.
pub struct Stores {
    own: Resolver,
    stores: Vec<Kv>,
    rotations: Mutex<BTreeMap<String, InUse>>,
    look: Notify,
}

/// A reference that somebody spent.
#[derive(Default)]
struct InUse {
    /// The version that was looked at last.
    version: Option<u64>,
    /// How often it was found changed.
    changes: u64,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .stores
            .iter()
            .map(|store| store.spec.name.as_str())
            .collect();
        f.debug_struct("Stores")
            .field("stores", &names)
            .finish_non_exhaustive()
    }
}

/// All secrets that a configuration can refer to.
pub fn of(home: &Home, resolved: &Resolved) -> Result<Arc<Stores>, String> {
    let own = || Resolver::new(std::env::vars(), Vault::in_home(home.vault(), os_entropy()));
    let stores = resolved.stores.iter().map(|spec| {
        Ok(Kv {
            address: Address::parse(&spec.address, Plain::OnLoopback).map_err(|error| {
                format!("the address of the secret store `{}`: {error}", spec.name)
            })?,
            spec: spec.clone(),
            bootstrap: own(),
            settings: worker::clerk(resolved)?,
            clerk: OnceLock::new(),
            session: tokio::sync::Mutex::default(),
            held: Mutex::default(),
        })
    });
    Ok(Arc::new(Stores {
        own: own(),
        stores: stores.collect::<Result<_, String>>()?,
        rotations: Mutex::default(),
        look: Notify::new(),
    }))
}

impl Store for Stores {
    fn lease<'a>(&'a self, reference: &'a SecretRef) -> Leasing<'a> {
        let SecretRef::Engine {
            engine,
            path,
            field,
        } = reference
        else {
            return self.own.lease(reference);
        };
        let store = self
            .stores
            .iter()
            .find(|store| store.spec.engines.contains(engine));
        let Some(store) = store else {
            return self.own.lease(reference);
        };
        Box::pin(async move {
            let secret =
                store
                    .read(engine, path, field)
                    .await
                    .map_err(|why| SecretError::Store {
                        reference: reference.to_string(),
                        store: store.spec.name.clone(),
                        why,
                    })?;
            let mut rotations = self
                .rotations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            // Only a look moves the version on: whoever else uses the old one must still be told.
            rotations
                .entry(reference.to_string())
                .or_insert_with(|| InUse {
                    version: store.version(engine, path),
                    changes: 0,
                });
            Ok(Lease::new(reference.clone(), secret))
        })
    }
}

impl Stores {
    /// Marks servers whose secrets were found changed, so that they are connected anew.
    pub fn mark(&self, servers: &mut [ServerSpec]) {
        let rotations = self
            .rotations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for server in servers {
            let of = |text: &Text| match text {
                Text::Secret(reference) => rotations.get(reference).map_or(0, |used| used.changes),
                Text::Literal(_) => 0,
            };
            server.rotation = match &server.transport {
                Transport::Stdio { env, .. } => env.values().map(of).sum(),
                Transport::Http {
                    headers, bearer, ..
                } => headers.values().chain(bearer).map(of).sum(),
                Transport::Nothing => 0,
            };
        }
    }

    /// Lets the secrets in use be looked at now.
    pub fn look_now(&self) {
        self.look.notify_one();
    }

    /// Looks at the secrets in use for ever; whenever one has changed, `changed` is called.
    pub async fn watch(self: Arc<Self>, changed: impl AsyncFn()) {
        let Some(pause) = self.stores.iter().map(|store| store.spec.watch).min() else {
            return;
        };
        loop {
            let _ = tokio::time::timeout(pause, self.look.notified()).await;
            if self.has_changed().await {
                changed().await;
            }
        }
    }

    async fn has_changed(&self) -> bool {
        let in_use: Vec<String> = {
            let rotations = self
                .rotations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            rotations.keys().cloned().collect()
        };
        let mut has_changed = false;
        for reference in in_use {
            let Ok(SecretRef::Engine {
                engine,
                path,
                field,
            }) = SecretRef::parse(&reference)
            else {
                continue;
            };
            let store = self
                .stores
                .iter()
                .find(|store| store.spec.engines.contains(&engine));
            let Some(store) = store else { continue };
            // Who cannot look finds no change; whoever needs the value learns why.
            let read = store.read(&engine, &path, &field).await;
            let now = store.version(&engine, &path);
            let mut rotations = self
                .rotations
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let Some(used) = rotations
                .get_mut(&reference)
                .filter(|used| read.is_ok() && used.version != now)
            else {
                continue;
            };
            tracing::info!(reference, version = now, "a secret has a new version");
            used.version = now;
            used.changes += 1;
            has_changed = true;
        }
        has_changed
    }
}

/// One store.
struct Kv {
    spec: StoreSpec,
    address: Address,
    /// What the login itself needs.
    bootstrap: Resolver,
    settings: WorkerSettings,
    clerk: OnceLock<Clerk>,
    /// One login for all who read.
    session: tokio::sync::Mutex<Option<Session>>,
    held: Mutex<BTreeMap<String, Held>>,
}

/// A login that holds.
struct Session {
    token: Secret,
    since: Instant,
    /// `None`: it does not end.
    life: Option<Duration>,
    renewable: bool,
}

/// What was read of a path last.
struct Held {
    version: u64,
    fields: BTreeMap<String, Secret>,
    at: Instant,
}

/// Why a request has no answer that can be used.
enum Trouble {
    /// The store does not answer, or is not ready to.
    Away(String),
    /// It answered, and the answer is no.
    Refused(String),
    /// The token is not good any more.
    NotAllowed,
}

impl Kv {
    fn version(&self, engine: &str, path: &str) -> Option<u64> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(&format!("{engine}/{path}"))
            .map(|held| held.version)
    }

    async fn read(&self, engine: &str, path: &str, field: &str) -> Result<Secret, String> {
        let place = format!("{engine}/{path}");
        let missing = || format!("`{place}` has no field `{field}` that is a text");
        let why = match self.fetch(engine, path).await {
            Ok(read) => {
                let value = read.fields.get(field).map(copy).ok_or_else(missing);
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                held.insert(place.clone(), read);
                return value;
            }
            Err(Trouble::Away(why)) => why,
            Err(Trouble::NotAllowed) => {
                self.forget(&place);
                return Err(format!("the login may not read `{place}`"));
            }
            Err(Trouble::Refused(why)) => {
                self.forget(&place);
                return Err(why);
            }
        };
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let known = held
            .get(&place)
            .filter(|held| held.at.elapsed() <= self.spec.grace);
        match known.and_then(|held| held.fields.get(field)) {
            Some(value) => {
                tracing::warn!(
                    store = self.spec.name,
                    place,
                    why,
                    "the store does not answer; the value that was read last is used"
                );
                Ok(copy(value))
            }
            None => Err(why),
        }
    }

    fn forget(&self, place: &str) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(place);
    }

    /// Reads a path, with a new login if the one there is not good any more.
    async fn fetch(&self, engine: &str, path: &str) -> Result<Held, Trouble> {
        let mut session = self.session.lock().await;
        for is_last in [false, true] {
            self.log_in(&mut session).await?;
            let Some(token) = session.as_ref().map(|session| copy(&session.token)) else {
                return Err(Trouble::NotAllowed);
            };
            let answer = self
                .ask(
                    Method::Get,
                    &format!("{engine}/data/{path}"),
                    Some(&token),
                    None,
                )
                .await;
            match answer {
                Err(Trouble::NotAllowed) if !is_last => *session = None,
                answer => return held(&format!("{engine}/{path}"), &answer?),
            }
        }
        Err(Trouble::NotAllowed)
    }

    /// A login that holds: the one there is, renewed at two thirds of its life, or a new one.
    async fn log_in(&self, session: &mut Option<Session>) -> Result<(), Trouble> {
        if let Some(known) = session.as_ref() {
            let age = known.since.elapsed();
            let is_young = known.life.is_none_or(|life| age < life * 2 / 3);
            if is_young {
                return Ok(());
            }
            if known.renewable {
                let token = copy(&known.token);
                let renewed = self
                    .ask(
                        Method::Post,
                        "auth/token/renew-self",
                        Some(&token),
                        Some(json!({})),
                    )
                    .await;
                if let Ok(answer) = renewed
                    && let Some(renewed) = opened(&answer)
                {
                    *session = Some(renewed);
                    return Ok(());
                }
            }
            if known.life.is_some_and(|life| age >= life) {
                *session = None;
            }
        }
        let fresh = match &self.spec.auth {
            StoreAuth::Token(reference) => Session {
                token: self.bootstrap(reference).await?,
                since: Instant::now(),
                life: None,
                renewable: false,
            },
            StoreAuth::AppRole {
                mount,
                role_id,
                secret_id,
            } => {
                let role = self.bootstrap(role_id).await?;
                let secret = self.bootstrap(secret_id).await?;
                let body = json!({ "role_id": role.expose(), "secret_id": secret.expose() });
                self.by_login(mount, body).await?
            }
            StoreAuth::Kubernetes {
                mount,
                role,
                jwt_file,
            } => {
                let large = fs::metadata(jwt_file).is_ok_and(|file| file.len() > MOST_JWT);
                let jwt = fs::read_to_string(jwt_file).ok().filter(|_| !large);
                let jwt = jwt.ok_or_else(|| {
                    Trouble::Refused(format!("{} cannot be read", jwt_file.display()))
                })?;
                self.by_login(mount, json!({ "role": role, "jwt": jwt.trim() }))
                    .await?
            }
        };
        *session = Some(fresh);
        Ok(())
    }

    async fn by_login(&self, mount: &str, body: Value) -> Result<Session, Trouble> {
        let answer = self
            .ask(
                Method::Post,
                &format!("auth/{mount}/login"),
                None,
                Some(body),
            )
            .await;
        let answer = answer.map_err(|trouble| match trouble {
            Trouble::NotAllowed => Trouble::Refused("the login was refused".to_owned()),
            other => other,
        })?;
        opened(&answer)
            .ok_or_else(|| Trouble::Refused("the login was answered without a token".to_owned()))
    }

    async fn bootstrap(&self, reference: &str) -> Result<Secret, Trouble> {
        let parsed =
            SecretRef::parse(reference).map_err(|error| Trouble::Refused(error.to_string()))?;
        let lease = self.bootstrap.lease(&parsed).await;
        lease
            .map(Lease::into_secret)
            .map_err(|error| Trouble::Refused(error.to_string()))
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&Secret>,
        body: Option<Value>,
    ) -> Result<Value, Trouble> {
        // Started with the first request: only a runtime can hold it.
        let clerk = self
            .clerk
            .get_or_init(|| Clerk::start(self.settings.clone(), Near::to(&self.address)));
        let url = format!("{}/v1/{path}", self.spec.address);
        let to = Address::parse(&url, Plain::OnLoopback)
            .map_err(|error| Trouble::Refused(error.to_string()))?;
        let mut headers = vec![("x-vault-request", Secret::new("true".to_owned()))];
        headers.extend(token.map(|token| ("x-vault-token", copy(token))));
        headers.extend(
            self.spec
                .namespace
                .iter()
                .map(|name| ("x-vault-namespace", Secret::new(name.clone()))),
        );
        let request = Request {
            step: Step::Token,
            method,
            to,
            headers,
            body: body.map_or(Body::None, |body| Body::Json(Secret::new(body.to_string()))),
            want: &["data", "auth"],
        };
        let answer = clerk.exchange(&request).await.map_err(Trouble::Away)?;
        understood(&answer, path)
    }
}

/// What a status means.
fn understood(answer: &Answer, path: &str) -> Result<Value, Trouble> {
    let json = answer
        .json
        .as_ref()
        .map(|json| serde_json::from_slice(json.as_slice()));
    match answer.status {
        200 => match json {
            Some(Ok(json)) => Ok(json),
            _ => Err(Trouble::Refused(
                "it answered what is no JSON object".to_owned(),
            )),
        },
        403 => Err(Trouble::NotAllowed),
        400 if path.starts_with("auth/") => Err(Trouble::NotAllowed),
        404 => Err(Trouble::Refused(format!(
            "there is nothing at `{path}`, or it was deleted"
        ))),
        503 => Err(Trouble::Away("it is sealed or in maintenance".to_owned())),
        429 => Err(Trouble::Away(
            "it is standing by, or asked too often".to_owned(),
        )),
        status if status >= 500 => Err(Trouble::Away(format!("it answered with status {status}"))),
        status => Err(Trouble::Refused(format!(
            "it answered with status {status}"
        ))),
    }
}

/// A login's answer.
fn opened(answer: &Value) -> Option<Session> {
    let auth = answer.get("auth")?;
    let seconds = auth
        .get("lease_duration")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    Some(Session {
        token: Secret::new(auth.get("client_token")?.as_str()?.to_owned()),
        since: Instant::now(),
        life: (seconds > 0).then(|| Duration::from_secs(seconds)),
        renewable: auth
            .get("renewable")
            .and_then(Value::as_bool)
            .unwrap_or_default(),
    })
}

/// A path's answer.
fn held(place: &str, answer: &Value) -> Result<Held, Trouble> {
    let refused = || {
        Trouble::Refused(format!(
            "`{place}` was answered without data, as by a KV engine of version 1"
        ))
    };
    let data = answer.get("data").ok_or_else(refused)?;
    let fields = data
        .get("data")
        .and_then(Value::as_object)
        .ok_or_else(refused)?;
    let text = |(name, value): (&String, &Value)| {
        Some((name.clone(), Secret::new(value.as_str()?.to_owned())))
    };
    Ok(Held {
        version: data
            .pointer("/metadata/version")
            .and_then(Value::as_u64)
            .unwrap_or_default(),
        fields: fields.iter().filter_map(text).collect(),
        at: Instant::now(),
    })
}

fn copy(secret: &Secret) -> Secret {
    Secret::new(secret.expose().to_owned())
}
