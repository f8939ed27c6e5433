//! An identity provider that publishes its keys and signs what it is asked to: good tokens, and every kind of bad one.
//!
//! It can rotate, go away, answer nonsense or point elsewhere, and counts how often it is asked for its keys.

mod holder;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub use holder::Holder;

/// How it answers when asked for its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// HTTP 503.
    Down,
    /// Not a key set.
    Nonsense,
    /// A redirect to this address.
    Elsewhere(String),
    /// More than a key set may be.
    Endless,
}

/// A running provider; it stops when this is dropped.
#[derive(Debug)]
pub struct Provider {
    url: String,
    books: Arc<Books>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Books {
    /// Seeds of the published keys; the last one signs.
    seeds: Mutex<Vec<u8>>,
    mood: Mutex<Mood>,
    asked: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whole seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Provider {
    /// Starts it on a loopback port.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let books = Arc::new(Books {
            seeds: Mutex::new(vec![1]),
            mood: Mutex::new(Mood::Well),
            asked: AtomicUsize::new(0),
        });
        let task = tokio::spawn(serve(listener, Arc::clone(&books)));
        Ok(Self { url, books, task })
    }

    pub fn issuer(&self) -> &str {
        &self.url
    }

    pub fn jwks_url(&self) -> String {
        format!("{}/keys", self.url)
    }

    /// The key set as it is now.
    pub fn key_set(&self) -> Value {
        self.books.key_set()
    }

    pub fn feel(&self, mood: Mood) {
        *lock(&self.books.mood) = mood;
    }

    /// How often its keys were asked for.
    pub fn times_asked(&self) -> usize {
        self.books.asked.load(Ordering::Acquire)
    }

    /// A new key signs. The old ones stay published if `overlap`.
    pub fn rotate(&self, overlap: bool) {
        let mut seeds = lock(&self.books.seeds);
        let next = seeds.last().copied().unwrap_or(0) + 1;
        if !overlap {
            seeds.clear();
        }
        seeds.push(next);
    }

    /// Claims that are good for a resource; what `more` has replaces them, and `null` takes them out.
    pub fn claims(&self, resource: &str, subject: &str, scope: &str, more: &Value) -> Value {
        let mut claims = json!({
            "iss": self.url, "aud": resource, "sub": subject, "scope": scope, "client_id": "client-1",
            "iat": now(), "exp": now() + 300, "jti": format!("{subject}-{}", now()),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            match (value.is_null(), claims.as_object_mut()) {
                (true, Some(claims)) => drop(claims.remove(name)),
                (false, Some(claims)) => drop(claims.insert(name.clone(), value.clone())),
                _ => {}
            }
        }
        claims
    }

    /// An access token, signed by the newest key.
    ///
    /// # Errors
    /// When it cannot sign.
    pub fn token(&self, claims: &Value) -> Result<String> {
        let seed = lock(&self.books.seeds).last().copied().context("a key")?;
        self.signed(
            seed,
            &json!({ "alg": "EdDSA", "typ": "at+jwt", "kid": key_id(seed) }),
            claims,
        )
    }

    /// A token with any header, signed by any key, published or not.
    ///
    /// # Errors
    /// When it cannot sign.
    pub fn signed(&self, seed: u8, header: &Value, claims: &Value) -> Result<String> {
        let input = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        let signature = pair(seed)?.sign(input.as_bytes());
        Ok(format!("{input}.{}", encode(signature.as_ref())))
    }

    /// A token signed with a text as a shared secret, as if a public key were one.
    pub fn signed_with_secret(&self, secret: &str, header: &Value, claims: &Value) -> String {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let input = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(claims.to_string().as_bytes())
        );
        format!(
            "{input}.{}",
            encode(ring::hmac::sign(&key, input.as_bytes()).as_ref())
        )
    }

    /// The id of the key that signs.
    pub fn key_id(&self) -> String {
        key_id(lock(&self.books.seeds).last().copied().unwrap_or(0))
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn key_id(seed: u8) -> String {
    format!("key-{seed}")
}

fn pair(seed: u8) -> Result<Ed25519KeyPair> {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The public key of a seed, as a JWK.
///
/// # Errors
/// When there is no such key.
pub fn public_jwk(seed: u8) -> Result<Value> {
    let key = encode(pair(seed)?.public_key().as_ref());
    Ok(
        json!({ "kty": "OKP", "crv": "Ed25519", "x": key, "kid": key_id(seed), "use": "sig", "alg": "EdDSA" }),
    )
}

impl Books {
    fn key_set(&self) -> Value {
        let keys: Vec<Value> = lock(&self.seeds)
            .iter()
            .filter_map(|seed| public_jwk(*seed).ok())
            .collect();
        json!({ "keys": keys })
    }
}

async fn serve(listener: TcpListener, books: Arc<Books>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _peer)) = listener.accept().await {
        let books = Arc::clone(&books);
        connections.spawn(async move { answer(stream, &books).await });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(mut stream: TcpStream, books: &Books) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 16 << 10 {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let mood = lock(&books.mood).clone();
    let for_keys = head.starts_with(b"GET /keys ");
    books
        .asked
        .fetch_add(usize::from(for_keys), Ordering::AcqRel);
    let (status, more, body) = match mood {
        _ if !for_keys => ("404 Not Found", String::new(), "{}".to_owned()),
        Mood::Well => ("200 OK", String::new(), format!("{:#}", books.key_set())),
        Mood::Down => ("503 Service Unavailable", String::new(), String::new()),
        Mood::Nonsense => ("200 OK", String::new(), "<html>keys</html>".to_owned()),
        Mood::Elsewhere(to) => ("302 Found", format!("location: {to}\r\n"), String::new()),
        Mood::Endless => (
            "200 OK",
            String::new(),
            format!("{{\"keys\":[\"{}\"]}}", "k".repeat(1 << 20)),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(&[head.as_bytes(), body.as_bytes()].concat())
        .await
}
