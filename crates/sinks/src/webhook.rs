//! A signed POST per batch.
//!
//! The body is `{"events":[…]}`. `portcullis-signature` is `v1=` and the hex HMAC-SHA256, under the shared secret, of the
//! `portcullis-timestamp` (seconds since 1970), a dot, and the body. A receiver checks it before anything else, refuses old timestamps, and
//! tells repeated events by their `position`. Any status but 2xx means that the batch comes again.

use audit::Event;
use ring::hmac;

use crate::driver::{Broken, Post, pieces};

#[derive(Debug)]
pub(crate) struct Webhook {
    post: Post,
    /// Reference of the shared secret.
    secret: Option<String>,
}

impl Webhook {
    pub(crate) fn new(post: Post, secret: Option<String>) -> Self {
        Self { post, secret }
    }

    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        let mut taken = 0;
        for piece in pieces(events) {
            self.send(piece)
                .await
                .map_err(|why| Broken { taken, why })?;
            taken += piece.len();
        }
        Ok(())
    }

    async fn send(&self, events: &[Event]) -> Result<(), String> {
        let lines: Vec<String> = events.iter().map(Event::line).collect();
        let body = format!("{{\"events\":[{}]}}", lines.join(","));
        let timestamp = ((self.post.outside.clock)().unix_ms / 1000).to_string();
        let mut headers = vec![("portcullis-timestamp".to_owned(), timestamp.clone())];
        if let Some(reference) = &self.secret {
            let secret = self.post.reveal(reference).await?;
            headers.push((
                "portcullis-signature".to_owned(),
                signature(secret.expose(), &timestamp, &body),
            ));
        }
        self.post.send(body, headers).await.map(drop)
    }
}

fn signature(secret: &str, timestamp: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut signing = hmac::Context::with_key(&key);
    for part in [timestamp, ".", body] {
        signing.update(part.as_bytes());
    }
    let digits = signing
        .sign()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("v1={digits}")
}

#[cfg(test)]
mod tests {
    use super::signature;

    #[test]
    fn the_signature_covers_time_and_body() {
        // As `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret` says.
        let signed = signature("secret", "1700000000", "{}");
        assert_eq!(
            signed,
            "v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
        );
        assert_ne!(signed, signature("secret", "1700000001", "{}"));
        assert_ne!(signed, signature("secret", "1700000000", "{ }"));
        assert_ne!(signed, signature("other", "1700000000", "{}"));
    }
}
