//! Plain HTTP: one connection per request, nothing remembered, nothing followed.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::messages::Messages;

/// An endpoint, and the credential to show there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub address: SocketAddr,
    pub path: String,
    pub token: Option<String>,
}

impl Target {
    /// The target an `http://address:port/path` URL names.
    ///
    /// # Errors
    /// When the URL is not of that form.
    pub fn new(url: &str, token: Option<&str>) -> Result<Self> {
        let uri: http::Uri = url
            .parse()
            .with_context(|| format!("'{url}' is not a URL"))?;
        let authority = uri
            .authority()
            .with_context(|| format!("'{url}' names no host"))?
            .as_str();
        let address = authority
            .parse()
            .with_context(|| format!("'{authority}' is not an address with a port"))?;
        Ok(Self {
            address,
            path: uri.path().to_owned(),
            token: token.map(str::to_owned),
        })
    }

    /// The same place with another credential.
    #[must_use]
    pub fn with_token(&self, token: Option<&str>) -> Self {
        Self {
            token: token.map(str::to_owned),
            ..self.clone()
        }
    }

    /// The same credential at another path.
    #[must_use]
    pub fn at(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }

    /// Sends one request and waits for the head of its reply.
    ///
    /// # Errors
    /// When the connection fails or what comes back is not HTTP.
    pub async fn send(
        &self,
        method: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Reply> {
        let stream = TcpStream::connect(self.address)
            .await
            .with_context(|| format!("cannot connect to {}", self.address))?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(&self.path);
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            request = request.header("host", self.address.to_string());
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Reply {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }
}

/// The head of a reply, with its body still to be read.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    body: Incoming,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body to its end.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn bytes(self) -> Result<Bytes> {
        Ok(self.body.collect().await?.to_bytes())
    }

    /// The body as one JSON value, or null if it is empty.
    ///
    /// # Errors
    /// When it breaks off or is not JSON.
    pub async fn json(self) -> Result<Value> {
        let bytes = self.bytes().await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&bytes)))
    }

    /// The body up to and with the first `end`; the rest is never read.
    ///
    /// # Errors
    /// When the body ends before that.
    pub async fn head_of_body(mut self, end: &str) -> Result<String> {
        let mut text = String::new();
        while !text.contains(end) {
            let frame = self
                .body
                .frame()
                .await
                .with_context(|| format!("the body ended after {text:?}"))??;
            if let Ok(bytes) = frame.into_data() {
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        Ok(text)
    }

    /// The JSON-RPC messages of the body, as they come.
    pub fn messages(self) -> Messages {
        let streamed = self
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        Messages::new(self.body, streamed)
    }
}
