//! Callers who come with access tokens of identity providers.

use std::sync::Arc;

use callers::settings::OAuth;

use super::Gate;
use crate::{Caller, Presented, Unaccepted};

impl Gate {
    /// The providers whose tokens are taken, if any.
    #[must_use]
    pub fn oauth(&self) -> Option<Arc<OAuth>> {
        self.inner().now().providers.settings()
    }

    pub fn oauth_status(&self) -> Option<api::OAuth> {
        let inner = self.inner();
        inner.now().providers.status((inner.clock)().mono_us / 1000)
    }

    /// Who presents an access token, if a provider the operator named issued it for this gate.
    pub async fn identify_access(&self, presented: &Presented<'_>) -> Result<Caller, Unaccepted> {
        let inner = self.inner();
        let time = (inner.clock)();
        let workers = &**inner.hub.workers();
        let now = inner.now();
        let credential = inner
            .providers
            .accept(
                &now.providers,
                presented,
                workers,
                time.unix_ms,
                time.mono_us / 1000,
            )
            .await?;
        let full = || Unaccepted::Unavailable("too many callers are known already".to_owned());
        inner.callers.vouched(credential).ok_or_else(full)
    }
}
