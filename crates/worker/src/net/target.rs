//! Where an upstream lives: scheme, host, port and path, and which other addresses count as the same place.

use http::{HeaderValue, Uri, uri::PathAndQuery};

use crate::failure::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: PathAndQuery,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        // What is wrong is said without repeating the address: it may carry a credential.
        let uri: Uri = url
            .trim()
            .parse()
            .map_err(|error| Failure::invalid(format!("the server's URL is not valid: {error}")))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(other) => {
                return Err(Failure::invalid(format!(
                    "the server's URL has scheme `{other}`; use http or https"
                )));
            }
            None => {
                return Err(Failure::invalid(
                    "the server's URL has no scheme; start it with http:// or https://",
                ));
            }
        };
        let authority = uri
            .authority()
            .ok_or_else(|| Failure::invalid("the server's URL names no host"))?;
        if authority.as_str().contains('@') {
            return Err(Failure::invalid(
                "the server's URL holds a user name or password; use `bearer` or `headers` instead",
            ));
        }
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err(Failure::invalid("the server's URL names no host"));
        }
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri
            .path_and_query()
            .cloned()
            .unwrap_or_else(|| PathAndQuery::from_static("/"));
        Ok(Self {
            tls,
            host,
            port,
            path,
        })
    }

    /// Scheme, host and port are the same.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.tls == other.tls && self.port == other.port && self.host == other.host
    }

    /// Resolves what a server said (`Location`, an `endpoint` event) against this address.
    pub(crate) fn join(&self, reference: &str) -> Result<Self, Failure> {
        let reference = reference.trim();
        let head = reference.split(['/', '?', '#']).next().unwrap_or_default();
        if head.ends_with(':') && head.len() > 1 {
            return Self::parse(reference);
        }
        if reference.starts_with("//") {
            return Self::parse(&format!("{}:{reference}", self.scheme()));
        }
        let path = if reference.starts_with('/') {
            reference.to_owned()
        } else if reference.starts_with('?') {
            format!("{}{reference}", self.path.path())
        } else {
            let folder = self
                .path
                .path()
                .rsplit_once('/')
                .map_or("", |(folder, _)| folder);
            format!(
                "{folder}/{}",
                reference.strip_prefix("./").unwrap_or(reference)
            )
        };
        let path = path.split('#').next().unwrap_or_default();
        let path = path
            .parse()
            .map_err(|_| Failure::invalid("the server named an address that is not valid"))?;
        Ok(Self {
            path,
            ..self.clone()
        })
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// `host:port`, for people.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The `Host` header: the port only where it is not the scheme's own.
    pub(crate) fn host_header(&self) -> Result<HeaderValue, Failure> {
        let plain = self.port == if self.tls { 443 } else { 80 };
        let text = if plain {
            self.host.clone()
        } else {
            self.place()
        };
        HeaderValue::try_from(text)
            .map_err(|_| Failure::invalid("the server's host name is not valid"))
    }

    /// The host without the brackets of an IPv6 literal.
    pub(crate) fn bare_host(&self) -> &str {
        self.host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(&self.host)
    }
}
