//! Callers who come with access tokens of identity providers.

use std::sync::Arc;

use callers::settings::OAuth;

use super::Gate;
use crate::{Caller, Credential, Presented, Role, Unaccepted};

/// Whom a client certificate that a door has verified stands for, by the operator's list.
#[derive(Debug, Clone, Copy)]
pub struct Certified<'a> {
    /// `cert:`, the key of the authority, and the name that it vouches for.
    pub id: &'a str,
    pub user: Option<&'a str>,
    pub departments: &'a [String],
    pub agent: Option<&'a str>,
    pub tenant: Option<&'a str>,
    pub is_operator: bool,
}

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

    /// Who comes with a certificate that the operator's list names: the same caller, with the same label, however often the certificate is
    /// renewed. `None`: there are too many callers, or the id is of another kind.
    #[must_use]
    pub fn certified(&self, holder: &Certified<'_>) -> Option<Caller> {
        if !Caller::is_certified(holder.id) {
            return None;
        }
        let name = holder.id.splitn(3, ':').nth(2).unwrap_or(holder.id);
        self.inner().callers.vouched(Credential {
            id: holder.id.to_owned(),
            name: holder.user.unwrap_or(name).to_owned(),
            role: match holder.is_operator {
                true => Role::Operator,
                false => Role::Client,
            },
            view: vocab::View::Double,
            grants: Vec::new(),
            user: holder.user.map(str::to_owned),
            departments: holder.departments.to_vec(),
            agent: holder.agent.map(str::to_owned),
            tenant: holder.tenant.map(str::to_owned),
            context: None,
            digest: [0; 32],
        })
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
