//! The doors that are on a network: bound, with their certificates, and looked after while the gate runs.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use doors::{DoorSpec, Entrance, Limiter, Look};
use gateway::Gate;
use home::Home;
use terminal::Trouble;
use tokio::net::TcpListener;

/// How often the files of certificates are looked at. Whoever writes them expects to see them shown within two seconds.
const LOOK: Duration = Duration::from_secs(1);
/// Days before the end of a certificate on which an operator is told.
const WARN_AT: [u64; 3] = [1, 7, 21];
const DAY: u64 = 24 * 3600;

/// Binds the first door and the others, and reads their certificates. Also where the first one is.
pub(super) async fn open(
    first: SocketAddr,
    others: &[DoorSpec],
) -> Result<(server::Entrances, SocketAddr), Trouble> {
    let listener = bind(first).await?;
    let address = listener.local_addr()?;
    let spec = DoorSpec::plain(first);
    let entrance = Entrance::open(&spec).map_err(Trouble::failed)?;
    let mut entrances = vec![(listener, Arc::new(entrance))];
    for spec in others {
        let entrance = Entrance::open(spec)
            .map_err(|error| Trouble::failed(format!("the door at {}: {error}", spec.listen)))?;
        entrances.push((bind(spec.listen).await?, Arc::new(entrance)));
    }
    Ok((entrances, address))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Trouble> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Trouble::failed(format!(
                "{address} is in use; is a gate running already? Choose another with --listen ADDR"
            )),
            _ => Trouble::failed(format!("cannot listen on {address}: {error}")),
        })
}

/// The entrances with the addresses of their doors, for whoever looks after them.
pub(super) fn ready(entrances: &server::Entrances) -> Vec<(String, Arc<Entrance>)> {
    let named = entrances.iter().map(|(listener, entrance)| {
        let address = listener.local_addr().map(|address| address.to_string());
        (address.unwrap_or_default(), Arc::clone(entrance))
    });
    named.collect()
}

/// Opens the door of those who watch, if there is one. It stays open until the task is aborted.
pub(super) async fn watched(
    gate: &Gate,
    address: Option<SocketAddr>,
    entrances: Vec<(String, Arc<Entrance>)>,
    limiter: Arc<Limiter>,
) -> Result<Option<tokio::task::JoinHandle<io::Result<()>>>, Trouble> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = bind(address).await?;
    let certificates = move || {
        let with_tls = entrances
            .iter()
            .filter_map(|(address, entrance)| Some((address.clone(), entrance.tls()?.until())));
        with_tls.collect()
    };
    let watched = server::Watched {
        gate: gate.clone(),
        limiter,
        certificates: Arc::new(certificates),
    };
    let serving = server::serve_watchers(watched, listener, std::future::pending());
    Ok(Some(tokio::spawn(serving)))
}

/// What counts requests by address, and what it needs to reach its store.
#[derive(Debug, Clone)]
pub(super) struct Limiting {
    limiter: Arc<Limiter>,
    secrets: Arc<dyn secrets::Store>,
}

impl Limiting {
    pub(super) fn new(home: &Home) -> Self {
        Self {
            limiter: Arc::default(),
            secrets: home.secrets(),
        }
    }

    pub(super) fn limiter(&self) -> Arc<Limiter> {
        Arc::clone(&self.limiter)
    }

    pub(super) async fn apply(&self, terms: Option<doors::Terms>) {
        let reference = terms
            .as_ref()
            .and_then(|terms| terms.store.as_ref()?.password.clone());
        let password = match reference {
            Some(reference) => Some(self.secrets.reveal(&reference).await),
            None => None,
        };
        self.limiter.apply(terms, password);
    }
}

/// Looks after certificates and the limiter, and puts on record what becomes of them.
pub(super) async fn tend(
    gate: Gate,
    entrances: Vec<(String, Arc<Entrance>)>,
    limiter: Arc<Limiter>,
) {
    let mut degraded = limiter.degraded();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told = vec![u64::MAX; entrances.len()];
    loop {
        tokio::select! {
            _ = looks.tick() => {
                for ((address, entrance), told) in entrances.iter().zip(&mut told) {
                    certificates(&gate, address, entrance, told).await;
                }
            }
            Ok(()) = degraded.changed() => {
                let why = degraded.borrow_and_update().clone();
                match &why {
                    Some(why) => {
                        tracing::warn!(why, "the store of the rate limit cannot be asked; `rate_limit.on_unavailable` says what holds meanwhile");
                        note(&gate, "limiter.degraded", why);
                    }
                    None => note(&gate, "limiter.restored", "the store of the rate limit is asked again"),
                }
            }
        }
    }
}

async fn certificates(gate: &Gate, address: &str, entrance: &Arc<Entrance>, told: &mut u64) {
    let looked_at = Arc::clone(entrance);
    // Files are read aside: calls go on meanwhile.
    let look =
        tokio::task::spawn_blocking(move || looked_at.tls().map(|tls| (tls.look(), tls.until())));
    let Ok(Some((look, until))) = look.await else {
        return;
    };
    match look {
        Look::Same => {}
        Look::Taken { fingerprint, .. } => {
            *told = u64::MAX;
            let detail = format!("the door at {address} shows {fingerprint} from now on");
            tracing::info!("{detail}");
            note(gate, "door.certificate_taken", &detail);
        }
        Look::Kept(error) => {
            let detail =
                format!("the door at {address} goes on with the certificates it has: {error}");
            tracing::error!("{detail}");
            note(gate, "door.certificate_refused", &detail);
        }
    }
    let left = until
        .duration_since(SystemTime::now())
        .map_or(0, |left| left.as_secs() / DAY);
    if let Some(day) = WARN_AT.into_iter().find(|day| left < *day)
        && day < *told
    {
        *told = day;
        tracing::warn!(
            "the certificate of the door at {address} ends in less than {day} days; renew it"
        );
    }
}

fn note(gate: &Gate, action: &str, detail: &str) {
    if let Err(error) = gate.record_change(action, detail) {
        tracing::error!(%error, "cannot record {action}");
    }
}
