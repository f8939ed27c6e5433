//! What is known of a connection before its first request.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use http::HeaderMap;

use crate::{Forwarding, Known, Network, ProxySpec, forwarded};

#[derive(Debug, Clone)]
pub struct Arrival {
    /// Our end.
    pub local: SocketAddr,
    /// Whoever connected, or whom a trusted proxy said that it speaks for.
    pub(crate) address: IpAddr,
    pub(crate) proxies: Arc<ProxySpec>,
    pub is_secure: bool,
    /// What its certificate says; `None` without one.
    pub certificate: Option<Arc<Known>>,
}

impl Arrival {
    /// Of a door that looks at nothing.
    #[must_use]
    pub fn plain(local: SocketAddr, peer: IpAddr) -> Self {
        Self {
            local,
            address: peer.to_canonical(),
            proxies: Arc::default(),
            is_secure: false,
            certificate: None,
        }
    }

    /// The client's address, as a trusted proxy says in the headers of this request, if one does; and whether somebody who is not trusted
    /// said something there.
    #[must_use]
    pub fn client(&self, headers: &HeaderMap) -> (IpAddr, bool) {
        let says = forwarded::NAMES
            .iter()
            .any(|name| headers.contains_key(*name));
        if !Network::any_contains(&self.proxies.trusted, self.address)
            || self.proxies.header == Forwarding::Off
        {
            return (self.address, says);
        }
        let client = forwarded::client(
            self.proxies.header,
            headers,
            &self.proxies.trusted,
            self.address,
        );
        (client, false)
    }
}
