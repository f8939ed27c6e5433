//! Web addresses that are fetched: read once, the way a browser does it, and written anew from that reading. Whoever is asked for one
//! gets this text, so that the host that was judged is the host that is reached.
//!
//! **Invariant: an address with two readings is none.** Test `addresses_that_programs_read_differently_are_refused`.

use url::Url;

use super::domain::Host;

/// No address that is fetched is longer.
const MAX_BYTES: usize = 8 << 10;

/// An absolute `http` or `https` address, without user name and without fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress(Url);

impl WebAddress {
    /// # Errors
    /// Says why it is none, to stand behind the address: *`…` cannot be fetched: it …*.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("it is too long");
        }
        Host::of_url(text)?;
        let mut url = Url::parse(text).map_err(|_| "it is not a web address")?;
        url.set_fragment(None);
        match url.port_or_known_default() {
            None | Some(0) => Err("it names no port"),
            Some(_) => Ok(Self(url)),
        }
    }

    /// What a server names relative to this.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn join(&self, reference: &str) -> Result<Self, &'static str> {
        let joined = self.0.join(reference);
        Self::parse(joined.map_err(|_| "it is not a web address")?.as_str())
    }

    /// As it is requested.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The host in its one spelling, without a final dot.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.0.host_str().unwrap_or_default();
        host.strip_suffix('.').unwrap_or(host)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }
}

#[cfg(test)]
mod tests {
    use super::WebAddress;

    #[test]
    fn addresses_that_programs_read_differently_are_refused() {
        for bad in [
            "",
            "ftp://a.example/",
            "file:///etc/passwd",
            "//a.example/",
            "https://",
            "https://user@a.example/",
            "https://user:secret@a.example/",
            "https://a.example\\@b.example/",
            "https:\\\\a.example/",
            "https://a.example\t/",
            "ht\ntps://a.example/",
            "https://a%2eexample/",
            "https://fa\u{df}.example/",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://exa mple/",
        ] {
            assert!(WebAddress::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_written_anew_from_its_reading() {
        for (text, written, host, port) in [
            ("HTTPS://A.Example", "https://a.example/", "a.example", 443),
            (
                "http://a.example:80/x#y",
                "http://a.example/x",
                "a.example",
                80,
            ),
            (
                "https://a.example./x",
                "https://a.example./x",
                "a.example",
                443,
            ),
            ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1", 80),
            ("http://2130706433/", "http://127.0.0.1/", "127.0.0.1", 80),
            (
                "http://[::FFFF:127.0.0.1]:81/",
                "http://[::ffff:7f00:1]:81/",
                "[::ffff:7f00:1]",
                81,
            ),
            (
                "https://b\u{fc}cher.example/",
                "https://xn--bcher-kva.example/",
                "xn--bcher-kva.example",
                443,
            ),
        ] {
            let address = WebAddress::parse(text).unwrap();
            assert_eq!(
                (address.as_str(), address.host(), address.port()),
                (written, host, port),
                "{text}"
            );
        }
    }

    #[test]
    fn what_a_server_names_is_read_like_every_address() {
        let from = WebAddress::parse("https://a.example/dir/page?q").unwrap();
        let to = |reference| from.join(reference).map(|to| to.as_str().to_owned());
        assert_eq!(to("../x").unwrap(), "https://a.example/x");
        assert_eq!(to("//b.example/").unwrap(), "https://b.example/");
        assert_eq!(to("http:\\\\b.example\\y").unwrap(), "http://b.example/y");
        for bad in [
            "javascript:alert(1)",
            "data:text/html,x",
            "https://u@b.example/",
            "ftp://b/",
        ] {
            assert!(to(bad).is_err(), "{bad}");
        }
    }
}
