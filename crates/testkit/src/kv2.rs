//! A secret store that speaks the second version of the KV engine, as OpenBao and Vault do: logins by AppRole, by Kubernetes' tokens and by token,
//! tokens that end and are renewed, versions, and trouble on demand. `hvac` accepts it (`crates/portcullis/tests/foreign/kv2.py`).

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// What the AppRole of the double is.
pub const ROLE_ID: &str = "role-of-the-gate";
pub const SECRET_ID: &str = "secret-id-of-the-gate";
/// A token that never ends.
pub const ROOT: &str = "root-token";

/// What goes wrong, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    #[default]
    Well,
    Sealed,
    /// Every token is gone, logins work.
    Forgetful,
    /// Nothing is allowed.
    Closed,
}

#[derive(Debug, Default)]
struct Inner {
    mood: Mood,
    /// Path → its versions.
    secrets: BTreeMap<String, Vec<Value>>,
    deleted: Vec<String>,
    tokens: BTreeMap<String, Instant>,
    life: Option<Duration>,
    logins: usize,
    renewals: usize,
    reads: usize,
}

/// A running store.
#[derive(Debug)]
pub struct Kv2 {
    address: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    task: JoinHandle<()>,
}

impl Drop for Kv2 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kv2 {
    /// Starts one with one mount, `kv`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Mutex::new(Inner::default()));
        let shared = Arc::clone(&inner);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self {
            address,
            inner,
            task,
        })
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Writes a new version.
    pub fn put(&self, path: &str, value: Value) {
        let mut inner = lock(&self.inner);
        inner.deleted.retain(|deleted| deleted != path);
        inner
            .secrets
            .entry(path.to_owned())
            .or_default()
            .push(value);
    }

    pub fn delete(&self, path: &str) {
        lock(&self.inner).deleted.push(path.to_owned());
    }

    pub fn is(&self, mood: Mood) {
        let mut inner = lock(&self.inner);
        if mood == Mood::Forgetful {
            inner.tokens.clear();
        }
        inner.mood = mood;
    }

    /// Tokens live this long from now on.
    pub fn tokens_live(&self, life: Duration) {
        lock(&self.inner).life = Some(life);
    }

    /// How often somebody logged in, renewed a token, and read.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let inner = lock(&self.inner);
        (inner.logins, inner.renewals, inner.reads)
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(
    inner: Arc<Mutex<Inner>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let token = parts
        .headers
        .get("x-vault-token")
        .and_then(|token| token.to_str().ok());
    let path = parts.uri.path().strip_prefix("/v1/").unwrap_or_default();
    let (status, json) = lock(&inner).answer(parts.method.as_str(), path, token, &body);
    let mut response = Response::new(Full::new(Bytes::from(json.to_string())));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}

impl Inner {
    fn answer(
        &mut self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> (u16, Value) {
        let refused = |status: u16, why: &str| (status, json!({ "errors": [why] }));
        if self.mood == Mood::Sealed {
            return refused(503, "Vault is sealed");
        }
        match path {
            "sys/health" => {
                return (
                    200,
                    json!({ "initialized": true, "sealed": false, "standby": false }),
                );
            }
            "auth/approle/login" => {
                let fits = body["role_id"] == ROLE_ID && body["secret_id"] == SECRET_ID;
                return if fits {
                    (200, self.login())
                } else {
                    refused(400, "invalid role or secret ID")
                };
            }
            "auth/kubernetes/login" => {
                let fits = body["role"] == "gate"
                    && body["jwt"]
                        .as_str()
                        .is_some_and(|jwt| jwt.starts_with("ey"));
                return if fits {
                    (200, self.login())
                } else {
                    refused(403, "permission denied")
                };
            }
            _ => {}
        }
        let is_known = token.is_some_and(|token| {
            token == ROOT
                || self
                    .tokens
                    .get(token)
                    .is_some_and(|end| *end > Instant::now())
        });
        if !is_known || self.mood == Mood::Closed {
            return refused(403, "permission denied");
        }
        match (method, path) {
            ("GET", "auth/token/lookup-self") => {
                (200, json!({ "data": { "ttl": 3600, "renewable": true } }))
            }
            ("POST" | "PUT", "auth/token/renew-self") => {
                self.renewals += 1;
                let end = Instant::now() + self.life.unwrap_or(Duration::from_secs(3600));
                self.tokens
                    .insert(token.unwrap_or_default().to_owned(), end);
                (200, json!({ "auth": self.auth(token.unwrap_or_default()) }))
            }
            (_, path) => match path.strip_prefix("kv/data/") {
                Some(path) => self.data(method, path, body),
                None => refused(404, "no handler for route"),
            },
        }
    }

    fn data(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        if matches!(method, "POST" | "PUT") {
            let versions = self.secrets.entry(path.to_owned()).or_default();
            versions.push(body["data"].clone());
            return (
                200,
                json!({ "data": { "version": versions.len(), "created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": false } }),
            );
        }
        self.reads += 1;
        let versions = self.secrets.get(path).map_or(&[][..], Vec::as_slice);
        let metadata = json!({ "version": versions.len(), "created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": false, "custom_metadata": null });
        match versions.last() {
            Some(_) if self.deleted.iter().any(|deleted| deleted == path) => (
                404,
                json!({ "data": { "data": null, "metadata": metadata } }),
            ),
            Some(data) => (
                200,
                json!({ "request_id": "1", "lease_id": "", "renewable": false, "lease_duration": 0, "data": { "data": data, "metadata": metadata } }),
            ),
            None => (404, json!({ "errors": [] })),
        }
    }

    fn login(&mut self) -> Value {
        self.logins += 1;
        if self.mood == Mood::Forgetful {
            self.mood = Mood::Well;
        }
        let token = format!("token-{}", self.logins);
        let end = Instant::now() + self.life.unwrap_or(Duration::from_secs(3600));
        self.tokens.insert(token.clone(), end);
        json!({ "auth": self.auth(&token), "data": null })
    }

    fn auth(&self, token: &str) -> Value {
        let seconds = self.life.map_or(3600, |life| life.as_secs());
        json!({ "client_token": token, "accessor": "a", "policies": ["gate"], "lease_duration": seconds, "renewable": true, "token_type": "service" })
    }
}
